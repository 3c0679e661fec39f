//! Tasks of a simulated, strict ECS that runs real containers, through an agent of the account.

use crate::bed::{ACT_IMAGE, Facts, act_image};
use crate::behaviour::{Act, behaves};
use crate::check;
use crate::ecs_bed::{ACCOUNT, Account, LOG_GROUP, REGION};
use crate::notes::Notes;
use crate::restart;
use crate::through_agent::{Bed, Setup, ThroughAgent, settings};
use canyon_dispatch::JobRef;
use serde_json::{Value, json};

/// The account. It and its containers end with the test.
struct Tasks {
    notes: Notes,
    account: Account,
}

impl Bed for Tasks {
    fn prepare(&self, job: &JobRef, act: Act) {
        self.notes.prepare_job(job, act);
    }

    fn noted(&self, job: &JobRef, what: &str) -> usize {
        self.notes.noted_by(job, what)
    }

    fn lives(&self, job: &JobRef) -> bool {
        // The name begins with the organization, for which the agent uses its own uuid.
        let end = format!("-{}-{}", job.deployment.0.simple(), job.attempt);
        let is_its = |task: &&Value| task["startedBy"].as_str().unwrap().ends_with(&end);
        let tasks = self.account.all_tasks();
        tasks.iter().filter(is_its).any(|task| task["containers"][0]["lastStatus"] != "STOPPED")
    }
}

async fn setup() -> Setup<Tasks> {
    let facts = Facts::of_cluster();
    tokio::task::spawn_blocking(|| act_image(facts)).await.unwrap();
    let notes = Notes::at(facts.get("NODE_ADDRESS"));
    // Scales two minutes of `stopTimeout` to ten seconds.
    let account =
        Account::new(&json!({ "docker_host": facts.get("DOCKER_HOST"), "stop_scale": 0.08 }));
    let job = json!({
        "execution_role_arn": format!("arn:aws:iam::{ACCOUNT}:role/execution"),
        "task_role_arn": format!("arn:aws:iam::{ACCOUNT}:role/task"),
        "log_group": LOG_GROUP,
    });
    let definition = json!({
        "runner_configuration": { "type": "ecs-agent", "job": job },
        "state_storage_configuration": { "type": "s3", "bucket": "states" },
    });
    let data =
        [("REGION", REGION), ("CLUSTER", "jobs"), ("SUBNETS", "subnet-0a"), ("IMAGE", ACT_IMAGE)];
    let mut variables = settings("ecs", Some(&notes), &data);
    variables.extend(account.in_place_variables().await);
    Setup { bed: Tasks { notes, account }, definition, variables }
}

// The rules about output are left out: a task's output is in its log group.
behaves! { ThroughAgent::start(setup().await).await;
    a_job_that_was_never_started_is_gone_and_may_be_stopped,
    a_second_start_finds_the_first_dead_or_alive,
    of_many_starts_at_once_one_runs,
    a_job_is_asked_once_and_lives_until_it_ends,
    a_living_job_is_not_forgotten,
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_was_killed_goes_on_with_its_job_when_it_is_back() {
    restart::the_agent_finds_its_job(&mut ThroughAgent::start(setup().await).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_succeeds_and_reports_each_wrong_setting() {
    let setup = setup().await;
    check::succeeds(&setup).await;
    let other = [("CANYON_JOB_DISPATCHER_DATA_CLUSTER", "other")];
    check::reports_the_fault(&setup, &other, "`other`").await;
    let without_keys = [("AWS_ACCESS_KEY_ID", ""), ("AWS_EC2_METADATA_DISABLED", "true")];
    check::reports_the_fault(&setup, &without_keys, "AWS_ACCESS_KEY_ID").await;
}
