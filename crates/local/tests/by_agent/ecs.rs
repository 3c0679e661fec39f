//! Tasks of a strict ECS that are containers which really run, by the agent of the account.

use crate::bed::{ACT_IMAGE, Facts, act_image};
use crate::behaviour::{Act, behaves};
use crate::check;
use crate::ecs_bed::{ACCOUNT, Account, LOG_GROUP, REGION};
use crate::far::{Bed, Far, Place, settings};
use crate::notes::Notes;
use crate::restart;
use canyon_dispatch::JobRef;
use serde_json::{Value, json};

/// The account. It ends with the test, and its containers do.
struct Tasks {
    notes: Notes,
    account: Account,
}

impl Bed for Tasks {
    fn tell(&self, job: &JobRef, act: Act) {
        self.notes.tell_job(job, act);
    }

    fn noted(&self, job: &JobRef, what: &str) -> usize {
        self.notes.noted_by(job, what)
    }

    fn lives(&self, job: &JobRef) -> bool {
        // The organization comes first, for which the agent has a name of its own.
        let end = format!("-{}-{}", job.deployment.0.simple(), job.attempt);
        let is_its = |task: &&Value| task["startedBy"].as_str().unwrap().ends_with(&end);
        let tasks = self.account.all_tasks();
        tasks.iter().filter(is_its).any(|task| task["containers"][0]["lastStatus"] != "STOPPED")
    }
}

async fn place() -> Place<Tasks> {
    let facts = Facts::of_cluster();
    tokio::task::spawn_blocking(|| act_image(facts)).await.unwrap();
    let notes = Notes::at(facts.get("NODE_ADDRESS"));
    // Two minutes of `stopTimeout` in ten seconds.
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
    Place { bed: Tasks { notes, account }, definition, variables }
}

// What a task wrote stays in its log group.
behaves! { Far::at(place().await).await;
    a_job_that_was_never_started_is_gone_and_may_be_stopped,
    a_second_start_finds_the_first_dead_or_alive,
    of_many_starts_at_once_one_runs,
    a_job_is_asked_once_and_lives_until_it_ends,
    a_living_job_is_not_forgotten,
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_was_killed_goes_on_with_its_job_when_it_is_back() {
    restart::it_goes_on_with_its_job(&mut Far::at(place().await).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_finds_all_good_here_and_names_what_is_wrong_elsewhere() {
    let place = place().await;
    check::finds_all_good(&place).await;
    let other = [("CANYON_JOB_DISPATCHER_DATA_CLUSTER", "other")];
    check::names_what_is_wrong(&place, &other, "`other`").await;
    let nobody = [("AWS_ACCESS_KEY_ID", ""), ("AWS_EC2_METADATA_DISABLED", "true")];
    check::names_what_is_wrong(&place, &nobody, "AWS_ACCESS_KEY_ID").await;
}
