//! The chart of the agent: a real API server accepts its objects, it grants no right too many, and every value is
//! validated.

use crate::harness::bed::{Bed, Namespace, bed};
use crate::harness::helm::{CHART, checkout, helm, judged, template};
use canyon_domain::trust::kubernetes::{LAUNCHER, NETWORK_POLICIES, Rule, STATE};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;

/// Two namespaces that accept only pods of the strictest standard: the agent's, and that of the jobs.
pub(crate) fn namespaces() -> [Namespace; 2] {
    ["agent", "jobs"].map(|prefix| {
        let name = Bed::unique(prefix);
        let labels = ["enforce", "warn"]
            .map(|mode| format!("pod-security.kubernetes.io/{mode}: restricted"))
            .join(", ");
        bed().apply(&format!(
            "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{{labels}}}}}}}"
        ));
        Namespace(name)
    })
}

/// The API server's objects for the chart with these values.
#[track_caller]
pub(crate) fn made(namespaces: &[Namespace; 2], values: &[&str]) -> Vec<Value> {
    let [agent, jobs] = namespaces.each_ref().map(|namespace| namespace.0.as_str());
    let place = format!("jobsRbac.namespace=\"{jobs}\"");
    let rest = [place.as_str(), "jobsRbac.createNamespace=false"];
    judged(&template(agent, &[&rest, values].concat()).done())
}

pub(crate) fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

fn rules(role: &Value) -> BTreeSet<String> {
    let rules = role["rules"].as_array().unwrap();
    rules
        .iter()
        .map(|rule| json!([rule["apiGroups"], rule["resources"], rule["verbs"]]).to_string())
        .collect()
}

fn expected(rules: &[Rule]) -> BTreeSet<String> {
    rules
        .iter()
        .map(|rule| json!([[rule.group], [rule.resource], rule.verbs]).to_string())
        .collect()
}

/// The variable of the only container of a Deployment.
pub(crate) fn variable<'a>(deployment: &'a Value, name: &str) -> Option<&'a Value> {
    let variables = deployment["spec"]["template"]["spec"]["containers"][0]["env"].as_array()?;
    variables.iter().find(|variable| variable["name"] == name)
}

#[test]
fn helm_lints_the_chart_without_complaints() {
    let said = helm(&["lint", "--strict", "--kube-version", "1.34", CHART]).done();
    assert!(said.contains("0 chart(s) failed") && !said.contains("[WARNING]"), "{said}");
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart = fs::read_to_string(checkout().join(CHART).join("Chart.yaml")).unwrap();
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        chart.contains(&format!("\nversion: {version}\nappVersion: \"{version}\"\n")),
        "{chart}"
    );
}

#[test]
fn the_agent_has_the_dispatchers_rights_on_jobs_and_no_others() {
    let namespaces = namespaces();
    let [agent, jobs] = namespaces.each_ref().map(|namespace| namespace.0.as_str());
    for policies in [false, true] {
        let objects = made(&namespaces, &[&format!("jobsRbac.networkPolicies={policies}")]);
        for kind in ["ClusterRole", "ClusterRoleBinding"] {
            assert_eq!(of_kind(&objects, kind), Vec::<&Value>::new());
        }
        let roles = of_kind(&objects, "Role");
        let named = |name: &str| {
            let found = roles.iter().find(|role| role["metadata"]["name"] == name);
            *found.unwrap_or_else(|| panic!("no Role {name} in {roles:#?}"))
        };
        assert_eq!(roles.len(), 3);

        let mut wanted = LAUNCHER.to_vec();
        wanted.extend(policies.then_some(NETWORK_POLICIES));
        assert_eq!(rules(named("canyon-agent")), expected(&wanted));
        assert_eq!(named("canyon-agent")["metadata"]["namespace"], jobs);
        assert_eq!(
            rules(named("canyon-agent-state")),
            expected(&STATE),
            "of the jobs, not the agent"
        );

        let key = named("canyon-agent-key");
        assert_eq!(key["metadata"]["namespace"], agent);
        let only = json!([{
            "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["canyon-agent-key"], "verbs": ["get", "update"],
        }]);
        assert_eq!(key["rules"], only, "one Secret and no other");

        for binding in of_kind(&objects, "RoleBinding") {
            let subject = if binding["metadata"]["name"] == "canyon-agent-state" {
                json!([{ "kind": "ServiceAccount", "name": "canyon-runner", "namespace": jobs }])
            } else {
                json!([{ "kind": "ServiceAccount", "name": "canyon-agent", "namespace": agent }])
            };
            assert_eq!(binding["subjects"], subject);
        }
    }
}

