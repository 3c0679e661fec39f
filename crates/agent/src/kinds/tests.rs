//! Each variable of the environment, and what the platform's settings become. Every variable has a different value, so that
//! no mix-up goes unnoticed, and the results are compared as a whole.

use super::values::Values;
use super::{KindError, docker, ecs, kubernetes};
use crate::settings::Settings;
use crate::settings::dispatcher::{DispatcherSettings, DispatcherType};
use crate::settings::faults::Faults;
use crate::settings::identity::Machine;
use crate::settings::layers::Layer;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_dispatch::docker::{DockerSettings, EngineUser};
use canyon_dispatch::ecs::EcsDefaults;
use canyon_dispatch::kubernetes::{ClusterSource, JobDefaults};
use canyon_domain::runner::ecs::LaunchType;
use secrecy::ExposeSecret as _;
use std::collections::{BTreeMap, BTreeSet};

/// Names and values.
type Pairs<'a> = &'a [(&'a str, &'a str)];

const NOTHING: Pairs<'static> = &[];
const DATA: &str = "CANYON_JOB_DISPATCHER_DATA_";
const API_URL: &str = "https://jobs.canyon.example.com";

/// The platform's settings of an agent with these variables, and with an address for jobs.
fn settings(kind: DispatcherType, data: Pairs<'_>) -> DispatcherSettings {
    let own = [
        ("CANYON_API_URL", "https://canyon.example.com"),
        ("CANYON_RUNNER_PATH", "acme/far"),
        ("CANYON_AGENT_NAME", "east-1"),
        ("CANYON_AGENT_STATE_DIR", "/state"),
        ("CANYON_JOB_DISPATCHER_TYPE", kind.as_str()),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let data = data.iter().chain(&[("API_URL", API_URL)]);
    let data = data.map(|(name, value)| (format!("{DATA}{name}"), (*value).to_owned()));
    let mut faults = Faults::default();
    let layer = Layer::of_environment(own.into_iter().chain(data), &mut faults);
    let machine = Machine { variable: &|_| None, exists: &|_| false };
    Settings::read(&layer, &machine, faults).unwrap().dispatcher
}

/// An environment with these variables.
fn machine(variables: Pairs<'_>) -> impl Fn(&str) -> Option<String> {
    move |wanted| {
        let found = variables.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| (*value).to_owned())
    }
}

