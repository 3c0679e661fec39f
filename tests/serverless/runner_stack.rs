//! The stack of infra/aws/runner sets up what `canyon doctor` prints for a runner that uses it.

use canyon_cloud::region::Region;
use canyon_domain::ids::{OrgUuid, RunnerUuid};
use canyon_domain::runner::RunnerDefinition;
use canyon_domain::trust::{Identity, Trust, of_runner};
use serde_json::{Value, json};
use std::process::Command;
use uuid::Uuid;

const REGION: &str = "eu-north-1";
const ISSUER: &str = "https://canyon.example.com/oidc";

/// The stack in moto, for one runner.
fn stack(subject: &str) -> Value {
    let python = std::env::var_os("CANYON_TEST_AWS_PYTHON").expect("run ./scripts/test");
    let mut command = Command::new(python);
    command
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
        .args(["-B", "tests/cloud/runner_stack.py", "--region", REGION])
        .args(["--endpoint", Region::shared().moto.url()]);
    let subjects = format!("Subjects={subject},org:{0}:runner:{0}", Uuid::from_u128(9));
    let issuer = format!("IssuerUrl={ISSUER}");
    for parameter in [&issuer, &subjects, "Prefix=compute", "StateBucket=states", "StatePrefix=a/b"]
    {
        command.args(["--parameter", parameter]);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the stack cannot be created: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn trust(outputs: &Value) -> Trust {
    let definition = json!({
        "runner_configuration": {
            "type": "serverless-ecs",
            "auth": { "role_arn": outputs["LaunchRoleArn"] },
            "job": {
                "region": REGION,
                "cluster": outputs["Cluster"],
                "subnets": ["subnet-0a1b2c3d"],
                "execution_role_arn": outputs["ExecutionRoleArn"],
                "task_role_arn": outputs["TaskRoleArn"],
                "log_group": outputs["LogGroup"],
            },
        },
        "state_storage_configuration": { "type": "s3", "bucket": "states", "path_prefix": "a/b" },
    });
    let definition = RunnerDefinition::parse(definition).unwrap();
    let (org, uuid) = (OrgUuid(Uuid::from_u128(1)), RunnerUuid(Uuid::from_u128(2)));
    let (id, org_id) = ("fargate".parse().unwrap(), "acme".parse().unwrap());
    let who = Identity { issuer: ISSUER, jobs_issuer: ISSUER, org_id: &org_id, org, uuid, id: &id };
    of_runner(who, &definition)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runner_stack_trusts_and_grants_what_the_doctor_prints() {
    let subject = format!("org:{}:runner:{}", Uuid::from_u128(1), Uuid::from_u128(2));
    let wanted = subject.clone();
    let stack = tokio::task::spawn_blocking(move || stack(&wanted)).await.unwrap();
    assert_eq!(stack["status"], "CREATE_COMPLETE");
    let trust = trust(&stack["outputs"]);
    let document = |title: &str| -> Value {
        let found = trust.documents.iter().find(|document| document.title == title);
        serde_json::from_str(&found.unwrap().text).unwrap()
    };
    let launch = &stack["roles"]["LaunchRole"];

    // The stack is for several runners. The subject of the doctor's document is in the stack's list,
    // and the task families of one runner are among those of all.
    let mut printed = document("Trust policy of the role");
    let condition = &mut printed["Statement"][0]["Condition"]["StringEquals"];
    let sub = &mut condition["canyon.example.com/oidc:sub"];
    assert_eq!(*sub, subject);
    *sub = json!([subject, format!("org:{0}:runner:{0}", Uuid::from_u128(9))]);
    assert_eq!(launch["trust"], printed);

    let printed = document("Permissions of the role").to_string();
    let printed: Value =
        serde_json::from_str(&printed.replace("canyon-fargate-*", "canyon-*")).unwrap();
    assert_eq!(launch["policies"]["canyon"], printed);

    let roles = ["ExecutionRole", "TaskRole"].map(|role| &stack["roles"][role]);
    for role in roles {
        let statement = &role["trust"]["Statement"][0];
        assert_eq!(statement["Principal"], json!({ "Service": "ecs-tasks.amazonaws.com" }));
    }
    let state = roles[1]["policies"]["state"].to_string();
    assert!(state.contains("arn:aws:s3:::states/a/b/*") && !state.contains("s3:*"), "{state}");
}
