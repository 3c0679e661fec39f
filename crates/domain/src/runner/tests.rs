use super::*;
use proptest::prelude::*;
use secrecy::{ExposeSecret, SecretString};
use serde_json::json;

#[path = "way_to_jobs_tests.rs"]
mod way_to_jobs;

/// The documented example of a GKE runner, as JSON.
fn gke() -> Value {
    json!({
        "description": "GKE runner for my-cluster in europe-west3",
        "runner_configuration": {
            "type": "kubernetes-gke",
            "cluster": {
                "name": "my-cluster",
                "project_id": "my-gcp-project",
                "location": "europe-west3",
                "auth": {
                    "gcp_audience": "//iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/my-wif-pool/providers/humanitec-runner",
                    "gcp_service_account": "humanitec-orchestrator-runner@my-gcp-project.iam.gserviceaccount.com",
                },
            },
            "job": { "namespace": "canyon-runner", "service_account": "canyon-runner" },
        },
        "state_storage_configuration": { "type": "kubernetes", "namespace": "canyon-runner" },
    })
}

fn ecs() -> Value {
    json!({
        "runner_configuration": {
            "type": "serverless-ecs",
            "auth": { "role_arn": "arn:aws-us-gov:iam::123456789012:role/launch", "session_name": "abc" },
            "job": {
                "region": "us-gov-west-1",
                "cluster": "my-cluster",
                "subnets": ["subnet-12345"],
                "security_groups": [],
                "is_public_ip_enabled": false,
                "execution_role_arn": "arn:aws-us-gov:iam::123456789012:role/ECSExecutionRole",
                "environment": { "A": "" },
                "secrets": { "B": "arn:aws-us-gov:ssm:us-gov-west-1:123456789012:parameter/b" },
                "cpu": 1024,
                "memory": 2048,
                "capacity_provider_strategy": [
                    { "capacity_provider": "FARGATE_SPOT", "weight": 3 },
                    { "capacity_provider": "FARGATE", "base": 1, "weight": 1 },
                ],
                "architecture": "ARM64",
                "tags": { "team": "platform" },
                "timeouts": { "run_seconds": 600, "stop_seconds": 120, "total_seconds": 7_200 },
            },
        },
        "state_storage_configuration": { "type": "s3", "bucket": "states", "path_prefix": "a/b/" },
    })
}

fn with_token() -> Value {
    json!({
        "runner_configuration": {
            "type": "kubernetes",
            "job": { "namespace": "jobs", "service_account": "runner" },
            "cluster": {
                "cluster_data": { "certificate_authority_data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==", "server": "https://10.0.0.1:6443" },
                "auth": { "service_account_token": "hunter2" },
            },
        },
        "state_storage_configuration": { "type": "gcs", "bucket": "states" },
    })
}

const TOKEN: &str = "runner_configuration.cluster.auth.service_account_token";

fn parse(value: &Value) -> RunnerDefinition {
    RunnerDefinition::parse(value.clone()).unwrap()
}

fn faults(value: &Value) -> String {
    RunnerDefinition::parse(value.clone()).unwrap_err().to_string().replace("; `", "\n`")
}

