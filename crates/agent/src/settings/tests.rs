use super::dispatcher::DispatcherType;
use super::identity::SourceSettings;
use super::*;
use canyon_domain::runner::RunnerType;

pub(super) type Variables = Vec<(&'static str, &'static str)>;

const STATE: (&str, &str) = ("CANYON_AGENT_STATE_DIR", "/state");

fn layer(variables: &Variables, faults: &mut Faults) -> Layer {
    let owned = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Layer::of_environment(owned, faults)
}

pub(super) fn read(variables: &Variables) -> Result<Settings, String> {
    read_at(variables, &Vec::new(), &[])
}

fn read_at(variables: &Variables, machine: &Variables, files: &[&str]) -> Result<Settings, String> {
    let mut faults = Faults::default();
    let layer = layer(variables, &mut faults);
    let variable = |wanted: &str| {
        machine.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned())
    };
    let exists = |path: &Path| files.iter().any(|file| Path::new(file) == path);
    let machine = Machine { variable: &variable, exists: &exists };
    Settings::read(&layer, &machine, faults).map_err(|faults| faults.to_string())
}

fn good() -> Variables {
    vec![
        ("CANYON_API_URL", "https://canyon.example.com"),
        ("CANYON_RUNNER_PATH", "acme/far"),
        ("CANYON_AGENT_NAME", "east-1"),
        ("CANYON_JOB_DISPATCHER_TYPE", "local"),
        STATE,
    ]
}

pub(super) fn with(more: &Variables) -> Variables {
    good()
        .into_iter()
        .filter(|(name, _)| more.iter().all(|(other, _)| name != other))
        .chain(more.clone())
        .collect()
}

#[test]
fn an_environment_file_of_a_similar_product_is_understood() {
    let settings = read(&vec![
        ("CANYON_API_URL", "http://canyon-api-host:8000"),
        ("CANYON_RUNNER_PATH", "my-group/my-runner-name"),
        ("CANYON_SERVICE_ACCOUNT_PATH", "my-group/my-service-account-name"),
        ("CANYON_CREDENTIAL_HELPER_CMD_PATH", "/opt/credhelpers/iamoidccredhelper"),
        (
            "CANYON_CREDENTIAL_HELPER_CMD_ARGS",
            "-region=us-east-2 -endpoint=https://my-oidc-provider-host -aud=canyon",
        ),
        ("CANYON_SERVICE_DISCOVERY_HOST", "canyon-api-host"),
        ("CANYON_JOB_DISPATCHER_TYPE", "local"),
        ("CANYON_JOB_DISPATCHER_DATA_API_URL", "http://canyon-api-host:8000"),
        ("CANYON_AGENT_NAME", "east-1"),
        STATE,
    ])
    .unwrap();
    let [served] = &*settings.served else { panic!("{:?}", settings.served) };
    assert_eq!(served.org.as_str(), "my-group");
    assert_eq!(served.runner.as_ref().unwrap().as_str(), "my-runner-name");
    assert_eq!(served.account.as_ref().unwrap().as_str(), "my-service-account-name");
    let IdentitySettings::ServiceAccount(source) = settings.identity else {
        panic!("{:?}", settings.identity)
    };
    let SourceSettings::Helper(program, arguments) = source else { panic!("{source:?}") };
    assert_eq!(program, Path::new("/opt/credhelpers/iamoidccredhelper"));
    assert_eq!(arguments.len(), 3);
    assert_eq!(settings.dispatcher.kind, DispatcherType::Local);
    assert_eq!(settings.warnings.len(), 1, "plain http is reported: {:?}", settings.warnings);
}