#[test]
fn the_agents_pods_meet_the_strictest_standard_and_nothing_connects_to_them() {
    let namespaces = namespaces();
    let objects = made(&namespaces, &["proxy.https=\"http://proxy.test:3128\""]);
    let deployment = of_kind(&objects, "Deployment")[0];
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["automountServiceAccountToken"], false);
    let container = &pod["containers"][0];
    let context = &container["securityContext"];
    assert_eq!(context["readOnlyRootFilesystem"], true);
    assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
    assert!(container["livenessProbe"]["httpGet"]["path"] == "/livez", "{container:#}");
    assert!(container["readinessProbe"]["httpGet"]["path"] == "/readyz", "{container:#}");
    let drain = variable(deployment, "CANYON_AGENT_DRAIN_SECONDS").unwrap()["value"].clone();
    let drain: u64 = drain.as_str().unwrap().parse().unwrap();
    assert!(
        pod["terminationGracePeriodSeconds"].as_u64().unwrap() > drain,
        "it has the time to take its leave"
    );

    // Pods go through admission; the Deployment itself does not.
    let [agent, _] = &namespaces;
    bed().kubectl(&["-n", &agent.0, "create", "serviceaccount", "canyon-agent"], "");
    let alone = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "alone", "namespace": agent.0 }, "spec": pod,
    });
    judged(&alone.to_string());

    let policy = of_kind(&objects, "NetworkPolicy")[0];
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy["spec"].get("ingress"), None, "nothing connects to it");
    let ports: BTreeSet<u64> = policy["spec"]["egress"][0]["ports"]
        .as_array()
        .unwrap()
        .iter()
        .map(|port| port["port"].as_u64().unwrap())
        .collect();
    assert_eq!(
        ports,
        BTreeSet::from([53, 443, 3128, 5353, 6443, 7000]),
        "to names, the API server, Canyon and the proxy"
    );
    let past = variable(deployment, "NO_PROXY").unwrap()["value"].clone();
    assert!(past.as_str().unwrap().contains("$(KUBERNETES_SERVICE_HOST)"), "{past}");
    let budget = of_kind(&objects, "PodDisruptionBudget")[0];
    assert_eq!(budget["spec"]["maxUnavailable"], 1, "a node can always be emptied");
    let unready = &budget["spec"]["unhealthyPodEvictionPolicy"];
    assert_eq!(unready, "AlwaysAllow", "also while Canyon is away");
}

#[test]
fn the_token_for_the_api_server_is_valid_for_an_hour_and_not_for_a_year() {
    let objects = made(&namespaces(), &[]);
    let volumes = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"]["volumes"];
    let mut volumes = volumes.as_array().unwrap().iter();
    let cluster = volumes.find(|volume| volume["name"] == "cluster").unwrap();
    let token = &cluster["projected"]["sources"][0]["serviceAccountToken"];
    // If 3607 seconds are requested, the API server extends the token, for clients that never read it again.
    assert_eq!(token["expirationSeconds"], 3600);
}

#[test]
fn a_value_arrives_unchanged() {
    let values = [
        "agent.logLevel=\"info,hyper=debug\"",
        "agent.envFrom=[{\"configMapRef\":{\"name\":\"more\"}}]",
        "job={\"cpuRequest\":0.5,\"cpuLimit\":2}",
        "extraVolumes=[{\"name\":\"helper\",\"emptyDir\":{}}]",
        "extraVolumeMounts=[{\"name\":\"helper\",\"mountPath\":\"/opt/helper\"}]",
        // YAML reads this as a number, unless it is quoted.
        "priorityClassName=\"1e3\"",
        "ca.configMap=\"1e3\"",
        "canyon.existingSecret=\"1e3\"",
        "health.port=9090",
        // A parent chart sets this to leave the chart out.
        "enabled=true",
    ];
    let objects = made(&namespaces(), &values);
    let deployment = of_kind(&objects, "Deployment")[0];
    for (name, expected) in [
        ("CANYON_LOG", "info,hyper=debug"),
        ("CANYON_JOB_DISPATCHER_DATA_CPU_REQUEST", "0.5"),
        ("CANYON_JOB_DISPATCHER_DATA_CPU_LIMIT", "2"),
        // The health port listens on every address: in some clusters probes use IPv6.
        ("CANYON_AGENT_LISTEN_HEALTH", ":9090"),
    ] {
        assert_eq!(variable(deployment, name).unwrap()["value"], expected, "{name}");
    }
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["priorityClassName"], "1e3");
    let container = &pod["containers"][0];
    assert_eq!(container["envFrom"], json!([{ "configMapRef": { "name": "more" } }]));
    let mount = json!({ "name": "helper", "mountPath": "/opt/helper" });
    assert!(container["volumeMounts"].as_array().unwrap().contains(&mount), "{container:#}");
    let volume = json!({ "name": "helper", "emptyDir": {} });
    assert!(pod["volumes"].as_array().unwrap().contains(&volume), "{pod:#}");
}