/// Checks that `given` names every setting of the kind.
#[track_caller]
fn are_all(kind: DispatcherType, given: &[Pairs<'_>]) {
    let given = given.iter().copied().flatten();
    let given: BTreeSet<_> = given.map(|(name, _)| name.to_ascii_lowercase()).collect();
    let known: BTreeSet<_> = kind.names().iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(given, known);
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn map(pairs: Pairs<'_>) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| (text(name), text(value))).collect()
}

#[test]
fn the_address_for_jobs_is_read_for_every_kind() {
    for kind in [
        DispatcherType::Ecs,
        DispatcherType::Kubernetes,
        DispatcherType::Docker,
        DispatcherType::Local,
    ] {
        let settings = settings(kind, NOTHING);
        assert_eq!((settings.kind, settings.api_url.as_deref()), (kind, Some(API_URL)));
    }
    // Local jobs have no other setting.
    are_all(DispatcherType::Local, &[]);
}

/// The defaults that the owner of a cluster sets for all jobs there.
const JOBS: [(&str, &str); 13] = [
    ("IMAGE", "registry.example.com/runner:1"),
    ("NAMESPACE", "jobs"),
    ("MEMORY_REQUEST", "256Mi"),
    ("MEMORY_LIMIT", "512Mi"),
    ("CPU_REQUEST", "250m"),
    ("CPU_LIMIT", "500m"),
    ("SECURITY_CONTEXT_RUN_AS_USER", "1001"),
    ("SECURITY_CONTEXT_RUN_AS_GROUP", "1002"),
    ("SECURITY_CONTEXT_RUN_AS_NON_ROOT", "true"),
    ("NODE_SELECTOR", "disk=ssd, zone=a"),
    ("HOST_ALIASES", "10.0.0.5=git.internal git, 10.0.0.6=other.internal"),
    ("POD_ANNOTATIONS", r#"{ "example.com/owner": "platform" }"#),
    ("POD_LABELS", "team=shop"),
];

fn jobs() -> JobDefaults {
    JobDefaults {
        image: Some(text("registry.example.com/runner:1")),
        namespace: Some(text("jobs")),
        memory_request: Some(text("256Mi")),
        memory_limit: Some(text("512Mi")),
        cpu_request: Some(text("250m")),
        cpu_limit: Some(text("500m")),
        run_as_user: Some(1001),
        run_as_group: Some(1002),
        run_as_non_root: Some(true),
        node_selector: map(&[("disk", "ssd"), ("zone", "a")]),
        host_aliases: BTreeMap::from([
            (text("10.0.0.5"), vec![text("git.internal"), text("git")]),
            (text("10.0.0.6"), vec![text("other.internal")]),
        ]),
        annotations: map(&[("example.com/owner", "platform")]),
        labels: map(&[("team", "shop")]),
    }
}

/// The access to the cluster with the settings `access`. All defaults for jobs are set too, and must be read.
#[track_caller]
fn cluster_of(access: Pairs<'_>, variables: Pairs<'_>) -> ClusterSource {
    let data: Vec<_> = JOBS.iter().chain(access).copied().collect();
    let settings = settings(DispatcherType::Kubernetes, &data);
    let (source, defaults) = kubernetes::read(&settings, &machine(variables)).unwrap();
    assert_eq!(defaults, jobs());
    source
}

#[test]
fn in_a_pod_the_cluster_is_the_pods_own() {
    let pod = [("KUBERNETES_SERVICE_HOST", "10.96.0.1"), ("KUBERNETES_SERVICE_PORT", "6443")];
    for access in [NOTHING, &[("AUTH_TYPE", "in_cluster")]] {
        let source = cluster_of(access, &pod);
        let ClusterSource::InCluster { server, folder } = source else { panic!("{source:?}") };
        assert_eq!(server, "https://10.96.0.1:6443");
        assert_eq!(folder.to_str(), Some("/var/run/secrets/kubernetes.io/serviceaccount"));
    }
}

#[test]
fn a_cluster_is_found_by_the_context_of_the_named_kubeconfig() {
    let folder = tempfile::tempdir().unwrap();
    let [named, other] = ["named", "other"].map(|name| folder.path().join(name));
    for file in [&named, &other] {
        std::fs::write(file, "").unwrap();
    }
    let access = [
        ("AUTH_TYPE", "kube_config"),
        ("KUBE_CONFIG_PATH", named.to_str().unwrap()),
        ("KUBE_CONFIG_CONTEXT", "production"),
    ];
    let source = cluster_of(&access, &[("KUBECONFIG", other.to_str().unwrap())]);
    let ClusterSource::KubeConfig { path, context } = source else { panic!("{source:?}") };
    assert_eq!((path, context.as_deref()), (named, Some("production")));
    // Without a setting, and outside of a pod, it is the kubeconfig that `kubectl` uses.
    let source = cluster_of(&[], &[("KUBECONFIG", other.to_str().unwrap())]);
    let ClusterSource::KubeConfig { path, context } = source else { panic!("{source:?}") };
    assert_eq!((path, context), (other, None));
}

#[test]
fn the_agent_signs_in_with_its_certificate_and_key_and_trusts_the_clusters_authority() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.pem");
    let [shown, own, its] = ["CERTIFICATE OF AGENT", "KEY", "CERTIFICATE OF CLUSTER"]
        .map(|what| format!("-----BEGIN {what}-----\n"));
    std::fs::write(&file, &own).unwrap();
    let packed = STANDARD.encode(&its);
    let access = [
        ("AUTH_TYPE", "x509_cert"),
        ("KUBE_SERVER", "https://10.0.0.1:6443"),
        ("CLIENT_CERT", &*shown),
        ("CLIENT_KEY", file.to_str().unwrap()),
        ("CA_CERT", &*packed),
    ];
    let source = cluster_of(&access, &[]);
    let ClusterSource::Certificate { server, authority, certificate, key } = source else {
        panic!("{source:?}")
    };
    assert_eq!(server, "https://10.0.0.1:6443");
    assert_eq!((authority, certificate), (packed, STANDARD.encode(&shown)));
    assert!(key.expose_secret() == STANDARD.encode(&own), "the key differs");
}

#[tokio::test]
async fn an_eks_cluster_is_found_by_its_name_in_its_region() {
    let access = [("AUTH_TYPE", "eks_iam"), ("REGION", "us-east-2"), ("EKS_CLUSTER", "production")];
    let endpoint = ("AWS_ENDPOINT_URL_EKS", "https://eks.example.com");
    let source = cluster_of(&access, &[endpoint, ("AWS_REGION", "eu-west-1")]);
    let ClusterSource::EksIam { ambient, region, cluster } = source else { panic!("{source:?}") };
    assert_eq!((&*region, &*cluster), ("us-east-2", "production"));
    assert_eq!(ambient.endpoints().aws_eks.as_deref(), Some(endpoint.1));
    // Its credentials are for that region too.
    let shown = format!("{ambient:?}");
    assert!(shown.contains("us-east-2") && !shown.contains("eu-west-1"), "{shown}");
}

/// All settings for the access to a cluster.
const ACCESS: [&str; 8] = [
    "KUBE_CONFIG_PATH",
    "KUBE_CONFIG_CONTEXT",
    "KUBE_SERVER",
    "CLIENT_CERT",
    "CLIENT_KEY",
    "CA_CERT",
    "REGION",
    "EKS_CLUSTER",
];

#[test]
fn settings_of_another_access_method_are_refused_by_name() {
    let every: Vec<_> = ACCESS.iter().map(|name| (*name, "x")).collect();
    are_all(DispatcherType::Kubernetes, &[&JOBS, &every, &[("AUTH_TYPE", "")]]);
    for (method, own) in [
        ("in_cluster", ""),
        ("kube_config", "KUBE_CONFIG_PATH KUBE_CONFIG_CONTEXT"),
        ("x509_cert", "KUBE_SERVER CLIENT_CERT CLIENT_KEY CA_CERT"),
        ("eks_iam", "REGION EKS_CLUSTER"),
    ] {
        let given: Vec<_> = every.iter().copied().chain([("AUTH_TYPE", method)]).collect();
        let settings = settings(DispatcherType::Kubernetes, &given);
        let KindError(message) = kubernetes::read(&settings, &machine(&[])).unwrap_err();
        let reason = format!(" is not for `auth_type` `{method}`");
        let refused: BTreeSet<_> = message
            .lines()
            .filter_map(|line| line.strip_prefix(DATA)?.strip_suffix(&*reason))
            .collect();
        let is_other = |name: &&str| !own.split(' ').any(|own| own == *name);
        let others: BTreeSet<_> = ACCESS.into_iter().filter(is_other).collect();
        assert_eq!(refused, others, "{method}: {message}");
    }
}

#[test]
fn each_setting_of_docker_is_read() {
    let data = [
        ("HOST", "tcp://10.0.0.7:2375"),
        ("IMAGE", "registry.example.com/runner:1"),
        ("LOCAL_IMAGE", "true"),
        ("EXTRA_HOSTS", "canyon:10.0.0.5, git:host-gateway"),
        ("MEMORY_LIMIT", "42 MB"),
        ("BIND_PATH", "/opt/authorities:/authorities:ro"),
        ("NETWORK", "of-jobs"),
        ("REGISTRY_USERNAME", "puller"),
        ("REGISTRY_PASSWORD", "s3cr3t"),
        ("ACKNOWLEDGE_HOST_CREDENTIALS", "true"),
    ];
    are_all(DispatcherType::Docker, &[&data]);
    let settings = settings(DispatcherType::Docker, &data);
    let mut values = Values::of(&settings);
    // Destructured, so that a new field does not compile without a line in this test.
    let DockerSettings {
        user,
        host,
        certificates,
        image,
        local_image,
        extra_hosts,
        memory_limit,
        bind_path,
        registry_username,
        registry_password,
        network,
        acknowledge_host_credentials,
    } = docker::given(&mut values);
    assert_eq!(values.faults.to_string(), "");
    assert_eq!(user, EngineUser::Agent);
    assert_eq!(host.as_deref(), Some("tcp://10.0.0.7:2375"));
    assert_eq!(certificates, None, "certificates come from DOCKER_CERT_PATH");
    assert_eq!(image.as_deref(), Some("registry.example.com/runner:1"));
    assert!(local_image && acknowledge_host_credentials);
    assert_eq!(extra_hosts, ["canyon:10.0.0.5", "git:host-gateway"]);
    assert_eq!(memory_limit.as_deref(), Some("42 MB"));
    assert_eq!(bind_path.as_deref(), Some("/opt/authorities:/authorities:ro"));
    assert_eq!(network.as_deref(), Some("of-jobs"));
    assert_eq!(registry_username.as_deref(), Some("puller"));
    let password = registry_password.unwrap();
    assert!(password.expose_secret() == "s3cr3t", "the password differs");
}

#[tokio::test]
async fn each_setting_of_ecs_is_read() {
    let data = [
        ("REGION", "us-east-2"),
        ("CLUSTER", "jobs"),
        ("SUBNETS", "subnet-0a, subnet-0b"),
        ("IMAGE", "registry.example.com/runner:1"),
        ("LAUNCH_TYPE", "EC2"),
        ("ACKNOWLEDGE_SHARED_INSTANCE_CREDENTIALS", "true"),
        // Not used, as the agent warns at its start.
        ("TASK_DEFINITION", "executor:1"),
        ("ENDPOINT", "https://unused.example.com"),
        ("EXTRA_SERVICE_DISCOVERY_HOSTS", "unused.example.com"),
    ];
    are_all(DispatcherType::Ecs, &[&data]);
    let settings = settings(DispatcherType::Ecs, &data);
    let endpoint = ("AWS_ENDPOINT_URL_ECS", "https://ecs.example.com");
    let variables = [endpoint, ("AWS_REGION", "eu-west-1")];
    let (ambient, defaults) = ecs::read(&settings, &machine(&variables)).unwrap();
    let expected = EcsDefaults {
        region: text("us-east-2"),
        cluster: text("jobs"),
        subnets: vec![text("subnet-0a"), text("subnet-0b")],
        image: Some(text("registry.example.com/runner:1")),
        launch_type: Some(LaunchType::Ec2),
    };
    assert_eq!(defaults, expected);
    assert_eq!(ambient.endpoints().aws_ecs.as_deref(), Some(endpoint.1));
    let shown = format!("{ambient:?}");
    assert!(shown.contains("us-east-2") && !shown.contains("eu-west-1"), "{shown}");
}

#[tokio::test]
async fn the_image_of_jobs_is_the_setting_or_else_the_machines_variable() {
    let machines =
        [("CANYON_RUNNER_IMAGE", "machine's:1"), ("KUBERNETES_SERVICE_HOST", "10.0.0.1")];
    for (own, expected) in [(NOTHING, "machine's:1"), (&[("IMAGE", "own:1")][..], "own:1")] {
        let of_cluster = settings(DispatcherType::Kubernetes, own);
        let (_, defaults) = kubernetes::read(&of_cluster, &machine(&machines)).unwrap();
        assert_eq!(defaults.image.as_deref(), Some(expected));
        let place = [("REGION", "us-east-2"), ("CLUSTER", "jobs")];
        let data: Vec<_> = place.iter().chain(own).copied().collect();
        let of_account = settings(DispatcherType::Ecs, &data);
        let (_, defaults) = ecs::read(&of_account, &machine(&machines)).unwrap();
        assert_eq!(defaults.image.as_deref(), Some(expected));
    }
}

#[test]
fn a_proxy_that_cannot_be_used_is_reported_once_without_its_password() {
    let proxy = [("HTTPS_PROXY", "ftp://user:s3cr3t@proxy.example.com")];
    let access = [("AUTH_TYPE", "eks_iam"), ("REGION", "us-east-2"), ("EKS_CLUSTER", "production")];
    let of_cluster = settings(DispatcherType::Kubernetes, &access);
    let by_cluster = kubernetes::read(&of_cluster, &machine(&proxy)).unwrap_err();
    let place = [("REGION", "us-east-2"), ("CLUSTER", "jobs")];
    let by_account = ecs::read(&settings(DispatcherType::Ecs, &place), &machine(&proxy));
    for KindError(message) in [by_cluster, by_account.unwrap_err()] {
        assert_eq!(message, "HTTPS_PROXY is not the address of a proxy");
    }
}
