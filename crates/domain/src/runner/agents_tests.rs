use crate::runner::RunnerDefinition;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn parse(value: &Value) -> RunnerDefinition {
    RunnerDefinition::parse(value.clone()).unwrap()
}

fn faults(value: &Value) -> String {
    RunnerDefinition::parse(value.clone()).unwrap_err().to_string().replace("; `", "\n`")
}

#[test]
fn a_runner_selects_agents_and_a_profile() {
    let with = |agents: Value, profile: Value| {
        json!({
            "runner_configuration": { "type": "docker-agent", "agents": agents, "profile": profile },
            "state_storage_configuration": { "type": "s3", "bucket": "states" },
        })
    };
    let definition = parse(&with(json!({ "ids": ["a1", "b1"] }), json!("${project.id}")));
    let settings = definition.configuration.agent_settings().unwrap();
    assert_eq!(settings.profile.as_ref().unwrap().as_str(), "${project.id}");
    let selector = settings.agents.as_ref().unwrap();
    let none = BTreeMap::default();
    assert!(selector.matches(&"b1".parse().unwrap(), &none));
    assert!(!selector.matches(&"c1".parse().unwrap(), &none));

    let cases = [
        with(json!({}), json!(3)),
        with(json!({ "ids": [] }), json!("${project}")),
        with(json!({ "ids": ["a1"], "labels": { "a": "b" } }), json!("")),
        with(json!({ "labels": {} }), json!("a b")),
        with(json!({ "ids": ["A"], "label": { "a": "b" } }), json!("${")),
    ];
    insta::assert_snapshot!(cases.map(|value| faults(&value)).join("\n\n"), @r#"
    `runner_configuration.agents` must have `ids` or `labels`; leave it out for any agent
    `runner_configuration.profile` must be text, not a number

    `runner_configuration.agents.ids` must have 1 to 16 entries
    `runner_configuration.profile` has a reference that is not known; there are `${project.id}`, `${environment.id}`, `${environment.type}`, `${var.NAME}`, and `${project.profile}` in a runner

    `runner_configuration.agents` must have either `ids` or `labels`, not both
    `runner_configuration.profile` must have 1 to 255 bytes

    `runner_configuration.agents.labels` must have 1 to 16 entries; leave `agents` out for any agent
    `runner_configuration.profile` must consist of letters, digits and `._-/`, and of references such as `${project.id}`

    `runner_configuration.agents.ids[0]` must be the id of an agent: 1 to 100 lower case letters, digits, hyphens, underscores and single dots, starting with a letter or digit
    `runner_configuration.agents.label` is not a known field; the fields here are `ids`, `labels`
    `runner_configuration.profile` has a `${` without its `}`
    "#);
}

fn ecs(job: &Value) -> Value {
    let mut whole = json!({ "execution_role_arn": "arn:aws:iam::123456789012:role/execution" });
    whole.as_object_mut().unwrap().extend(job.as_object().unwrap().clone());
    json!({
        "runner_configuration": { "type": "ecs-agent", "job": whole },
        "state_storage_configuration": { "type": "s3", "bucket": "states" },
    })
}

#[test]
fn the_location_is_optional_for_ecs_agents_and_ec2_needs_an_acknowledgement() {
    let acknowledged = json!({
        "launch_type": "ec2", "acknowledge_shared_instance_credentials": true,
        "cpu": 300, "memory": 700,
    });
    let in_china = json!({
        "region": "cn-north-1", "cluster": "c", "subnets": ["subnet-1"], "launch_type": "fargate",
        "execution_role_arn": "arn:aws-cn:iam::123456789012:role/execution",
    });
    for job in [json!({}), acknowledged.clone(), in_china] {
        let value = ecs(&job);
        assert_eq!(parse(&value).to_value(), value);
    }
    let mut of_fargate = acknowledged;
    of_fargate["platform_version"] = json!("1.4.0");
    of_fargate["ephemeral_storage_gib"] = json!(30);
    of_fargate["is_public_ip_enabled"] = json!(true);
    let direct = json!({
        "runner_configuration": {
            "type": "serverless-ecs",
            "auth": { "role_arn": "arn:aws:iam::123456789012:role/launch" },
            "job": { "execution_role_arn": "arn:aws:iam::123456789012:role/e", "launch_type": "ec2" },
        },
        "state_storage_configuration": { "type": "s3", "bucket": "states" },
    });
    let cases = [
        ecs(&json!({ "launch_type": "ec2" })),
        ecs(&json!({ "launch_type": "external", "cpu": 300, "memory": 700 })),
        ecs(&of_fargate),
        direct,
    ];
    insta::assert_snapshot!(cases.map(|value| faults(&value)).join("\n\n"), @r#"
    `runner_configuration.job.launch_type` is `ec2`, which puts jobs on instances whose own credentials a task may reach; use `fargate`, or set `acknowledge_shared_instance_credentials: true` beside it, once the instances have ECS_AWSVPC_BLOCK_IMDS=true or credentials without permissions

    `runner_configuration.job.launch_type` must be one of `fargate`, `ec2`
    `external` is not known
    `runner_configuration.job.cpu` must be one of 256, 512, 1024, 2048, 4096, 8192, 16384

    `runner_configuration.job.ephemeral_storage_gib` works only on Fargate, and `launch_type` is `ec2`
    `runner_configuration.job.platform_version` works only on Fargate, and `launch_type` is `ec2`
    `runner_configuration.job.is_public_ip_enabled` works only on Fargate, and `launch_type` is `ec2`

    `runner_configuration.job.region` is required
    `runner_configuration.job.cluster` is required
    `runner_configuration.job.subnets` is required
    `runner_configuration.job.launch_type` is not a known field; the fields here are `region`, `cluster`, `subnets`, `execution_role_arn`, `security_groups`, `is_public_ip_enabled`, `image`, `allowed_images`, `task_role_arn`, `environment`, `secrets`, `cpu`, `memory`, `ephemeral_storage_gib`, `capacity_provider_strategy`, `tags`, `platform_version`, `architecture`, `log_group`, `identity`, `timeouts`
    "#);
}
