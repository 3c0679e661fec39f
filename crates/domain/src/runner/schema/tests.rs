//! What the schema describes is what the parser reads, for every type.

use crate::runner::{RunnerConfiguration, RunnerDefinition, RunnerType};
use crate::runner_check::steps_of;
use crate::state_storage::{StateStorage, StorageType};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const ROLE: &str = "arn:aws:iam::123456789012:role/a";
const UUID: &str = "01234567-89ab-4def-8123-456789abcdef";
const POOL: &str =
    "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b";
const ACCOUNT: &str = "a@p.iam.gserviceaccount.com";
const KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAc5dgCx4ano39JT0XgTsHnts3jej+5xl7ZAwSIrKpef0=\n-----END PUBLIC KEY-----\n";

fn identity() -> Value {
    json!({
        "aws": { "role_arn": ROLE, "plan_role_arn": ROLE, "region": "eu-west-1" },
        "gcp": { "audience": POOL, "service_account": ACCOUNT, "plan_service_account": ACCOUNT, "project_id": "p" },
        "azure": { "tenant_id": UUID, "client_id": UUID, "plan_client_id": UUID, "subscription_id": UUID },
        "tokens": [{ "name": "vault", "audience": "https://vault.example.com" }],
    })
}

/// The same example with roles by class, which exclude the older fields for plans.
fn with_job_roles(mut example: Value) -> Value {
    let roles =
        json!({ "aws_role_arn": ROLE, "gcp_service_account": ACCOUNT, "azure_client_id": UUID });
    let identity = &mut example["job"]["identity"];
    for (cloud, older) in
        [("aws", "plan_role_arn"), ("gcp", "plan_service_account"), ("azure", "plan_client_id")]
    {
        identity[cloud].as_object_mut().unwrap().remove(older);
    }
    identity["job_roles"] = json!({ "plan": roles, "apply": roles, "destroy": roles });
    let named =
        json!({ "kinds": ["tofu"], "env_types": ["qa"], "requires": ["reason"], "enabled": false });
    identity["named_roles"] = json!({ "break-glass": with(named, &roles) });
    example
}

fn timeouts() -> Value {
    json!({ "queue_seconds": 60, "start_seconds": 10, "run_seconds": 30, "stop_seconds": 5, "total_seconds": 60 })
}

fn pod() -> Value {
    json!({
        "namespace": "jobs", "service_account": "runner", "identity": identity(), "timeouts": timeouts(),
        "pod_template": { "metadata": { "labels": { "team": "a" } } }, "deny_metadata_access": true,
        "allowed_images": ["ghcr.io/acme/*"],
    })
}

fn task() -> Value {
    json!({
        "region": "eu-west-1", "cluster": "c", "subnets": ["subnet-1"], "execution_role_arn": ROLE,
        "security_groups": ["sg-1"], "is_public_ip_enabled": false, "image": "a:1", "task_role_arn": ROLE,
        "environment": { "A": "b" }, "secrets": { "B": "arn:aws:ssm:eu-west-1:123456789012:parameter/b" },
        "cpu": 1024, "memory": 2048, "ephemeral_storage_gib": 21,
        "capacity_provider_strategy": [{ "capacity_provider": "FARGATE", "weight": 1, "base": 1 }],
        "tags": { "team": "a" }, "platform_version": "LATEST", "architecture": "ARM64", "log_group": "jobs",
        "allowed_images": ["*.dkr.ecr.eu-west-1.amazonaws.com/**"],
        "identity": identity(), "timeouts": timeouts(),
    })
}

fn container() -> Value {
    json!({
        "image": "a:1", "environment": { "A": "b" }, "extra_hosts": ["a:host-gateway"], "memory_limit": 64,
        "allowed_images": ["alpine:*"],
        "identity": identity(), "timeouts": timeouts(),
    })
}

/// `base` with the members of `more`.
fn with(mut base: Value, more: &Value) -> Value {
    base.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    base
}

