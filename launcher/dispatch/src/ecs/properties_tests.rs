//! Every property of a runner's tasks reaches ECS.

use super::*;
use crate::ecs::definition::Definition;
use aws_sdk_ecs::config::{BehaviorVersion, Region};
use aws_sdk_ecs::operation::register_task_definition::builders::RegisterTaskDefinitionInputBuilder;
use aws_sdk_ecs::operation::run_task::builders::RunTaskInputBuilder;
use canyon_domain::container::ContainerLaunch;
use canyon_domain::ids::{DeploymentId, RunnerUuid};
use canyon_domain::runner::container_size::ContainerSize;
use canyon_domain::runner::{RunnerConfiguration, RunnerDefinition};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Map, Value, from_value};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// Properties that ECS does not see: Canyon's launcher, its API and the runner use them.
const NOT_FOR_ECS: [&str; 3] = ["allowed_images", "identity", "timeouts"];

/// Each other property, with two values.
fn values() -> BTreeMap<&'static str, [Value; 2]> {
    let role = |name| json!(format!("arn:aws:iam::123456789012:role/{name}"));
    let secret =
        |name| json!({ "S": format!("arn:aws:ssm:eu-west-1:123456789012:parameter/{name}") });
    let share = |provider| json!([{ "capacity_provider": provider, "weight": 1 }]);
    BTreeMap::from([
        ("region", [json!("eu-west-1"), json!("eu-central-1")]),
        ("cluster", [json!("a"), json!("b")]),
        ("subnets", [json!(["subnet-1"]), json!(["subnet-2"])]),
        ("execution_role_arn", [role("a"), role("b")]),
        ("security_groups", [json!(["sg-1"]), json!(["sg-2"])]),
        ("is_public_ip_enabled", [json!(false), json!(true)]),
        ("image", [json!("a:1"), json!("a:2")]),
        ("task_role_arn", [role("a"), role("b")]),
        ("environment", [json!({ "E": "a" }), json!({ "E": "b" })]),
        ("secrets", [secret("a"), secret("b")]),
        ("cpu", [json!(1_024), json!(2_048)]),
        ("memory", [json!(4_096), json!(8_192)]),
        ("ephemeral_storage_gib", [json!(21), json!(22)]),
        ("capacity_provider_strategy", [share("FARGATE"), share("FARGATE_SPOT")]),
        ("tags", [json!({ "team": "a" }), json!({ "team": "b" })]),
        ("platform_version", [json!("LATEST"), json!("1.4.0")]),
        ("architecture", [json!("X86_64"), json!("ARM64")]),
        ("log_group", [json!("a"), json!("b")]),
    ])
}

/// What the dispatcher sends to ECS for a runner with this job. The family's name is a hash of the definition and would
/// differ by itself.
fn calls(job: &Map<String, Value>) -> (RegisterTaskDefinitionInputBuilder, RunTaskInputBuilder) {
    let target = target(job);
    let launch = Launch {
        job: JobRef { deployment: DeploymentId(Uuid::nil()), attempt: 1, handle: None },
        environment: BTreeMap::new(),
        project: "shop".parse().unwrap(),
        env: "dev".parse().unwrap(),
        launched_at: Timestamp::UNIX_EPOCH,
        container: None,
    };
    let job = target.definition.configuration.ecs_job().unwrap();
    let client = aws_sdk_ecs::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .build();
    let client = Client::from_conf(client);
    let definition = Definition::new(&target, job, job.image.as_deref().unwrap(), None);
    let register = definition.register(&client).unwrap().family("family");
    let request = Request::new(&target, job, &launch, "name".to_owned()).unwrap();
    let run = request.build(&client, "family").unwrap();
    (register.as_input().clone(), run.as_input().clone())
}

fn target(job: &Map<String, Value>) -> Target {
    let definition = json!({
        "runner_configuration": {
            "type": "serverless-ecs", "auth": { "role_arn": "arn:aws:iam::123456789012:role/c" }, "job": job,
        },
        "state_storage_configuration": { "type": "s3", "bucket": "states" },
    });
    Target {
        org: OrgUuid(Uuid::nil()),
        org_id: "acme".parse().unwrap(),
        agent: None,
        runner: RunnerUuid(Uuid::nil()),
        runner_id: "far".parse().unwrap(),
        definition: RunnerDefinition::parse(definition).unwrap(),
    }
}