/// A whole environment file of a similar product, except for the lines of its dispatcher.
const FIELD: &str = "CANYON_API_URL=http://canyon-api-host:8000
CANYON_RUNNER_PATH=my-group/my-runner-name
CANYON_SERVICE_ACCOUNT_PATH=my-group/my-service-account-name
CANYON_CREDENTIAL_HELPER_CMD_PATH=/opt/credhelpers/iamoidccredhelper
CANYON_CREDENTIAL_HELPER_CMD_ARGS=-region=us-east-2 -endpoint=https://my-oidc-provider-host -aud=canyon
CANYON_SERVICE_DISCOVERY_HOST=my-service-discovery-host
CANYON_JOB_DISPATCHER_DATA_API_URL=http://canyon-api-host:8000
CANYON_AGENT_NAME=east-1
CANYON_AGENT_STATE_DIR=/state
";
const ECS: &str = "CANYON_JOB_DISPATCHER_TYPE=ecs
CANYON_JOB_DISPATCHER_DATA_TASK_DEFINITION=arn:aws:ecs:us-east-2:123456789012:task-definition/executor:1
CANYON_JOB_DISPATCHER_DATA_REGION=us-east-2
CANYON_JOB_DISPATCHER_DATA_CLUSTER=jobs
CANYON_JOB_DISPATCHER_DATA_SUBNETS=subnet-0a,subnet-0b
CANYON_JOB_DISPATCHER_DATA_LAUNCH_TYPE=ec2
";
const KUBERNETES: &str = "CANYON_JOB_DISPATCHER_TYPE=kubernetes
CANYON_JOB_DISPATCHER_DATA_AUTH_TYPE=eks_iam
CANYON_JOB_DISPATCHER_DATA_IMAGE=registry.example.com/canyon-runner:1
CANYON_JOB_DISPATCHER_DATA_MEMORY_REQUEST=256Mi
CANYON_JOB_DISPATCHER_DATA_MEMORY_LIMIT=512Mi
CANYON_JOB_DISPATCHER_DATA_NAMESPACE=jobs
CANYON_JOB_DISPATCHER_DATA_REGION=us-east-2
CANYON_JOB_DISPATCHER_DATA_EKS_CLUSTER=production
";
const DOCKER: &str = "CANYON_JOB_DISPATCHER_TYPE=docker
CANYON_JOB_DISPATCHER_DATA_HOST=unix:///var/run/docker.sock
CANYON_JOB_DISPATCHER_DATA_IMAGE=registry.example.com/canyon-runner:1
CANYON_JOB_DISPATCHER_DATA_LOCAL_IMAGE=true
CANYON_JOB_DISPATCHER_DATA_EXTRA_HOSTS=canyon-api-host:10.0.0.5
CANYON_JOB_DISPATCHER_DATA_MEMORY_LIMIT=42 MB
CANYON_JOB_DISPATCHER_DATA_BIND_PATH=/opt/authorities:/opt/authorities
CANYON_JOB_DISPATCHER_DATA_REGISTRY_USERNAME=user
CANYON_JOB_DISPATCHER_DATA_REGISTRY_PASSWORD=s3cr3t
";
const LOCAL: &str = "CANYON_JOB_DISPATCHER_TYPE=local\n";

