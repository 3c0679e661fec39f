//! Container jobs on ECS: the runner's program starts in an image that has nothing but a user.

use crate::bed::{ACT_WITHOUT_INJECT_IMAGE, Facts, USERS_IMAGE};
use crate::behaviour::{Act, Platform, behaves, new_job, until_gone};
use crate::ecs::{Containers, simple};
use crate::ecs_bed::{Account, IMAGE, LOG_GROUP, started_by};
use crate::kubernetes_containers::in_image;
use canyon_dispatch::{Dispatcher, JobRef, Launch, Platform as _};
use canyon_domain::container::ContainerLaunch;
use canyon_domain::deadline::Observation;
use canyon_domain::failure::{Failure, FailureClass};
use serde_json::{Value, json};
use std::sync::Arc;

struct UsersImage(Containers);

impl Platform for UsersImage {
    type Kind = dyn Dispatcher;

    fn dispatcher(&self) -> Arc<dyn Dispatcher> {
        self.0.account.dispatcher()
    }

    fn launch(&self, job: JobRef, act: Act) -> Launch {
        in_image(USERS_IMAGE, self.0.acting(job, act.word()))
    }

    fn noted(&self, job: &JobRef, what: &str) -> usize {
        self.0.notes.count(&started_by(job), what)
    }
}

behaves! { UsersImage(Containers::new().await);
    a_second_start_finds_the_first_dead_or_alive,
    of_many_starts_at_once_one_runs,
    a_job_is_asked_once_and_lives_until_it_ends,
    a_living_job_is_not_forgotten,
}

fn with_git(launch: Launch) -> Launch {
    let container = ContainerLaunch {
        image: USERS_IMAGE.to_owned(),
        stop_seconds: 5,
        needs_git: true,
        ..ContainerLaunch::default()
    };
    Launch { container: Some(container), ..launch }
}

/// Why a job in `image` has failed, on a runner with a changed `job`.
async fn failure(tasks: &Containers, image: &str, act: &str, runner_image: &str) -> Failure {
    let kind = tasks.account.runner(|job| job["image"] = runner_image.into());
    let launch = in_image(image, tasks.acting(new_job(), act));
    kind.start(&launch).await.unwrap();
    ended(&*kind, &launch.job).await
}

