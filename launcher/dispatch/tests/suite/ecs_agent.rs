//! The kind `ecs-agent`: the same tasks, started from inside the account, on Fargate or on
//! instances.

use crate::bed::USERS_IMAGE;
use crate::behaviour::{launch, new_job, until_gone};
use crate::ecs::Containers;
use crate::ecs_bed::{ACCOUNT, Account, IMAGE, REGION, started_by};
use crate::kubernetes_containers::in_image;
use canyon_dispatch::ecs::EcsDefaults;
use canyon_dispatch::{Dispatcher, OnFailure, Platform as _, Started, StopMode};
use serde_json::{Value, json};
use std::sync::Arc;

/// The settings of an agent in the account.
fn defaults() -> EcsDefaults {
    EcsDefaults {
        region: REGION.to_owned(),
        cluster: "jobs".to_owned(),
        subnets: vec!["subnet-0a".to_owned()],
        image: Some(IMAGE.to_owned()),
        launch_type: None,
    }
}

async fn by_agent(account: &Account, job: Value) -> Arc<dyn Dispatcher> {
    let mut whole = json!({
        "execution_role_arn": format!("arn:aws:iam::{ACCOUNT}:role/execution"),
        "task_role_arn": format!("arn:aws:iam::{ACCOUNT}:role/task"),
    });
    whole.as_object_mut().unwrap().extend(job.as_object().unwrap().clone());
    let platform = account.in_place(defaults()).await;
    platform.dispatcher(&account.target_by_agent(&whole))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_runs_on_an_instance_if_the_runner_sets_it_and_on_fargate_otherwise() {
    let ec2 = json!({ "launch_type": "ec2", "acknowledge_shared_instance_credentials": true, "cpu": 300 });
    for (job, launch_type) in [(json!({}), "FARGATE"), (ec2.clone(), "EC2")] {
        let account = Account::with(&json!({}), |state| {
            state["aws"]["accounts"][ACCOUNT]["ecs"]["instances"] = json!(1);
        });
        let kind = by_agent(&account, job).await;
        let launch = launch(new_job(), [].into());
        assert!(matches!(kind.start(&launch).await.unwrap(), Started::Now(Some(_))));
        assert!(matches!(kind.start(&launch).await.unwrap(), Started::Already(Some(_))));
        assert_eq!(account.task(&launch.job)["launchType"], launch_type);
        let registered = &account.bodies("RegisterTaskDefinition")[0];
        assert_eq!(registered["requiresCompatibilities"], json!([launch_type]));
        assert_eq!(registered["networkMode"], "awsvpc");
        kind.stop(&launch.job, StopMode::Kill).await.unwrap();
    }
    // A cluster with only Fargate has no instances.
    let account = Account::new(&json!({}));
    let kind = by_agent(&account, ec2).await;
    let error = kind.start(&launch(new_job(), [].into())).await.unwrap_err();
    assert_eq!(error.on_failure, OnFailure::EndAttempt);
    assert!(error.to_string().contains("No Container Instances"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_job_runs_in_its_own_image() {
    let tasks = Containers::new().await;
    let kind = by_agent(&tasks.account, json!({})).await;
    let job = new_job();
    kind.start(&in_image(USERS_IMAGE, tasks.acting(job.clone(), "files"))).await.unwrap();
    until_gone(&*kind, &job).await;
    assert_eq!(tasks.notes.count(&started_by(&job), "wrote"), 1);
    let task = tasks.account.task(&job);
    assert_eq!(task["containers"][1]["image"], USERS_IMAGE, "{task}");
}