#[test]
fn the_agent_authenticates_in_one_way_which_the_values_choose() {
    let namespaces = namespaces();
    let proofs = [
        "CANYON_AGENT_KEY_SECRET",
        "CANYON_AGENT_KEY_FILE",
        "CANYON_TOKEN",
        "CANYON_SERVICE_ACCOUNT_PATH",
    ];
    let ways: [(&[&str], &str); 4] = [
        (&[], "CANYON_AGENT_KEY_SECRET"),
        (&["canyon.existingSecret=\"own\""], "CANYON_AGENT_KEY_FILE"),
        (&["canyon.existingSecret=\"own\"", "canyon.existingSecretKey=\"token\""], "CANYON_TOKEN"),
        (
            &["canyon.serviceAccountId=\"eu\"", "canyon.audience=\"canyon-eu\""],
            "CANYON_SERVICE_ACCOUNT_PATH",
        ),
    ];
    for (values, wanted) in ways {
        let objects = made(&namespaces, values);
        let deployment = of_kind(&objects, "Deployment")[0];
        let set: Vec<_> =
            proofs.iter().filter(|name| variable(deployment, name).is_some()).collect();
        assert_eq!(set, [&wanted]);
        let secrets = of_kind(&objects, "Secret");
        assert_eq!(secrets.len(), usize::from(values.is_empty()), "{secrets:#?}");
        assert!(secrets.iter().all(|secret| secret.get("data").is_none()), "the chart has no key");
        let stays = |secret: &&Value| {
            secret["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        };
        assert!(secrets.iter().all(stays), "an install that was taken back has its key again");
        let mounted = deployment.to_string().contains("\"audience\":\"canyon-eu\"");
        assert_eq!(mounted, wanted == "CANYON_SERVICE_ACCOUNT_PATH");
    }
    let both = ["canyon.existingSecret=\"own\"", "canyon.serviceAccountId=\"eu\""];
    let said = template("x", &both).refused();
    assert!(said.contains("the agent proves itself by one of them"), "{said}");
}

#[test]
fn an_install_after_an_uninstall_finds_the_key_of_the_first_install() {
    let [agent, jobs] = namespaces();
    let agent = agent.0.as_str();
    let values = format!(
        "jobsRbac.namespace={},jobsRbac.createNamespace=false,canyon.apiUrl=http://192.0.2.1:7000,canyon.orgId=acme,\
         replicas=2,image.repository=registry.invalid/agent",
        jobs.0
    );
    let release = ["canyon-agent", "--namespace", agent];
    let install =
        || helm(&[&["install"], &release[..], &[CHART, "--set", values.as_str()]].concat()).done();
    let key = || {
        let get = ["-n", agent, "get", "secret", "canyon-agent-key", "-o", "jsonpath={.data}"];
        bed().kubectl(&get, "")
    };
    let said = install();
    for name in ["canyon-agent", "canyon-agent-1"] {
        assert!(said.contains(&format!("canyon adopt agent {name}\n")), "{said}");
    }
    // The agents' image does not exist here, so the test stores the key as they would.
    let made = r#"{"stringData":{"private_key":"made"}}"#;
    bed().kubectl(&["-n", agent, "patch", "secret", "canyon-agent-key", "-p", made], "");
    let made = key();
    assert!(made.contains("private_key"), "{made}");
    helm(&[&["uninstall"], &release[..], &["--wait"]].concat()).done();
    assert_eq!(bed().list(agent, "deployments"), Vec::<Value>::new());
    install();
    assert_eq!(key(), made);
}

#[test]
fn a_monitor_for_prometheus_is_created_on_request() {
    let kind = "kind: PodMonitor";
    assert!(!template("x", &[]).done().contains(kind), "few clusters know that kind");
    let values = ["podMonitor={\"enabled\":true,\"labels\":{\"release\":\"monitoring\"}}"];
    let made = template("x", &values).done();
    let monitor = made.split("\n---\n").find(|document| document.contains(kind)).unwrap();
    for part in ["release: monitoring\n", "{ port: health, path: /metrics }"] {
        assert!(monitor.contains(part), "{monitor}");
    }
    // An upgrade with the values of an earlier chart, which had no `podMonitor`.
    assert!(!template("x", &["podMonitor=null"]).done().contains(kind));
}

#[test]
fn a_namespace_that_the_chart_creates_for_the_key_stays_with_it() {
    let made = template("x", &["createNamespace=true"]).done();
    let is_wanted =
        |document: &&str| document.contains("kind: Namespace") && document.contains("name: \"x\"");
    let namespace = made.split("\n---\n").find(is_wanted).unwrap();
    assert!(namespace.contains("helm.sh/resource-policy: keep"), "{namespace}");
}

#[test]
fn each_agent_has_a_name_of_its_own() {
    let namespaces = namespaces();
    let objects = made(&namespaces, &["replicas=3", "agent.name=\"berlin\""]);
    let deployments = of_kind(&objects, "Deployment");
    let names: Vec<_> = deployments
        .iter()
        .map(|one| variable(one, "CANYON_AGENT_NAME").unwrap()["value"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["berlin", "berlin-1", "berlin-2"]);
    let selectors: BTreeSet<_> =
        deployments.iter().map(|one| one["spec"]["selector"].to_string()).collect();
    assert_eq!(selectors.len(), 3, "none counts another's pod as its own");
}

#[test]
fn a_value_that_is_unknown_or_wrong_is_named() {
    let faults = [
        ("canyon.apiurl=\"https://x\"", "apiurl"),
        ("canyon.apiUrl=\"ftp://x\"", "apiUrl"),
        ("canyon.apiUrl=\"https://user:word@x\"", "apiUrl"),
        ("agent.concurrency=0", "concurrency"),
        ("agent.drainSeconds=-1", "drainSeconds"),
        ("agent.labels={\"a,b\":\"c\"}", "labels"),
        ("replicas=0", "replicas"),
        ("image.digest=\"sha256:1\"", "digest"),
        ("jobsRbac.podSecurity=\"none\"", "podSecurity"),
        ("jobsRbac.namespace=\"\"", "jobsRbac"),
        ("networkPolicy.ports=[0]", "networkPolicy"),
        ("job.cpuLimit=0", "cpuLimit"),
        ("extraVolumes={\"name\":\"helper\"}", "extraVolumes"),
        ("extraVolumeMounts=\"/opt\"", "extraVolumeMounts"),
        ("agent.envFrom=[\"more\"]", "envFrom"),
        ("runAsUser=0", "runAsUser"),
        ("tolerate=[]", "tolerate"),
    ];
    for (value, name) in faults {
        let said = template("x", &[value]).refused();
        assert!(said.contains("schema") && said.contains(name), "{value}: {said}");
    }
    for needed in ["canyon.apiUrl", "canyon.orgId", "image.repository"] {
        let said = template("x", &[&format!("{needed}=\"\"")]).refused();
        assert!(said.contains(needed), "{said}");
    }
}

#[test]
fn every_value_of_the_schema_is_in_the_file_with_a_valid_default() {
    let read = |name: &str| fs::read_to_string(checkout().join(CHART).join(name)).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let path = checkout().join(CHART).join("values.yaml");
    let values = crate::harness::clouds::yaml(path.to_str().unwrap());
    let mut missing = Vec::new();
    compare("", &schema, &values, &mut missing);
    assert_eq!(missing, Vec::<String>::new(), "in the schema, but not in values.yaml");
}

fn compare(path: &str, schema: &Value, values: &Value, missing: &mut Vec<String>) {
    let Some(properties) = schema["properties"].as_object() else { return };
    assert_eq!(schema["additionalProperties"], false, "{path} takes anything");
    for (name, schema) in properties {
        let path = format!("{path}/{name}");
        // helm's own values: those that a parent chart passes to all of its charts, and the one with which it
        // leaves a chart out.
        let from_above = ["/global", "/enabled"].contains(&path.as_str());
        match values.get(name) {
            Some(value) if value.is_object() => compare(&path, schema, value, missing),
            None if !from_above && path != "/resources/limits" => missing.push(path),
            _ => {}
        }
    }
}
