//! The kind `serverless-ecs`: against a strict ECS, with real containers, and with tasks that a
//! test controls.

use crate::bed::{Facts, act_image};
use crate::behaviour::{Act, Platform, behaves, launch, new_job, until, until_gone};
use crate::ecs_bed::{Account, LOG_GROUP, started_by};
use crate::notes::Notes;
use canyon_dispatch::{
    Dispatcher, JobRef, Launch, OnFailure, Platform as _, RemovalOutcome, Started, TailStream,
};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use serde_json::json;
use std::sync::Arc;

const CODE: &str = "cyc_canary-of-a-claim-code";

pub(crate) fn simple(job: &JobRef) -> Launch {
    launch(job.clone(), [("CANYON_CLAIM_CODE".to_owned(), CODE.into())].into())
}

/// An account whose tasks are containers on the node.
pub(crate) struct Containers {
    pub(crate) account: Account,
    pub(crate) notes: Notes,
}

impl Containers {
    pub(crate) async fn new() -> Self {
        let facts = Facts::of_cluster();
        tokio::task::spawn_blocking(|| act_image(facts)).await.unwrap();
        // The two minutes of `stopTimeout` take ten seconds.
        let behaviour = json!({ "docker_host": facts.get("DOCKER_HOST"), "stop_scale": 0.08 });
        let notes = Notes::at(facts.get("NODE_ADDRESS"));
        Self { account: Account::new(&behaviour), notes }
    }
}

impl Platform for Containers {
    type Kind = dyn Dispatcher;

    fn dispatcher(&self) -> Arc<dyn Dispatcher> {
        self.account.dispatcher()
    }

    fn launch(&self, job: JobRef, act: Act) -> Launch {
        self.acting(job, act.word())
    }

    fn noted(&self, job: &JobRef, what: &str) -> usize {
        self.notes.count(&started_by(job), what)
    }
}

impl Containers {
    pub(crate) fn acting(&self, job: JobRef, act: &str) -> Launch {
        let variables = [
            ("CANYON_ACT", act.to_owned()),
            ("CANYON_NOTES", self.notes.address.to_string()),
            ("CANYON_NOTES_KEY", started_by(&job)),
        ];
        launch(job, variables.map(|(name, value)| (name.to_owned(), value.into())).into())
    }

    async fn ended(&self, act: &str) -> Observation {
        let (kind, job) = (self.dispatcher(), new_job());
        kind.start(&self.acting(job.clone(), act)).await.unwrap();
        until_gone(&*kind, &job).await;
        kind.observe(&job).await
    }
}