/// Definitions of the type that have every property between them: some exclude each other.
fn examples(kind: RunnerType) -> Vec<Value> {
    let aws = json!({ "role_arn": ROLE, "session_name": "abc", "sts_region": "eu-west-1" });
    let agents = [json!({ "ids": ["a1"] }), json!({ "labels": { "region": "eu" } })];
    let by_agents = |job: Value| {
        let settings = json!({ "key": KEY, "profile": "default", "job": job });
        agents.clone().map(|agents| with(settings.clone(), &json!({ "agents": agents }))).to_vec()
    };
    let in_cluster = |cluster: Value| vec![json!({ "job": pod(), "cluster": cluster })];
    let certificate = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==";
    let examples = match kind {
        RunnerType::Kubernetes => [
            json!({ "client_certificate_data": certificate, "client_key_data": "aaaa" }),
            json!({ "service_account_token": "hunter2" }),
            json!({ "oidc": { "audience": "canyon" } }),
        ]
        .map(|auth| {
            let data = json!({
                "certificate_authority_data": certificate, "server": "https://a", "proxy_url": "http://b",
            });
            json!({ "job": pod(), "cluster": { "cluster_data": data, "auth": auth } })
        })
        .to_vec(),
        RunnerType::Gke => in_cluster(json!({
            "name": "c", "project_id": "p", "location": "europe-west3", "proxy_url": "http://a", "internal_ip": true,
            "auth": { "gcp_audience": POOL, "gcp_service_account": ACCOUNT },
        })),
        RunnerType::Eks => in_cluster(json!({ "name": "c", "region": "eu-west-1", "auth": aws })),
        RunnerType::Aks => in_cluster(json!({
            "name": "c", "resource_group": "rg", "subscription_id": UUID,
            "auth": { "tenant_id": UUID, "client_id": UUID },
        })),
        RunnerType::ServerlessEcs => vec![json!({ "auth": aws, "job": task() })],
        RunnerType::KubernetesAgent => by_agents(pod()),
        RunnerType::EcsAgent => by_agents(with(
            task(),
            &json!({ "launch_type": "fargate", "acknowledge_shared_instance_credentials": true }),
        )),
        RunnerType::DockerAgent => by_agents(container()),
        RunnerType::Docker => vec![json!({ "job": container() })],
        RunnerType::Local => by_agents(json!({
            "executable": "tofu", "environment": { "A": "b" }, "identity": identity(), "timeouts": timeouts(),
        })),
    };
    let examples = examples.into_iter().flat_map(|one| [one.clone(), with_job_roles(one)]);
    examples.map(|example| with(example, &json!({ "type": kind }))).collect()
}

fn storage(kind: StorageType) -> Value {
    let properties = match kind {
        StorageType::Kubernetes => json!({ "namespace": "states" }),
        StorageType::S3 | StorageType::Gcs => json!({ "bucket": "states", "path_prefix": "a" }),
        StorageType::Azurerm => json!({
            "resource_group_name": "rg", "storage_account_name": "account", "container_name": "states",
            "path_prefix": "a",
        }),
        StorageType::Local => json!({ "path": "/states" }),
    };
    with(properties, &json!({ "type": kind }))
}

/// Every type with its definitions, and the schema of the part that the type describes.
fn cases() -> Vec<(&'static str, Value, Vec<Value>)> {
    let of = |part, schema: &Value, kind: &str, definitions| {
        let types = schema["oneOf"].as_array().unwrap();
        let found = types.iter().find(|schema| schema["title"] == kind).unwrap();
        (part, found.clone(), definitions)
    };
    let runners = RunnerConfiguration::schema();
    let storages = StateStorage::schema();
    let whole = |runner: Value, storage: Value| json!({ "runner_configuration": runner, "state_storage_configuration": storage });
    let s3 = || storage(StorageType::S3);
    let of_runners = RunnerType::ALL.iter().map(|kind| {
        let definitions = examples(*kind).into_iter().map(|example| whole(example, s3())).collect();
        of("runner_configuration", &runners, kind.as_str(), definitions)
    });
    let of_storages = StorageType::ALL.iter().map(|kind| {
        let fits = |runner: &&RunnerType| kind.refusal_for(**runner).is_none();
        let runner = RunnerType::ALL.iter().find(fits).unwrap();
        let definition = whole(examples(*runner).remove(0), storage(*kind));
        of("state_storage_configuration", &storages, kind.as_str(), vec![definition])
    });
    of_runners.chain(of_storages).collect()
}

/// Calls `visit` with the path, schema and value of each property in `value`, and of the lists' entries.
fn walk(path: &str, schema: &Value, value: &Value, visit: &mut impl FnMut(&str, &Value, &Value)) {
    visit(path, schema, value);
    match value {
        Value::Object(members) if schema["additionalProperties"] == false => {
            for (name, member) in members {
                walk(&format!("{path}.{name}"), &schema["properties"][name], member, visit);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(&format!("{path}[{index}]"), &schema["items"], item, visit);
            }
        }
        _ => {}
    }
}

/// The paths of all properties that the schema describes.
fn described(path: &str, schema: &Value, found: &mut BTreeSet<String>) {
    found.insert(path.to_owned());
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        described(&format!("{path}.{name}"), property, found);
    }
    if schema["items"].is_object() {
        described(&format!("{path}[0]"), &schema["items"], found);
    }
}

fn at<'v>(value: &'v mut Value, path: &str) -> &'v mut Value {
    let pointer = path.replace(['.', '['], "/").replace(']', "");
    value.pointer_mut(&format!("/{pointer}")).unwrap()
}

/// The paths and reasons of the faults of `definition`.
fn reasons(definition: &Value) -> Vec<(String, String)> {
    let Err(faults) = RunnerDefinition::parse(definition.clone()) else { return Vec::new() };
    faults.iter().map(|fault| (fault.path.clone(), fault.reason.clone())).collect()
}

fn faults(definition: &Value) -> Vec<String> {
    reasons(definition).into_iter().map(|(path, _)| path).collect()
}