#[test]
fn every_property_of_a_runner_of_type_serverless_ecs_changes_what_is_sent_to_ecs() {
    let schema = RunnerConfiguration::schema();
    let is_ecs = |of_type: &&Value| of_type["title"] == "serverless-ecs";
    let of_type = schema["oneOf"].as_array().unwrap().iter().find(is_ecs).unwrap();
    let properties: Map<_, _> =
        from_value(of_type["properties"]["job"]["properties"].clone()).unwrap();
    let values = values();
    let base: Map<_, _> =
        values.iter().map(|(name, [one, _])| ((*name).to_owned(), one.clone())).collect();
    let sent = calls(&base);
    for name in properties.keys().filter(|name| !NOT_FOR_ECS.contains(&name.as_str())) {
        let [_, other] = values.get(name.as_str()).unwrap_or_else(|| {
            panic!("`job.{name}` is new: add two of its values above, and apply it in `definition.rs` or `request.rs`")
        });
        let mut job = base.clone();
        job.insert(name.clone(), other.clone());
        assert!(calls(&job) != sent, "`job.{name}` is not sent");
    }
}

#[test]
fn a_container_job_has_the_size_that_it_asks_for_and_else_that_of_its_runner() {
    let base: Map<_, _> =
        values().into_iter().map(|(name, [one, _])| (name.to_owned(), one)).collect();
    let target = target(&base);
    let job = target.definition.configuration.ecs_job().unwrap();
    let made = |cpu: Option<&str>, memory: Option<&str>| {
        let of = |amount: Option<&str>| amount.map(str::to_owned);
        let size = ContainerSize { cpu: of(cpu), memory: of(memory) };
        let launch =
            ContainerLaunch { image: "a:1".to_owned(), size, ..ContainerLaunch::default() };
        serde_json::to_value(Definition::new(&target, job, "r:1", Some(&launch))).unwrap()
    };
    let as_runner = made(None, None);
    assert_eq!((&as_runner["cpu"], &as_runner["memory"]), (&base["cpu"], &base["memory"]));
    let larger = made(Some("4096"), Some("16384"));
    assert_eq!((&larger["cpu"], &larger["memory"]), (&json!(4096), &json!(16384)));
    assert_eq!(larger["image"], as_runner["image"], "nothing else is different");
}

/// The name of the family for a container job on a runner with this job.
fn family(job: &Map<String, Value>, container: Option<(&str, bool)>) -> String {
    let target = target(job);
    let job = target.definition.configuration.ecs_job().unwrap();
    let launch = container.map(|(image, needs_git)| ContainerLaunch {
        image: image.to_owned(),
        stop_seconds: 70,
        needs_git,
        ..ContainerLaunch::default()
    });
    Definition::new(&target, job, job.image.as_deref().unwrap(), launch.as_ref()).family()
}

#[test]
fn the_definition_of_a_container_job_has_its_own_name_for_each_content() {
    let base: Map<_, _> =
        values().into_iter().map(|(name, [one, _])| (name.to_owned(), one)).collect();
    let mut names = BTreeSet::from([family(&base, None)]);
    assert!(names.insert(family(&base, Some(("a:1", false)))));
    assert!(names.insert(family(&base, Some(("a:1", true)))));
    assert!(names.insert(family(&base, Some(("a:2", false)))));
    // Those that ECS gets with the definition, and not with the request to run it.
    for name in [
        "architecture",
        "cpu",
        "environment",
        "ephemeral_storage_gib",
        "execution_role_arn",
        "image",
        "log_group",
        "memory",
        "region",
        "secrets",
        "tags",
        "task_role_arn",
    ] {
        let mut job = base.clone();
        job.insert(name.to_owned(), values()[name][1].clone());
        assert!(
            names.insert(family(&job, Some(("a:1", false)))),
            "`job.{name}` is not in the name"
        );
    }
    for name in &names {
        assert!(name.starts_with("canyon-far-"), "the policy of the role allows no other: {name}");
    }
}

proptest! {
    #[test]
    fn equal_container_jobs_have_one_definition_and_others_another(
        [one, other] in ["[a-z]{1,9}(/[a-z]{1,9})?:[0-9]{1,3}", "[a-z]{1,9}:[0-9]{1,3}"],
        gits in any::<[bool; 2]>(),
    ) {
        let base: Map<_, _> =
            values().into_iter().map(|(name, [one, _])| (name.to_owned(), one)).collect();
        let jobs = [(one.as_str(), gits[0]), (other.as_str(), gits[1])];
        let [name, other_name] = jobs.map(|job| family(&base, Some(job)));
        prop_assert_eq!(name == other_name, jobs[0] == jobs[1]);
        prop_assert_eq!(family(&base, Some(jobs[0])), name);
    }
}