async fn ended(kind: &dyn Dispatcher, job: &JobRef) -> Failure {
    until_gone(kind, job).await;
    let Observation::Gone(Some(failure)) = kind.observe(job).await else { panic!() };
    failure
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_of_any_user_writes_to_its_folder_and_to_tmp_and_nowhere_else() {
    let tasks = Containers::new().await;
    let (kind, job) = (tasks.account.dispatcher(), new_job());
    kind.start(&in_image(USERS_IMAGE, tasks.acting(job.clone(), "files"))).await.unwrap();
    until_gone(&*kind, &job).await;
    assert_eq!(tasks.notes.count(&started_by(&job), "wrote"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_missing_is_named_whether_it_is_the_users_or_the_runners() {
    let tasks = Containers::new().await;
    let missing = format!("{}/team/has-not-pushed:1", Facts::of_cluster().get("REGISTRY"));
    let of_user = failure(&tasks, &missing, "writes", IMAGE).await;
    let of_runner = failure(&tasks, USERS_IMAGE, "writes", &missing).await;
    for (failure, words) in [(of_user, "check `container.image`"), (of_runner, "check `job.image`")]
    {
        assert_eq!(failure.class, FailureClass::ImagePull, "{failure:?}");
        assert!(failure.message.contains(words), "{failure:?}");
        assert!(failure.message.contains("has-not-pushed"), "{failure:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_image_that_cannot_inject_is_quoted() {
    let tasks = Containers::new().await;
    let failure = failure(&tasks, USERS_IMAGE, "writes", ACT_WITHOUT_INJECT_IMAGE).await;
    assert_eq!(failure.class, FailureClass::Config);
    assert_eq!(
        failure.message,
        "the runner's image could not bring the runner into the container; it must be of this version of Canyon \
         (exit code 64): Task failed to start: canyon-runner: CANYON_API_URL is not set"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_needs_too_much_memory_ends_as_oom() {
    let tasks = Containers::new().await;
    let failure = failure(&tasks, USERS_IMAGE, "memory", IMAGE).await;
    assert_eq!(failure.class, FailureClass::Oom, "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ends_before_its_containers_exist_ends_with_the_platforms_reason() {
    let reason = "Timeout waiting for network interface provisioning to complete.";
    let outcome = json!({ "in_provisioning": true, "reason": reason });
    let account = Account::new(&json!({ "outcome": outcome }));
    let (kind, job) = (account.dispatcher(), new_job());
    kind.start(&in_image(USERS_IMAGE, simple(&job))).await.unwrap();
    let failure = ended(&*kind, &job).await;
    assert_eq!(failure.class, FailureClass::Capacity, "{failure:?}");
    assert!(failure.message.contains(reason), "{failure:?}");
    assert_eq!(account.task(&job)["containers"], json!([]));
}

/// The definition that was registered for a job, and the request that started it.
async fn sent(change: impl FnOnce(&mut Value), launch: &Launch) -> (Value, Value) {
    let account = Account::new(&json!({}));
    account.runner(change).start(launch).await.unwrap();
    let one = |action| account.bodies(action).remove(0);
    (one("RegisterTaskDefinition"), one("RunTask"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_container_gets_the_settings_of_the_runner_and_only_it_the_claim_code() {
    let secrets = json!({ "DB": "arn:aws:ssm:eu-west-1:111122223333:parameter/db" });
    let change = |job: &mut Value| {
        job["secrets"] = secrets.clone();
        job["environment"] = json!({ "TEAM": "shop" });
    };
    let (definition, request) = sent(change, &with_git(simple(&new_job()))).await;
    let [inject, main] = &definition["containerDefinitions"].as_array().unwrap()[..] else {
        panic!("{definition}")
    };
    assert_eq!((&inject["name"], &inject["image"]), (&json!("canyon-inject"), &json!(IMAGE)));
    assert_eq!((&main["name"], &main["image"]), (&json!("canyon-runner"), &json!(USERS_IMAGE)));
    assert_eq!((&inject["essential"], &main["essential"]), (&json!(false), &json!(true)));
    let command = json!(["inject", "/canyon/volume", "--temporary", "--git"]);
    assert_eq!((&inject["command"], &inject["user"]), (&command, &json!("0:0")));
    assert_eq!(main["entryPoint"], json!(["/canyon/bin/canyon-runner"]));
    assert_eq!(main["workingDirectory"], "/canyon/run");
    assert_eq!(main["user"], Value::Null, "the image's own");
    let after = json!([{ "containerName": "canyon-inject", "condition": "SUCCESS" }]);
    assert_eq!(main["dependsOn"], after);
    let mounts = |container: &Value| -> Vec<_> {
        let mounts = container["mountPoints"].as_array().unwrap().iter();
        let text = |mount: &Value, name| mount[name].as_str().unwrap().to_owned();
        mounts
            .map(|one| {
                format!(
                    "{} {} {}",
                    text(one, "sourceVolume"),
                    text(one, "containerPath"),
                    one["readOnly"]
                )
            })
            .collect()
    };
    let of_main = ["canyon /canyon false", "canyon-tmp /tmp false", "canyon-git /canyon-git true"];
    assert_eq!(mounts(main), of_main);
    let of_inject = [
        "canyon /canyon/volume false",
        "canyon-tmp /canyon/volume/tmp false",
        "canyon-git /canyon/volume/git false",
    ];
    assert_eq!(mounts(inject), of_inject);
    for container in [inject, main] {
        assert_eq!(container["readonlyRootFilesystem"], true);
        assert_eq!(container["stopTimeout"], 120);
        assert_eq!(container["linuxParameters"]["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(container["logConfiguration"]["options"]["awslogs-group"], LOG_GROUP);
    }
    let variables = main["environment"].as_array().unwrap();
    let named = [("CANYON_JOB_IMAGE", USERS_IMAGE), ("CANYON_REFUSE_ROOT", "1"), ("TEAM", "shop")]
        .map(|(name, value)| json!({ "name": name, "value": value }));
    assert_eq!(variables[..], named);
    assert_eq!(main["secrets"][0]["valueFrom"], secrets["DB"]);
    assert_eq!((&inject["environment"], &inject["secrets"]), (&Value::Null, &Value::Null));

    let overrides = &request["overrides"]["containerOverrides"];
    assert_eq!(overrides.as_array().unwrap().len(), 1, "{overrides}");
    assert_eq!(overrides[0]["name"], "canyon-runner");
    assert!(overrides.to_string().contains("CANYON_CLAIM_CODE"), "{overrides}");
    assert!(!definition.to_string().contains("CANYON_CLAIM_CODE"), "{definition}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_image_has_one_definition_which_every_process_finds_again() {
    let account = Account::new(&json!({}));
    for _ in 0..3 {
        let canyon = account.another_canyon();
        let kind = canyon.dispatcher(&account.target(|_| {}));
        for image in ["ghcr.io/acme/a:1", "ghcr.io/acme/b:1"] {
            kind.start(&in_image(image, simple(&new_job()))).await.unwrap();
            kind.start(&in_image(image, simple(&new_job()))).await.unwrap();
        }
        kind.start(&simple(&new_job())).await.unwrap();
    }
    let registered = account.bodies("RegisterTaskDefinition");
    assert_eq!(registered.len(), 3, "two images, and the modules: {registered:#?}");
    let found = account.bodies("DescribeTaskDefinition").len();
    assert_eq!(found, 3 * 3, "each process asks once for each of them");
    assert_eq!(account.bodies("RunTask").len(), 3 * 5);
    // A definition that an administrator has removed is registered again, and no other.
    account.tell("/deregister", &json!({}));
    let job = new_job();
    account.dispatcher().start(&in_image("ghcr.io/acme/a:1", simple(&job))).await.unwrap();
    assert_eq!(account.tasks(&job).len(), 1);
    assert_eq!(account.bodies("RegisterTaskDefinition").len(), 4);
}