#[test]
fn the_parser_reads_every_property_that_the_schema_describes_and_no_other() {
    for (part, schema, definitions) in cases() {
        let (mut promised, mut given) = (BTreeSet::new(), BTreeSet::new());
        described(part, &schema, &mut promised);
        for definition in &definitions {
            assert_eq!(faults(definition), [""; 0], "{definition:#}");
            walk(part, &schema, &definition[part], &mut |path, schema, _| {
                assert!(schema["type"].is_string() || schema["type"].is_array(), "{path}");
                given.insert(path.to_owned());
            });
        }
        assert_eq!(given, promised, "{}", schema["title"]);
    }
}

#[test]
fn a_property_that_the_schema_does_not_describe_is_refused_with_its_path() {
    for (part, schema, definitions) in cases() {
        for definition in &definitions {
            walk(part, &schema, &definition[part], &mut |path, schema, _| {
                if schema["additionalProperties"] == false {
                    let mut other = definition.clone();
                    at(&mut other, path)["undescribed"] = json!(1);
                    assert_eq!(faults(&other), [format!("{path}.undescribed")]);
                }
            });
        }
    }
}

#[test]
fn what_the_schema_requires_is_refused_when_absent_and_everything_else_may_be_null() {
    for (part, schema, definitions) in cases() {
        for definition in &definitions {
            walk(part, &schema, &definition[part], &mut |path, schema, _| {
                let required = schema["required"].as_array().cloned().unwrap_or_default();
                for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                    let (path, mut other) = (format!("{path}.{name}"), definition.clone());
                    let parent = path.rsplit_once('.').unwrap().0;
                    at(&mut other, parent)[name] = Value::Null;
                    let is_required = required.contains(&json!(name));
                    // Rules about several properties have other reasons: a `memory` needs a `cpu`.
                    let missing = (path.clone(), "is required".to_owned());
                    assert_eq!(reasons(&other).contains(&missing), is_required, "{path}");
                    let types = property["type"].as_array();
                    let may_be_null = types.is_some_and(|types| types.contains(&json!("null")));
                    assert_eq!(may_be_null, !is_required, "{path}");
                }
            });
        }
    }
}

#[test]
fn a_value_outside_the_limits_that_the_schema_states_is_refused() {
    let mut checked = BTreeSet::new();
    for (part, schema, definitions) in cases() {
        for definition in &definitions {
            walk(part, &schema, &definition[part], &mut |path, schema, _| {
                let number = |keyword: &str| schema[keyword].as_u64();
                let text = |length: u64| json!("a".repeat(usize::try_from(length).unwrap()));
                let values = [
                    ("maximum", number("maximum").map(|most| json!(most + 1))),
                    ("minimum", number("minimum").map(|least| json!(least.checked_sub(1)))),
                    ("maxLength", number("maxLength").map(|most| text(most + 1))),
                    ("enum", schema["enum"].is_array().then(|| json!("undescribed"))),
                    ("type", schema["type"].is_string().then(|| json!([{}]))),
                ];
                for (keyword, value) in values {
                    let Some(value) = value.filter(|value| !value.is_null()) else { continue };
                    let mut other = definition.clone();
                    *at(&mut other, path) = value;
                    assert!(faults(&other).iter().any(|fault| fault.starts_with(path)), "{path}");
                    checked.insert(keyword);
                }
            });
        }
    }
    assert_eq!(checked.len(), 5, "{checked:?}");
}

#[test]
fn a_schema_has_the_documentation_the_rule_and_the_form_of_each_property() {
    let auth = |name: &str| {
        let types = RunnerConfiguration::schema();
        types["oneOf"][0]["properties"]["cluster"]["properties"]["auth"]["properties"][name].clone()
    };
    let storage = StateStorage::schema()["oneOf"][3].clone();
    insta::assert_snapshot!(format!(
        "{:#}\n{:#}\n{storage:#}",
        auth("client_key_data"),
        auth("oidc")
    ));
}

#[test]
fn every_type_states_what_its_jobs_are_who_launches_them_and_how_a_check_tries_them() {
    let lines = RunnerType::ALL.iter().map(|kind| {
        let storage = storage(StorageType::S3);
        let definition = json!({ "runner_configuration": examples(*kind)[0], "state_storage_configuration": storage });
        let definition = RunnerDefinition::parse(definition).unwrap();
        let steps: Vec<_> = steps_of(&definition).iter().map(|step| step.as_str()).collect();
        let (place, by) = (kind.job_place(), kind.launched_by());
        format!("{kind}: {place:?}, {by:?}, {}", steps.join(" "))
    });
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r"
    kubernetes: Cluster, Canyon, definition connect permissions dry_run
    kubernetes-gke: Cluster, Canyon, definition assertion exchange cluster connect permissions dry_run
    kubernetes-eks: Cluster, Canyon, definition assertion exchange cluster connect permissions dry_run
    kubernetes-aks: Cluster, Canyon, definition assertion exchange cluster connect permissions dry_run
    serverless-ecs: Ecs, Canyon, definition assertion exchange cluster permissions dry_run
    kubernetes-agent: Cluster, Agent, definition agent
    ecs-agent: Ecs, Agent, definition agent
    docker-agent: Docker, Agent, definition agent
    docker: Docker, Canyon, definition connect image dry_run metadata
    local: Machine, CanyonOrAgent, definition
    ");
}