#[test]
fn a_definition_comes_back_as_it_was_given() {
    let key = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAc5dgCx4ano39JT0XgTsHnts3jej+5xl7ZAwSIrKpef0=\n-----END PUBLIC KEY-----\n";
    let job = json!({ "namespace": "a", "service_account": "a", "pod_template": {
        "spec": { "containers": [{ "name": "canyon-runner", "image": "a", "tty": null }] },
    }});
    let s3 = json!({ "type": "s3", "bucket": "states" });
    let others = [
        json!({ "type": "kubernetes-eks", "job": job, "cluster": {
            "name": "c", "region": "cn-north-1",
            "auth": { "role_arn": "arn:aws-cn:iam::123456789012:role/r", "sts_region": "cn-north-1" } } }),
        json!({ "type": "kubernetes-aks", "job": job, "cluster": {
            "name": "c", "resource_group": "rg", "subscription_id": "01234567-89ab-4def-8123-456789abcdef",
            "auth": { "tenant_id": "01234567-89ab-4def-8123-456789abcdef", "client_id": "01234567-89ab-4def-8123-456789abcdef" } } }),
        json!({ "type": "kubernetes", "job": job, "cluster": {
            "cluster_data": { "certificate_authority_data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==", "server": "https://a", "proxy_url": "socks5://b:1" },
            "auth": { "oidc": { "audience": "canyon" } } } }),
        json!({ "type": "kubernetes-agent", "key": key, "job": job }),
        json!({ "type": "ecs-agent", "job": ecs()["runner_configuration"]["job"] }),
        json!({ "type": "docker-agent", "key": key, "job": {
            "image": "a", "extra_hosts": ["a:host-gateway"], "memory_limit": 512, "environment": {} } }),
        json!({ "type": "docker-agent" }),
        json!({ "type": "kubernetes-agent", "job": job, "agents": { "ids": ["berlin-1"] },
            "profile": "${environment.type}-${var.region}" }),
        json!({ "type": "docker-agent", "agents": { "labels": { "region": "eu" } } }),
        json!({ "type": "docker", "job": { "image": "a", "memory_limit": 512 } }),
        json!({ "type": "local" }),
        json!({ "type": "local", "job": { "executable": "tofu", "timeouts": { "stop_seconds": 5 } } }),
    ];
    let others = others.map(|configuration| {
        json!({ "runner_configuration": configuration, "state_storage_configuration": s3 })
    });
    for value in others.into_iter().chain([gke(), ecs()]) {
        assert_eq!(parse(&value).to_value(), value);
        assert_eq!(RunnerDefinition::parse_stored(value.clone()).unwrap().to_value(), value);
    }
}