behaves! { Containers::new().await;
    a_second_start_finds_the_first_dead_or_alive,
    of_many_starts_at_once_one_runs,
    a_job_is_asked_once_and_lives_until_it_ends,
    a_living_job_is_not_forgotten,
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_task_wrote_is_read_from_its_log_group() {
    let tasks = Containers::new().await;
    let (kind, job) = (tasks.dispatcher(), new_job());
    kind.start(&tasks.launch(job.clone(), Act::Writes)).await.unwrap();
    until_gone(&*kind, &job).await;
    for stream in [TailStream::Log, TailStream::Events] {
        for (offset, rest) in [(0, "012345678\n"), (7, "78\n"), (10, ""), (99, "")] {
            assert_eq!(kind.tail(&job, stream, offset).await.unwrap(), rest.as_bytes());
        }
    }
    assert_eq!(kind.forget(&job).await, RemovalOutcome::Removed);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_of_a_container_and_lack_of_memory_have_different_classes() {
    let tasks = Containers::new().await;
    let Observation::Gone(Some(failed)) = tasks.ended("fails").await else { panic!() };
    assert_eq!(failed.class, FailureClass::Lost);
    assert!(failed.message.contains("exit code 3"), "{failed:?}");
    let Observation::Gone(Some(killed)) = tasks.ended("memory").await else { panic!() };
    assert_eq!(killed.class, FailureClass::Oom, "{killed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_pulled_ends_the_job_with_the_registrys_words() {
    let tasks = Containers::new().await;
    let image = "127.0.0.1:24500/nobody/has-this:1";
    let (kind, job) = (tasks.account.runner(|job| job["image"] = image.into()), new_job());
    kind.start(&tasks.launch(job.clone(), Act::Writes)).await.unwrap();
    until_gone(&*kind, &job).await;
    let Observation::Gone(Some(failure)) = kind.observe(&job).await else { panic!() };
    assert_eq!(failure.class, FailureClass::ImagePull);
    assert!(failure.message.contains("nobody/has-this"), "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_process_finds_the_task_by_the_same_request_even_if_it_is_dead() {
    let account = Account::new(&json!({}));
    let job = new_job();
    let first = account.dispatcher().start(&simple(&job)).await.unwrap();
    let Started::Now(Some(arn)) = first else { panic!("{first:?}") };
    let task = json!({ "task": arn, "exit_code": 1 });
    until("it runs", async || account.task(&job)["lastStatus"] == "RUNNING").await;
    let another = account.another_canyon().dispatcher(&account.target(|_| {}));
    assert_eq!(another.start(&simple(&job)).await.unwrap(), Started::Already(Some(arn.clone())));
    account.tell("/end", &task);
    until_gone(&*account.dispatcher(), &job).await;
    let third = account.another_canyon().dispatcher(&account.target(|_| {}));
    assert_eq!(third.start(&simple(&job)).await.unwrap(), Started::Already(Some(arn)));
    assert_eq!(account.tasks(&job).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_was_changed_after_the_start_finds_the_task_too() {
    let account = Account::new(&json!({}));
    let job = new_job();
    account.dispatcher().start(&simple(&job)).await.unwrap();
    let arn = account.task(&job)["taskArn"].as_str().unwrap().to_owned();
    let changed = account.runner(|job| job["subnets"] = json!(["subnet-0c"]));
    assert_eq!(changed.start(&simple(&job)).await.unwrap(), Started::Already(Some(arn)));
    assert_eq!(account.tasks(&job).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_answer_was_lost_is_found_and_not_repeated() {
    for drop in ["before", "after"] {
        let account = Account::new(&json!({}));
        account.faults(&json!([{ "action": "RunTask", "drop": drop }]));
        let (kind, job) = (account.dispatcher(), new_job());
        let error = kind.start(&simple(&job)).await.unwrap_err();
        assert_eq!(error.on_failure, OnFailure::Observe, "{error}");
        kind.start(&simple(&job)).await.unwrap();
        assert_eq!(account.tasks(&job).len(), 1);
        let sent = account.bodies("RunTask");
        // A started task is found in the list; otherwise the same bytes are sent again.
        assert_eq!(sent.len(), 1, "{drop}");
        assert!(!account.bodies("ListTasks").is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_is_not_started_when_ecs_may_have_forgotten_it() {
    let account = Account::new(&json!({ "outcome": { "exit_code": 1 } }));
    let job = new_job();
    let launch = simple(&job);
    account.dispatcher().start(&launch).await.unwrap();
    until_gone(&*account.dispatcher(), &job).await;
    // ECS forgets the token an hour after the task has stopped, and the task too.
    account.time_passes(2 * 3_600);
    let another = account.another_canyon().dispatcher(&account.target(|_| {}));
    let error = another.start(&launch).await.unwrap_err();
    assert_eq!(
        (error.on_failure, error.failure.class),
        (OnFailure::EndAttempt, FailureClass::Lost),
        "{error}"
    );
    assert_eq!(account.tasks(&job).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_capacity_ends_the_attempt_and_the_next_one_tries_other_subnets() {
    let account = Account::new(&json!({ "no_capacity": ["FARGATE_SPOT"] }));
    let strategy = json!([
        { "capacity_provider": "FARGATE_SPOT", "weight": 3 },
        { "capacity_provider": "FARGATE", "weight": 1 },
    ]);
    let kind = account.runner(|job| job["capacity_provider_strategy"] = strategy);
    let job = new_job();
    let error = kind.start(&simple(&job)).await.unwrap_err();
    assert_eq!(
        (error.on_failure, error.failure.class),
        (OnFailure::EndAttempt, FailureClass::Capacity)
    );
    assert!(error.failure.message.contains("different availability zone"), "{error}");
    let second = JobRef { attempt: 2, ..job };
    kind.start(&simple(&second)).await.unwrap();
    let sent = account.bodies("RunTask");
    let subnets = |n: usize| {
        sent[n]["networkConfiguration"]["awsvpcConfiguration"]["subnets"].as_array().unwrap().len()
    };
    assert_eq!((subnets(0), subnets(1)), (3, 2));
    assert_eq!(sent[1]["capacityProviderStrategy"][0]["capacityProvider"], "FARGATE");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_or_forbidden_thing_is_named() {
    let cases = [
        ("subnets", json!(["subnet-0f"]), "subnet-0f"),
        ("security_groups", json!(["sg-0f"]), "sg-0f"),
        ("cluster", json!("elsewhere"), "`elsewhere`"),
        ("task_role_arn", json!("arn:aws:iam::111122223333:role/other"), "iam:PassRole"),
        ("region", json!("us-east-1"), ""),
    ];
    let account = Account::new(&json!({}));
    for (field, value, named) in cases {
        let kind = account.runner(|job| job[field] = value);
        let job = new_job();
        match kind.start(&simple(&job)).await {
            // A region that is enabled has its own definitions and tasks.
            Ok(_) => assert_eq!(field, "region"),
            Err(error) => {
                let class = (error.on_failure, error.failure.class);
                assert_eq!(class, (OnFailure::EndAttempt, FailureClass::Config), "{error}");
                assert!(error.failure.message.contains(named), "{error}");
            }
        }
    }
    let long = "x".repeat(9_000).into();
    let launch = launch(new_job(), [("CANYON_API_URL".to_owned(), long)].into());
    let error = account.dispatcher().start(&launch).await.unwrap_err();
    assert_eq!(
        (error.on_failure, error.failure.class),
        (OnFailure::EndAttempt, FailureClass::Config)
    );
    assert!(error.failure.message.contains("8192"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_without_a_permission_fails_with_the_name_of_the_permission() {
    let actions = [
        "ecs:RunTask",
        "ecs:RegisterTaskDefinition",
        "ecs:DescribeTaskDefinition",
        "ecs:TagResource",
    ];
    for action in actions {
        let account = Account::with(&json!({}), |state| {
            let role = &mut state["aws"]["accounts"]["111122223333"]["roles"]["canyon"];
            let statements = role["policies"][0]["Statement"].as_array_mut().unwrap();
            statements.push(json!({ "Effect": "Deny", "Action": action, "Resource": "*" }));
        });
        let error = account.dispatcher().start(&simple(&new_job())).await.unwrap_err();
        assert_eq!(
            (error.on_failure, error.failure.class),
            (OnFailure::EndAttempt, FailureClass::Config)
        );
        assert!(error.failure.message.contains(&format!("may not call `{action}`")), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn observations_of_many_tasks_share_few_calls() {
    let account =
        Account::new(&json!({ "run_task_rate": [1_000, 1_000], "launch_rate": [1_000, 1_000] }));
    let kind = account.dispatcher();
    let mut jobs = Vec::new();
    for _ in 0..150 {
        let mut job = new_job();
        let Started::Now(handle) = kind.start(&simple(&job)).await.unwrap() else { panic!() };
        job.handle = handle;
        jobs.push(job);
    }
    let observations = jobs.into_iter().map(|job| {
        let kind = kind.clone();
        tokio::spawn(async move { kind.observe(&job).await })
    });
    for observation in observations.collect::<Vec<_>>() {
        let observation = observation.await.unwrap();
        assert!(!matches!(observation, Observation::Gone(_) | Observation::Unknown(_)));
    }
    let calls = account.bodies("DescribeTasks").len();
    assert!(calls <= 6, "{calls} calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_definition_serves_all_attempts_and_contains_nothing_of_them() {
    let account = Account::new(&json!({}));
    let secrets = json!({ "DB": "arn:aws:ssm:eu-west-1:111122223333:parameter/db" });
    let change = |job: &mut serde_json::Value| {
        job["secrets"] = secrets.clone();
        job["environment"] = json!({ "TF_LOG": "info" });
    };
    for _ in 0..3 {
        let canyon = account.another_canyon();
        let kind = canyon.dispatcher(&account.target(change));
        kind.start(&simple(&new_job())).await.unwrap();
    }
    let [definition] = &account.bodies("RegisterTaskDefinition")[..] else { panic!("not one") };
    let container = &definition["containerDefinitions"][0];
    assert_eq!(container["stopTimeout"], 120);
    assert_eq!(container["user"], "65532:65532");
    assert_eq!(container["secrets"][0]["valueFrom"], secrets["DB"]);
    assert_eq!(container["logConfiguration"]["options"]["awslogs-group"], LOG_GROUP);
    assert!(!definition.to_string().contains("CANYON_"), "{definition}");
    for body in account.bodies("RunTask") {
        let overrides = &body["overrides"]["containerOverrides"];
        assert_eq!(overrides.as_array().unwrap().len(), 1);
        let variables = overrides[0]["environment"].as_array().unwrap();
        let log = json!({ "name": "CANYON_LOG_TO_STDOUT", "value": "1" });
        assert!(variables.len() == 2 && variables.contains(&log), "{variables:?}");
    }
    // Another content needs another definition.
    account.dispatcher().start(&simple(&new_job())).await.unwrap();
    assert_eq!(account.bodies("RegisterTaskDefinition").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deregistered_definition_is_registered_again() {
    let account = Account::new(&json!({}));
    let kind = account.dispatcher();
    kind.start(&simple(&new_job())).await.unwrap();
    account.tell("/deregister", &json!({}));
    let job = new_job();
    kind.start(&simple(&job)).await.unwrap();
    assert_eq!(account.tasks(&job).len(), 1);
    assert_eq!(account.bodies("RegisterTaskDefinition").len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_throttled_start_waits_for_its_turn() {
    let account = Account::new(&json!({ "run_task_rate": [1, 0.001] }));
    let kind = account.dispatcher();
    kind.start(&simple(&new_job())).await.unwrap();
    let error = kind.start(&simple(&new_job())).await.unwrap_err();
    assert!(matches!(error.on_failure, OnFailure::WaitForTurn(_)), "{error:?}");
    assert_eq!(error.failure.class, FailureClass::Throttled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spot_interruption_and_a_manual_stop_have_their_reasons() {
    let account = Account::new(&json!({}));
    let kind = account.dispatcher();
    let cases = [
        ("SpotInterruption", "Your Spot Task was interrupted.", FailureClass::Spot),
        ("UserInitiated", "by hand", FailureClass::Lost),
    ];
    for (code, reason, class) in cases {
        let job = new_job();
        let Started::Now(Some(arn)) = kind.start(&simple(&job)).await.unwrap() else { panic!() };
        until("it runs", async || kind.observe(&job).await == Observation::Alive).await;
        account.tell("/interrupt", &json!({ "task": arn, "stop_code": code, "reason": reason }));
        until_gone(&*kind, &job).await;
        let Observation::Gone(Some(failure)) = kind.observe(&job).await else { panic!() };
        assert_eq!(failure.class, class, "{failure:?}");
        assert!(failure.message.contains(reason), "{failure:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_the_organization_are_listed_and_no_others() {
    let account = Account::new(&json!({}));
    let kind = account.dispatcher();
    let jobs = [new_job(), new_job()];
    for job in &jobs {
        kind.start(&simple(job)).await.unwrap();
    }
    let listed = kind.jobs().await.unwrap();
    let mut names: Vec<_> = listed.iter().map(|job| job.deployment).collect();
    names.sort();
    assert_eq!(names, jobs.map(|job| job.deployment));
    assert!(listed.iter().all(|job| job.handle.is_some()));
}