/// The warnings of an agent that starts with these files, and the runner type that it serves.
fn started_with(files: [&'static str; 2]) -> (Vec<String>, Result<RunnerType, String>) {
    let lines = files.into_iter().flat_map(str::lines);
    let mut settings = read(&lines.filter_map(|line| line.split_once('=')).collect()).unwrap();
    // These two settings have defaults on a real machine.
    let folder = tempfile::tempdir().unwrap();
    settings.state_dir = folder.path().to_owned();
    settings.runner_program = std::env::current_exe().ok();
    let kind = crate::kinds::of(&settings).map_err(|error| error.to_string());
    (settings.warnings, kind.map(|kind| kind.serves()))
}

#[tokio::test]
async fn a_whole_file_starts_each_kind_of_platform_and_warns_of_unused_settings() {
    let (warnings, kind) = started_with([FIELD, ECS]);
    assert_eq!(kind, Ok(RunnerType::EcsAgent));
    insta::assert_snapshot!(warnings.join("\n"), @r"
    http://canyon-api-host:8000 is not https: anyone on the network in between can read and change the traffic
    CANYON_SERVICE_DISCOVERY_HOST is not the host of http://canyon-api-host:8000, and is not used: the agent uses only that address
    CANYON_JOB_DISPATCHER_DATA_TASK_DEFINITION is not used: Canyon registers its own definition from the runner's `job`; set the tasks' roles, image and size there
    CANYON_JOB_DISPATCHER_DATA_LAUNCH_TYPE is `ec2`: tasks of runners that set no launch type run on instances, and can reach the instances' credentials unless these have ECS_AWSVPC_BLOCK_IMDS=true; to confirm that you know this, set CANYON_JOB_DISPATCHER_DATA_ACKNOWLEDGE_SHARED_INSTANCE_CREDENTIALS=true
    ");
    for (file, serves) in [
        (KUBERNETES, RunnerType::KubernetesAgent),
        (DOCKER, RunnerType::DockerAgent),
        (LOCAL, RunnerType::Local),
    ] {
        let (warnings, kind) = started_with([FIELD, file]);
        assert_eq!(kind, Ok(serves));
        let [_, host] = &*warnings else { panic!("{warnings:?}") };
        assert!(host.starts_with("CANYON_SERVICE_DISCOVERY_HOST is not the host"), "{host}");
    }
}

#[tokio::test]
async fn the_risk_of_tasks_on_instances_can_be_acknowledged_and_a_denial_is_refused() {
    let known = "CANYON_JOB_DISPATCHER_DATA_ACKNOWLEDGE_SHARED_INSTANCE_CREDENTIALS=true";
    let denied = "CANYON_JOB_DISPATCHER_DATA_ACKNOWLEDGE_SHARED_INSTANCE_CREDENTIALS=false";
    let file = |last: &'static str| -> &'static str { format!("{ECS}{last}\n").leak() };
    let (warnings, kind) = started_with([FIELD, file(known)]);
    assert_eq!(kind, Ok(RunnerType::EcsAgent));
    assert!(!warnings.iter().any(|warning| warning.contains("LAUNCH_TYPE")), "{warnings:?}");
    let refused = started_with([FIELD, file(denied)]).1.unwrap_err();
    assert!(refused.contains("SHARED_INSTANCE_CREDENTIALS is false"), "{refused}");
    let elsewhere: &str = ECS.replace("=ec2", "=external").leak();
    let refused = started_with([FIELD, elsewhere]).1.unwrap_err();
    assert!(refused.contains("LAUNCH_TYPE is neither fargate nor ec2"), "{refused}");
}

#[test]
fn every_setting_of_a_platform_is_known_for_its_type_and_for_no_other() {
    let of = [
        ("ecs", "TASK_DEFINITION REGION CLUSTER SUBNETS LAUNCH_TYPE"),
        (
            "kubernetes",
            "AUTH_TYPE IMAGE MEMORY_REQUEST MEMORY_LIMIT NAMESPACE REGION EKS_CLUSTER CPU_REQUEST CPU_LIMIT \
             KUBE_CONFIG_PATH KUBE_SERVER CLIENT_CERT CLIENT_KEY CA_CERT SECURITY_CONTEXT_RUN_AS_USER \
             SECURITY_CONTEXT_RUN_AS_GROUP SECURITY_CONTEXT_RUN_AS_NON_ROOT NODE_SELECTOR HOST_ALIASES \
             POD_ANNOTATIONS POD_LABELS",
        ),
        (
            "docker",
            "HOST IMAGE LOCAL_IMAGE EXTRA_HOSTS MEMORY_LIMIT BIND_PATH REGISTRY_USERNAME REGISTRY_PASSWORD",
        ),
    ];
    for (kind, names) in of {
        for name in names.split_whitespace() {
            let variable: &'static str = format!("CANYON_JOB_DISPATCHER_DATA_{name}").leak();
            let given = with(&vec![("CANYON_JOB_DISPATCHER_TYPE", kind), (variable, "s3cr3t")]);
            let settings = read(&given).unwrap();
            assert_eq!(settings.dispatcher.get(&name.to_ascii_lowercase()), Some("s3cr3t"));
            assert!(!format!("{settings:?}").contains("s3cr3t"), "{variable} is shown");
            let elsewhere = read(&with(&vec![(variable, "s3cr3t")])).unwrap_err();
            assert!(elsewhere.contains(variable) && elsewhere.contains(kind), "{elsewhere}");
            assert!(!elsewhere.contains("s3cr3t"), "{elsewhere}");
        }
    }
}

#[test]
fn all_faults_are_reported_at_once_with_their_reasons() {
    insta::assert_snapshot!(read(&vec![("CANYON_AGENT_NAME", "east-1"), STATE]).unwrap_err(), @r"
    CANYON_API_URL is not set: set it to Canyon's address
    CANYON_JOB_DISPATCHER_TYPE is not set: set the jobs' platform: kubernetes, ecs, docker or local
    CANYON_RUNNER_PATH is not set: set the runner to serve: ORG/RUNNER, or ORG to serve the runners that select this agent
    ");
    insta::assert_snapshot!(read(&vec![
        ("CANYON_API_URL", "ftp://user:s3cr3t@x"),
        ("CANYON_ENDPOINT", "https://other.example.com"),
        ("CANYON_RUNNER_PATH", "acme//far"),
        ("CANYON_SERVICE_ACCOUNT_PATH", "other/account"),
        ("CANYON_TOKEN", "s3cr3t"),
        ("CANYON_AGENT_NAME", "East 1"),
        ("CANYON_AGENT_CONCURRENCY", "0"),
        ("CANYON_AGENT_CONCURENCY", "4"),
        ("CANYON_AGENT_DRAIN_SECONDS", "soon"),
        ("CANYON_AGENT_LISTEN_HEALTH", "8080"),
        ("CANYON_AGENT_LOG_FORMAT", "xml"),
        ("CANYON_IDENTITY_SOURCE", "azure"),
        ("CANYON_JOB_DISPATCHER_TYPE", "ecs"),
        ("CANYON_JOB_DISPATCHER_DATA_NAMESPACE", "x"),
        ("CANYON_JOB_DISPATCHER_DATA_NAMESPCE", "x"),
        STATE,
    ]).unwrap_err(), @r"
    CANYON_AGENT_CONCURENCY is not a setting of the agent
    CANYON_AGENT_CONCURRENCY is not a number from 1 to 10000
    CANYON_AGENT_DRAIN_SECONDS is not a number from 0 to 86400
    CANYON_AGENT_LISTEN_HEALTH is not ADDRESS:PORT, or :PORT for every address
    CANYON_AGENT_LOG_FORMAT is neither text nor json
    CANYON_AGENT_NAME does not fit: `East 1` is not a valid agent id: use 1 to 100 lower case letters, digits, hyphens, underscores and single dots, starting with a letter or digit
    CANYON_API_URL is not an http or https address
    CANYON_ENDPOINT has another value than CANYON_API_URL; set only one of them
    CANYON_IDENTITY_SOURCE is not one of file, aws, gcp and helper
    CANYON_JOB_DISPATCHER_DATA_NAMESPACE is for the type `kubernetes`, but this agent has the type `ecs`
    CANYON_JOB_DISPATCHER_DATA_NAMESPCE is not a setting of the type `ecs`, nor of any other type
    CANYON_RUNNER_PATH is not ORG/NAME
    CANYON_SERVICE_ACCOUNT_PATH contradicts CANYON_TOKEN: the agent signs in with one of them, so set only one
    ");
    insta::assert_snapshot!(read(&with(&vec![
        ("CANYON_CREDENTIAL_HELPER_CMD_ARGS", "-a"),
        ("CANYON_AGENT_KEY_FILE", "/k"),
        ("CANYON_AGENT_KEY_SECRET", "k"),
        ("CANYON_AGENT_LABELS", "a=b,c,a=d,x y=z"),
        ("CANYON_AGENT_RUN_UNTAGGED_JOBS", "perhaps"),
        ("CANYON_JOB_DISPATCHER_TYPE", "nomad"),
    ])).unwrap_err(), @r"
    CANYON_AGENT_KEY_SECRET contradicts CANYON_AGENT_KEY_FILE: the agent signs in with one of them, so set only one
    CANYON_AGENT_LABELS has `a` twice, with different values
    CANYON_AGENT_LABELS has a name that is not a label: letters, digits and `._-/`, starting with a letter or digit
    CANYON_AGENT_LABELS is not NAME=VALUE,...
    CANYON_AGENT_RUN_UNTAGGED_JOBS is neither true nor false
    CANYON_CREDENTIAL_HELPER_CMD_ARGS is for signing in as a service account, but CANYON_SERVICE_ACCOUNT_PATH is not set
    CANYON_JOB_DISPATCHER_TYPE is not one of kubernetes, ecs, docker and local
    ");
}

#[test]
fn a_service_account_needs_a_token_of_its_platform_and_not_the_clusters_own() {
    let account = ("CANYON_SERVICE_ACCOUNT_PATH", "acme/agents");
    let source = |variables: &Variables, machine: &Variables, files: &[&str]| {
        let settings = read_at(&with(variables), machine, files)?;
        let IdentitySettings::ServiceAccount(source) = settings.identity else { panic!() };
        Ok::<_, String>(source)
    };
    let file = |path: &str| Ok(SourceSettings::File(path.into()));
    let aws = vec![("AWS_WEB_IDENTITY_TOKEN_FILE", "/aws")];
    let projected = "/var/run/secrets/canyon/token";
    let clusters = "/var/run/secrets/kubernetes.io/serviceaccount/token";
    assert_eq!(source(&vec![account], &aws, &[projected]), file(projected));
    assert_eq!(source(&vec![account], &aws, &[]), file("/aws"));
    let named = ("CANYON_IDENTITY_TOKEN_FILE", "/mine");
    assert_eq!(source(&vec![account, named], &aws, &[projected]), file("/mine"));
    let gcp = ("CANYON_IDENTITY_SOURCE", "gcp");
    let host = vec![("GCE_METADATA_HOST", "127.0.0.1:1")];
    let expected = SourceSettings::Gcp("127.0.0.1:1".to_owned(), "canyon".to_owned());
    assert_eq!(source(&vec![account, gcp], &host, &[]), Ok(expected));
    let none = source(&vec![account], &vec![], &[clusters]).unwrap_err();
    assert!(none.starts_with("CANYON_IDENTITY_TOKEN_FILE is not set: "), "{none}");
}

#[test]
fn flags_take_precedence_over_the_environment_and_that_over_the_file() {
    let mut faults = Faults::default();
    let line = [
        "canyon-agent",
        "--concurrency",
        "3",
        "--label",
        "a=b",
        "--job-dispatcher-data",
        "image=flag",
    ];
    let matches = crate::arguments::command().try_get_matches_from(line).unwrap();
    let flags = Layer::of_flags(&matches, &mut faults);
    let environment = layer(
        &vec![("CANYON_AGENT_CONCURRENCY", "4"), ("CANYON_AGENT_DRAIN_SECONDS", "5")],
        &mut faults,
    );
    let text = "concurrency: 6\ndrain_seconds: 7\nsingle: true\njob_dispatcher_data:\n  image: file\n  host: 'h'\n";
    let file = file::parse(text, "`f`", &mut faults);
    assert_eq!(faults.to_string(), "");
    let all = flags.over(environment).over(file);
    let value = |key: &str| all.0[key].value.as_str();
    assert_eq!([value("concurrency"), value("drain_seconds"), value("single")], ["3", "5", "true"]);
    assert_eq!(
        [value("job_dispatcher_data.image"), value("job_dispatcher_data.host")],
        ["flag", "h"]
    );
    assert_eq!(value("labels"), "a=b");
}

#[test]
fn a_file_is_refused_with_its_line() {
    for (text, expected) in [
        ("nme: x", "`nme` in `f` is not a setting of the agent"),
        ("name: [a]", "line 1 of `f` has a list, a map or an alias instead of a value"),
        ("name: a\nname: b", "line 2 of `f` sets `name` a second time"),
        ("- name", "line 1 of `f` is not a line NAME: VALUE"),
        ("name: &a x", "line 1 of `f` has a list, a map or an alias instead of a value"),
    ] {
        let mut faults = Faults::default();
        file::parse(text, "`f`", &mut faults);
        assert_eq!(faults.to_string(), expected, "{text:?}");
    }
    let mut faults = Faults::default();
    assert_eq!(file::parse("# nothing\n", "`f`", &mut faults), Layer::default());
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn a_secret_has_no_flag() {
    let line = ["canyon-agent", "--token", "x"];
    assert!(crate::arguments::command().try_get_matches_from(line).is_err());
}

#[test]
fn variables_that_kubernetes_sets_for_a_service_called_like_the_agent_are_ignored() {
    let of_services = vec![
        ("CANYON_AGENT_SERVICE_HOST", "10.0.0.11"),
        ("CANYON_AGENT_SERVICE_PORT", "9090"),
        ("CANYON_AGENT_SERVICE_PORT_HTTP_METRICS", "9090"),
        ("CANYON_AGENT_PORT", "tcp://10.0.0.11:9090"),
        ("CANYON_AGENT_PORT_9090_TCP", "tcp://10.0.0.11:9090"),
        ("CANYON_AGENT_PORT_9090_TCP_PROTO", "tcp"),
        ("CANYON_AGENT_PORT_9090_TCP_PORT", "9090"),
        ("CANYON_AGENT_PORT_9090_TCP_ADDR", "10.0.0.11"),
        ("CANYON_AGENT_NAMES_SERVICE_HOST", "10.0.0.12"),
        ("CANYON_AGENT_NAMES_PORT", "udp://10.0.0.12:53"),
        ("CANYON_AGENT_NAMES_PORT_53_UDP", "udp://10.0.0.12:53"),
    ];
    assert_eq!(read(&with(&of_services)).map(|settings| settings.warnings), Ok(Vec::new()));
    for mistake in [
        "CANYON_AGENT_SERVICE",
        "CANYON_AGENT_HOST",
        "CANYON_AGENT_PORT",
        "CANYON_AGENT_HEALTH_PORT",
        "CANYON_AGENT_PORT_9090",
        "CANYON_AGENT_PORT_9090_HTTP",
        "CANYON_AGENT_PORT_9090_TCP_NAME",
    ] {
        let fault = read(&with(&vec![(mistake, "8080")])).unwrap_err();
        assert_eq!(fault, format!("{mistake} is not a setting of the agent"));
    }
}

#[test]
fn a_boolean_is_read_as_by_go_programs_or_as_yes_and_no() {
    for (words, expected) in
        [("true True TRUE t T 1 yes Yes", true), ("false False FALSE f F 0 no No", false)]
    {
        for word in words.split(' ') {
            let settings = read(&with(&vec![("CANYON_AGENT_RUN_UNTAGGED_JOBS", word)])).unwrap();
            assert_eq!(settings.run_untagged_jobs, Some(expected), "{word}");
        }
    }
}