#[test]
fn one_answer_names_every_fault() {
    let mut value = ecs();
    let job = &mut value["runner_configuration"]["job"];
    job["subnets"] = json!(["subnet-1", "", 3]);
    job["region"] = json!("frankfurt");
    job["memory"] = json!(3000);
    job["cluster"] = Value::Null;
    job["clustr"] = json!("a");
    job["architecture"] = json!("arm");
    job["timeouts"]["stop_seconds"] = json!(121);
    job["capacity_provider_strategy"][0] = json!({ "weight": -1 });
    value["runner_configuration"]["auth"]["role_arn"] = json!("hunter2");
    value["state_storage_configuration"]["path_prefix"] = json!("a//b");
    value["id"] = json!("x");
    insta::assert_snapshot!(faults(&value), @r#"
    `id` is not a known field; the fields here are `description`, `runner_configuration`, `state_storage_configuration`
    `runner_configuration.auth.role_arn` must be the ARN of an IAM role: arn:aws:iam::123456789012:role/NAME (also aws-us-gov, aws-cn, aws-eusc)
    `runner_configuration.job.region` must be an AWS region, such as eu-central-1
    `runner_configuration.job.cluster` is required
    `runner_configuration.job.subnets[1]` must be the id of a subnet, such as subnet-12345
    `runner_configuration.job.subnets[2]` must be text, not a number
    `runner_configuration.job.capacity_provider_strategy[0].capacity_provider` is required
    `runner_configuration.job.capacity_provider_strategy[0].weight` must be a whole number from 0 to 1000
    `runner_configuration.job.architecture` must be one of `X86_64`, `ARM64`
    `arm` is not known
    `runner_configuration.job.timeouts.stop_seconds` must be a whole number from 5 to 120
    `runner_configuration.job.memory` must be 2048 to 8192 in steps of 1024 when `cpu` is 1024
    `runner_configuration.job.clustr` is not a known field; the fields here are `region`, `cluster`, `subnets`, `execution_role_arn`, `security_groups`, `is_public_ip_enabled`, `image`, `allowed_images`, `task_role_arn`, `environment`, `secrets`, `cpu`, `memory`, `ephemeral_storage_gib`, `capacity_provider_strategy`, `tags`, `platform_version`, `architecture`, `log_group`, `identity`, `timeouts`
    `state_storage_configuration.path_prefix` must be a path such as path/to/states: letters, digits and ._- between slashes, without `.` or `..`
    "#);
}

#[test]
fn types_and_pairs_that_do_not_exist_are_refused_with_those_that_do() {
    let cases = [
        json!(null),
        json!({}),
        json!({ "runner_configuration": { "type": "nomad" }, "state_storage_configuration": { "bucket": "b" } }),
        json!({ "runner_configuration": { "type": "local" }, "state_storage_configuration": { "type": "kubernetes", "namespace": "n" } }),
        json!({ "runner_configuration": "local", "state_storage_configuration": { "type": 3 } }),
    ];
    let messages = cases.map(|value| faults(&value));
    insta::assert_snapshot!(messages.join("\n\n"), @r#"
    the body must be an object, not null

    `runner_configuration` is required
    `state_storage_configuration` is required

    `runner_configuration.type` must be one of `kubernetes`, `kubernetes-gke`, `kubernetes-eks`, `kubernetes-aks`, `serverless-ecs`, `kubernetes-agent`, `ecs-agent`, `docker-agent`, `docker`, `local`
    `nomad` is not known
    `state_storage_configuration.type` is required

    `state_storage_configuration.type` does not fit: `kubernetes` state cannot be used by a `local` runner: that state is in the cluster of the job, and this job does not run in a cluster; use one of `s3`, `gcs`, `azurerm`, `local`

    `runner_configuration` must be an object with a `type`
    `state_storage_configuration.type` must be text
    "#);
}

#[test]
fn a_pod_template_is_validated_when_the_runner_is_defined() {
    let mut value = gke();
    value["runner_configuration"]["job"]["pod_template"] =
        json!({ "spec": { "hostNetwork": true, "serviceAccountName": "admin" } });
    insta::assert_snapshot!(faults(&value), @r#"
    `runner_configuration.job.pod_template.spec.hostNetwork` is refused: the job must not share namespaces with its node
    `runner_configuration.job.pod_template.spec.serviceAccountName` is refused: the job runs as the `service_account` of `job`
    "#);
    let deep = (0..1_000).fold(json!({}), |inner, _| json!({ "a": inner }));
    value["runner_configuration"]["job"]["pod_template"] = deep;
    insta::assert_snapshot!(faults(&value), @"the body nests more than 64 objects and lists");
}

#[test]
fn a_cluster_has_exactly_one_kind_of_auth() {
    let oidc = json!({ "audience": "canyon" });
    // The published API accepts any of its own fields: those are stored, and start no job.
    let (fits, warned, refused) = (Some(true), Some(false), None);
    let cases = [
        (json!({}), warned),
        (json!({ "service_account_token": "t" }), fits),
        (json!({ "oidc": oidc }), fits),
        // The server, which the runner's administrator names, could sign in to the cloud with it.
        (json!({ "oidc": { "audience": "sts.amazonaws.com" } }), refused),
        (json!({ "oidc": { "audience": "api://AzureADTokenExchange" } }), refused),
        (json!({ "oidc": { "audience": "https://iam.googleapis.com/projects/1/x" } }), refused),
        (json!({ "oidc": { "audience": "https://sts.windows.net/tenant" } }), refused),
        (json!({ "oidc": { "audience": "STS.AliyunCS.com" } }), refused),
        (
            json!({ "client_certificate_data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==", "client_key_data": "Y2E=" }),
            fits,
        ),
        (json!({ "client_certificate_data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==" }), warned),
        (json!({ "client_key_data": "Y2E=" }), warned),
        (json!({ "oidc": oidc, "service_account_token": "t" }), refused),
        (json!({ "client_key_data": "Y2E=", "service_account_token": "t" }), warned),
    ];
    for (auth, expected) in cases {
        let mut value = with_token();
        value["runner_configuration"]["cluster"]["auth"] = auth.clone();
        let result = RunnerDefinition::parse(value).ok();
        assert_eq!(result.map(|read| read.warnings().is_empty()), expected, "{auth}");
    }
}

#[test]
fn a_secret_leaves_only_by_splitting_and_comes_back_by_joining() {
    let definition = parse(&with_token());
    assert!(!definition.to_value().to_string().contains("hunter2"));
    assert!(!format!("{definition:?}").contains("hunter2"));
    let (bare, secrets) = definition.split_secrets();
    assert_eq!(secrets.keys().collect::<Vec<_>>(), [TOKEN]);
    let stored = RunnerDefinition::parse_stored(bare.to_value()).unwrap();
    assert_eq!(stored.missing_secrets(), [TOKEN]);
    let (_, again) = stored.clone().join_secrets(&secrets).unwrap().split_secrets();
    assert_eq!(again[TOKEN].expose_secret(), "hunter2");
    assert!(stored.clone().join_secrets(&std::collections::BTreeMap::default()).is_err());
    let broken = [(TOKEN.to_owned(), SecretString::from("two\nwords"))].into();
    let faults = stored.join_secrets(&broken).unwrap_err().to_string();
    assert!(faults.contains(TOKEN) && !faults.contains("words"), "{faults}");
}

#[test]
fn a_patch_replaces_the_parts_that_it_names() {
    let stored = parse(&gke());
    let job = json!({ "namespace": "other", "service_account": "other" });
    let patch = json!({ "description": "new", "runner_configuration": { "type": "kubernetes-gke", "job": job } });
    let mut expected = gke();
    expected["description"] = json!("new");
    expected["runner_configuration"]["job"] = job;
    assert_eq!(stored.patched(patch).unwrap().to_value(), expected);
    assert_eq!(stored.patched(json!({})).unwrap().to_value(), gke());
    let cases = [
        json!({ "runner_configuration": { "job": {} } }),
        json!({ "runner_configuration": { "type": "local" } }),
        json!({ "runner_configuration": { "type": "kubernetes-gke", "key": "k", "job": null } }),
        json!({ "state_storage_configuration": { "type": "local", "path": "/a" }, "id": "x" }),
    ];
    let messages = cases.map(|patch| stored.patched(patch).unwrap_err().to_string());
    insta::assert_snapshot!(messages.join("\n"), @r#"
    `runner_configuration.type` is required; `runner_configuration.job.namespace` is required; `runner_configuration.job.service_account` is required
    `runner_configuration.type` must stay `kubernetes-gke`; create another runner to use `local`
    `runner_configuration.job` is required; `runner_configuration.key` is not a known field; the fields here are `type`, `job`, `cluster`
    `id` is not a known field; the fields here are `description`, `runner_configuration`, `state_storage_configuration`; `state_storage_configuration.type` does not fit: `local` state cannot be used by a `kubernetes-gke` runner: the disk of a job there is deleted with the job; use one of `kubernetes`, `s3`, `gcs`, `azurerm`
    "#);
}

#[test]
fn a_patch_keeps_a_secret_only_for_the_same_cluster() {
    let whole = parse(&with_token());
    let (bare, _) = whole.clone().split_secrets();
    let cluster = with_token()["runner_configuration"]["cluster"].clone();
    let patch = |edit: &dyn Fn(&mut Value)| {
        let mut cluster = cluster.clone();
        cluster["auth"] = json!({});
        edit(&mut cluster);
        json!({ "runner_configuration": { "type": "kubernetes", "cluster": cluster } })
    };
    let same = patch(&|_| {});
    assert!(whole.patched(same.clone()).unwrap().missing_secrets().is_empty());
    assert_eq!(bare.patched(same).unwrap().missing_secrets(), [TOKEN]);
    assert!(bare.patched(patch(&|c| c["auth"] = json!({ "oidc": { "audience": "a" } }))).is_ok());
    let moved = patch(&|c| c["cluster_data"]["server"] = json!("https://evil.example"));
    let other = patch(&|c| {
        c["auth"] =
            json!({ "client_certificate_data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==" });
    });
    let messages = [moved, other].map(|patch| bare.patched(patch).unwrap_err().to_string());
    insta::assert_snapshot!(messages.join("\n"), @r#"
    `runner_configuration.cluster.auth.service_account_token` is required again, as `cluster_data` changes
    `runner_configuration.cluster.auth.client_key_data` is required
    "#);
}

#[test]
fn timeouts_have_defaults_that_are_not_stored() {
    let seconds = |value: &Value| {
        let limits = parse(value).timeouts();
        let [queue, start, run, stop] =
            [limits.queue, limits.start, limits.run, limits.stop].map(|limit| limit.as_secs());
        (queue, start, run, stop, limits.total.map(|limit| limit.as_secs()))
    };
    assert_eq!(seconds(&gke()), (86_400, 300, 3_600, 30, None));
    assert_eq!(seconds(&ecs()), (86_400, 300, 600, 120, Some(7_200)));
}

#[test]
fn shares_of_capacity_have_one_base_and_a_weight() {
    let faults = |shares: Value| {
        let mut value = ecs();
        value["runner_configuration"]["job"]["capacity_provider_strategy"] = shares;
        RunnerDefinition::parse(value).err().map(|faults| faults.to_string()).unwrap_or_default()
    };
    let shares = |weights: [u32; 2], bases: [u32; 2]| {
        json!([
            { "capacity_provider": "FARGATE_SPOT", "weight": weights[0], "base": bases[0] },
            { "capacity_provider": "FARGATE", "weight": weights[1], "base": bases[1] },
        ])
    };
    assert_eq!(faults(shares([1, 1], [0, 1])), "");
    assert_eq!(faults(shares([1, 1], [1, 0])), "");
    assert_eq!(faults(shares([0, 2], [0, 0])), "");
    assert!(faults(shares([1, 1], [1, 2])).contains("`base` in one entry"));
    assert!(faults(shares([0, 0], [0, 0])).contains("a `weight` above 0"));
}

#[test]
fn a_map_has_as_many_entries_as_its_limit_and_no_more() {
    let with = |count: u32| {
        let mut value = ecs();
        let variables: Map<_, _> = (0..count).map(|n| (format!("V{n}"), json!("x"))).collect();
        value["runner_configuration"]["job"]["environment"] = variables.into();
        value["runner_configuration"]["job"]["secrets"] = Value::Null;
        RunnerDefinition::parse(value)
    };
    assert!(with(200).is_ok());
    assert!(with(201).unwrap_err().to_string().contains("at most 200 entries"));
}

/// Pointers to every value inside `value`.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, inner)| pointers(inner, &format!("{at}/{key}"), found));
        }
        Value::Array(items) => {
            (0..).zip(items).for_each(|(n, inner): (u32, _)| {
                pointers(inner, &format!("{at}/{n}"), found);
            });
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(false)),
        Just(json!({})),
        any::<i64>().prop_map(Value::from),
        any::<f32>().prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        "[a-z0-9./:@-]{1,40}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            ("[a-z_]{1,8}", inner).prop_map(|(key, value)| json!({ key: value })),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn a_damaged_definition_is_refused_or_comes_back_as_it_was(
        whole in proptest::sample::select(vec![gke(), ecs(), with_token()]),
        place in any::<proptest::sample::Index>(),
        damage in any_value(),
    ) {
        let mut places = vec![];
        pointers(&whole, "", &mut places);
        let mut damaged = whole;
        let place = place.get(&places);
        *damaged.pointer_mut(place).unwrap() = damage;
        match RunnerDefinition::parse(damaged.clone()) {
            Err(faults) => prop_assert!(!faults.is_empty()),
            Ok(definition) => {
                let (bare, _) = definition.split_secrets();
                let stored = RunnerDefinition::parse_stored(bare.to_value()).unwrap().to_value();
                if let Some(auth) = damaged.pointer_mut("/runner_configuration/cluster/auth") {
                    auth.as_object_mut().unwrap().remove("service_account_token");
                }
                prop_assert_eq!(stored, damaged);
            }
        }
    }
}
