//! The Docker kind, on a real engine.

use crate::bed::Facts;
use crate::behaviour::{Act, Platform, behaves, new_job, until, until_gone};
use crate::docker_bed::{CODE, Host, name_of};
use canyon_dispatch::docker::{DockerPlatform, DockerSettings};
use canyon_dispatch::{
    CheckReports, Dispatcher, JobRef, Launch, OnFailure, RemovalOutcome, Started, StopMode,
};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::runner_check::{CheckStep, StepResult};
use serde_json::json;
use std::process::Command;
use std::sync::Arc;

impl Platform for Host {
    type Kind = dyn Dispatcher;

    fn dispatcher(&self) -> Arc<dyn Dispatcher> {
        self.plain()
    }

    fn launch(&self, job: JobRef, act: Act) -> Launch {
        self.acting(job, act.word())
    }

    fn noted(&self, job: &JobRef, what: &str) -> usize {
        self.notes.count(&name_of(job), what)
    }
}

behaves! { Host::new().await }

/// Starts `act`, and waits until it is observed.
async fn running(host: &Host, kind: &dyn Dispatcher, act: &str) -> JobRef {
    let launch = host.acting(new_job(), act);
    let Started::Now(handle) = kind.start(&launch).await.unwrap() else { panic!() };
    let job = JobRef { handle, ..launch.job };
    let name = name_of(&job);
    until("it runs", async || host.notes.count(&name, "started") == 1).await;
    job
}

async fn reason(kind: &dyn Dispatcher, job: &JobRef) -> Failure {
    until_gone(kind, job).await;
    match kind.observe(job).await {
        Observation::Gone(Some(failure)) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_of_the_same_name_is_compared_and_never_adopted_by_its_name_alone() {
    let host = Host::new().await;
    let kind = host.plain();
    let launch = host.acting(new_job(), "until-asked");
    assert!(matches!(kind.start(&launch).await.unwrap(), Started::Now(Some(_))));
    // The runner is changed in between: it is still the same launch.
    let changed = host.dispatcher(host.settings(), &json!({ "memory_limit": 64 }));
    assert!(matches!(changed.start(&launch).await.unwrap(), Started::Already(Some(_))));
    let mut other_code = launch.clone();
    other_code.environment.insert("CANYON_CLAIM_CODE".into(), "cyc_another".to_owned().into());
    let error = kind.start(&other_code).await.unwrap_err();
    assert_eq!(
        (error.failure.class, error.on_failure),
        (FailureClass::Config, OnFailure::EndAttempt)
    );
    assert!(error.to_string().contains(&name_of(&launch.job)), "{error}");

    // Another program created the container first, with all of Canyon's labels but another environment.
    let later = host.acting(new_job(), "until-asked");
    kind.start(&later).await.unwrap();
    let labels = host.inspect(&later.job)["Config"]["Labels"].clone();
    let name = name_of(&later.job);
    host.docker(&["rm", "-fv", &name]);
    let mut made = vec!["create".to_owned(), "--name".to_owned(), name];
    for (key, value) in labels.as_object().unwrap() {
        made.extend(["--label".to_owned(), format!("{key}={}", value.as_str().unwrap())]);
    }
    made.extend(["--user".to_owned(), "65532".to_owned(), "canyon.test/act:1".to_owned()]);
    host.docker(&made.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(kind.start(&later).await.unwrap_err().on_failure, OnFailure::EndAttempt);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_was_created_and_never_started_is_started_by_the_repeat() {
    let host = Host::new().await;
    let kind = host.plain();
    let launch = host.acting(new_job(), "until-asked");
    kind.start(&launch).await.unwrap();
    let made = host.inspect(&launch.job);
    let name = name_of(&launch.job);
    // The state after a process died between the two calls.
    host.docker(&["rm", "-fv", &name]);
    let mut again = vec!["create".to_owned(), "--name".to_owned(), name.clone()];
    for (key, value) in made["Config"]["Labels"].as_object().unwrap() {
        again.extend(["--label".to_owned(), format!("{key}={}", value.as_str().unwrap())]);
    }
    for variable in made["Config"]["Env"].as_array().unwrap() {
        again.extend(["--env".to_owned(), variable.as_str().unwrap().to_owned()]);
    }
    again.extend(["--user".to_owned(), "65532".to_owned(), "canyon.test/act:1".to_owned()]);
    host.docker(&again.iter().map(String::as_str).collect::<Vec<_>>());

    assert!(matches!(kind.observe(&launch.job).await, Observation::Waiting(_)));
    let before = host.notes.count(&name, "started");
    assert!(matches!(kind.start(&launch).await.unwrap(), Started::Already(_)));
    until("it runs", async || host.notes.count(&name, "started") == before + 1).await;
    kind.stop(&launch.job, StopMode::Kill).await.unwrap();
    until_gone(&*kind, &launch.job).await;

    // A job that is stopped before its start never runs.
    let never = host.acting(new_job(), "until-asked");
    kind.start(&never).await.unwrap();
    let name = name_of(&never.job);
    host.docker(&["rm", "-fv", &name]);
    host.docker(&["create", "--name", &name, "canyon.test/act:1"]);
    kind.stop(&never.job, StopMode::Graceful).await.unwrap();
    assert_eq!(kind.observe(&never.job).await, Observation::Gone(None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobs_process_has_no_privileges_and_only_the_claim_code_as_a_secret() {
    let host = Host::new().await;
    let folder = tempfile::tempdir().unwrap();
    let mut settings = host.settings();
    settings.memory_limit = Some("96 MB".to_owned());
    settings.extra_hosts = vec!["registry.example:192.0.2.7".to_owned()];
    settings.bind_path = Some(format!("{}:/mirror:ro", folder.path().display()));
    let job = json!({
        "memory_limit": 128,
        "environment": { "TF_LOG": "info" },
        "timeouts": { "stop_seconds": 17 },
    });
    let kind = host.dispatcher(settings, &job);
    let job = running(&host, &*kind, "until-asked").await;

    // According to the kernel.
    let pid = host.process(&job);
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(field("Uid"), "65532 65532 65532 65532");
    for capabilities in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(field(capabilities), "0000000000000000", "{capabilities}");
    }
    assert_eq!((field("NoNewPrivs"), field("Seccomp")), ("1".to_owned(), "2".to_owned()));
    let mounts = std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    let options = |at: &str| {
        let found = mounts.lines().find(|line| line.split(' ').nth(4) == Some(at));
        found.unwrap_or_else(|| panic!("nothing at {at}")).split(' ').nth(5).unwrap().to_owned()
    };
    for (at, mode) in [("/", "ro"), ("/work", "rw"), ("/tmp", "rw"), ("/mirror", "ro")] {
        assert_eq!(options(at).split(',').next(), Some(mode), "{at}");
    }
    let of_host = std::fs::read_link("/proc/self/ns/net").unwrap();
    assert_ne!(std::fs::read_link(format!("/proc/{pid}/ns/net")).unwrap(), of_host);

    let made = host.inspect(&job);
    // The lower of the host's limit and the runner's, and no swap.
    let limit = 96 * 1024 * 1024;
    let limits = &made["HostConfig"];
    assert_eq!((&limits["Memory"], &limits["MemorySwap"]), (&json!(limit), &json!(limit)));
    assert_eq!(limits["PidsLimit"], 4096);
    assert_eq!(limits["RestartPolicy"]["Name"], "no");
    assert_eq!(limits["ExtraHosts"], json!(["registry.example:192.0.2.7"]));
    assert_eq!(made["Config"]["StopTimeout"], 17);
    assert_eq!(made.to_string().matches(CODE).count(), 1);
    let environment = made["Config"]["Env"].as_array().unwrap();
    assert!(environment.contains(&json!("TF_LOG=info")), "{environment:?}");
    assert!(environment.contains(&json!("CANYON_LOG_TO_STDOUT=1")), "{environment:?}");
    // The five of the launch, that of every container, and the runner's one.
    assert_eq!(environment.len(), 7, "{environment:?}");
    kind.stop(&job, StopMode::Kill).await.unwrap();
    until_gone(&*kind, &job).await;
    assert_eq!(kind.forget(&job).await, RemovalOutcome::Removed);
    let volume = made["Mounts"].as_array().unwrap().iter().find(|mount| mount["Type"] == "volume");
    let source = volume.unwrap()["Source"].as_str().unwrap().to_owned();
    assert!(!std::path::Path::new(&source).exists(), "the volume {source} is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_runner_image_can_write_to_its_work_folder() {
    use std::os::unix::fs::MetadataExt as _;
    let host = Host::new().await;
    let mut settings = host.settings();
    settings.image = Some(Facts::of_cluster().get("RUNNER_IMAGE").to_owned());
    let kind = host.dispatcher(settings, &json!({}));
    // The runner does not know these variables, and says so.
    let launch = host.acting(new_job(), "writes");
    kind.start(&launch).await.unwrap();
    let failure = reason(&*kind, &launch.job).await;
    assert!(failure.message.contains("its last message: "), "{failure:?}");
    let made = host.inspect(&launch.job);
    let volume = made["Mounts"].as_array().unwrap().iter().find(|mount| mount["Type"] == "volume");
    let folder = std::fs::metadata(volume.unwrap()["Source"].as_str().unwrap()).unwrap();
    assert!(folder.uid() == 65532 || folder.mode() & 0o003 == 0o003, "{folder:?}");
    assert_eq!(kind.forget(&launch.job).await, RemovalOutcome::Removed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_death_has_its_own_message_which_stays_the_same() {
    let host = Host::new().await;
    let kind = host.plain();
    let job = running(&host, &*kind, "stubborn").await;
    let killed = Command::new("kill").args(["-9", &host.process(&job).to_string()]).status();
    assert!(killed.unwrap().success());
    let failure = reason(&*kind, &job).await;
    assert_eq!(failure.class, FailureClass::Lost);
    assert_eq!(failure.message, "the runner was killed (exit code 137)");
    assert_eq!(reason(&*kind, &job).await, failure);

    let job = running(&host, &*kind, "stubborn").await;
    host.docker(&["rm", "-fv", &name_of(&job)]);
    assert_eq!(kind.observe(&job).await, Observation::Gone(None));
    for how in [StopMode::Graceful, StopMode::Kill] {
        kind.stop(&job, how).await.unwrap();
    }
    assert_eq!(kind.forget(&job).await, RemovalOutcome::Removed);

    let job = running(&host, &*kind, "fails").await;
    let failure = reason(&*kind, &job).await;
    assert_eq!(
        failure.message,
        "the runner ended without a result (exit code 3); its last message: the API refused the claim"
    );

    let small = host.dispatcher(host.settings(), &json!({ "memory_limit": 64 }));
    let job = running(&host, &*small, "memory").await;
    let failure = reason(&*small, &job).await;
    assert_eq!(failure.class, FailureClass::Oom);
    assert!(failure.message.contains("64 MiB") && failure.message.contains("memory_limit"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_job_lives_and_can_be_killed() {
    let host = Host::new().await;
    let kind = host.plain();
    let job = running(&host, &*kind, "stubborn").await;
    host.docker(&["pause", &name_of(&job)]);
    assert_eq!(kind.observe(&job).await, Observation::Alive);
    assert_eq!(kind.forget(&job).await, RemovalOutcome::JobAlive);
    kind.stop(&job, StopMode::Kill).await.unwrap();
    until_gone(&*kind, &job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_does_not_answer_or_is_another_one_proves_no_death() {
    let host = Host::new().await;
    let kind = host.plain();
    let job = running(&host, &*kind, "until-asked").await;
    let mut settings = host.settings();
    settings.host = Some("unix:///nowhere/docker.sock".to_owned());
    let away = host.dispatcher(settings, &json!({}));
    let Observation::Unknown(reason) = away.observe(&job).await else { panic!() };
    assert!(reason.contains("/nowhere/docker.sock") && reason.contains("`host`"), "{reason}");
    let error = away.start(&host.acting(new_job(), "writes")).await.unwrap_err();
    assert!(matches!(error.on_failure, OnFailure::RetryAfter(_)), "{error:?}");
    assert!(away.stop(&job, StopMode::Kill).await.is_err());
    assert_eq!(away.forget(&job).await, RemovalOutcome::JobAlive);

    host.docker(&["rm", "-fv", &name_of(&job)]);
    assert_eq!(kind.observe(&job).await, Observation::Gone(None));
    let elsewhere = JobRef { handle: Some("OF:ANOTHER:ENGINE".to_owned()), ..job };
    let Observation::Unknown(reason) = kind.observe(&elsewhere).await else { panic!() };
    assert!(reason.contains("another Docker engine"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_runner_are_found_and_no_others() {
    let (host, other) = (Host::new().await, Host::new().await);
    let kind = host.plain();
    assert_eq!(kind.jobs().await.unwrap(), []);
    let mut started = vec![];
    for act in ["writes", "until-asked"] {
        let launch = host.acting(new_job(), act);
        kind.start(&launch).await.unwrap();
        started.push(launch.job);
    }
    other.plain().start(&other.acting(new_job(), "writes")).await.unwrap();
    let mut found = kind.jobs().await.unwrap();
    found.sort_by_key(|job| job.deployment);
    assert_eq!(found, started);

    // The owner of the engine finds all jobs, and can end them by their names alone.
    let platform = Arc::new(DockerPlatform::new(host.settings(), &|_| None).unwrap());
    let of_all = platform.all_jobs().await.unwrap();
    assert!(started.iter().all(|job| of_all.contains(&(host.runner, job.clone()))), "{of_all:?}");
    assert!(of_all.iter().any(|(runner, _)| *runner == other.runner), "{of_all:?}");
    let clearer = platform.remover();
    assert!(clearer.start(&host.acting(new_job(), "writes")).await.is_err());
    for job in &started {
        clearer.stop(job, StopMode::Kill).await.unwrap();
        until_gone(&*clearer, job).await;
        assert_eq!(clearer.forget(job).await, RemovalOutcome::Removed);
    }
    assert_eq!(kind.jobs().await.unwrap(), []);
    assert_eq!(
        platform.platform_id().await.unwrap(),
        host.docker(&["info", "--format", "{{.ID}}"])
    );
}

type Change = fn(&mut DockerSettings);

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_the_engine_names_the_setting() {
    let host = Host::new().await;
    let cases: [(&str, Change); 3] = [
        ("`network`", |settings| settings.network = Some("no-such-network".to_owned())),
        ("`bind_path`", |settings| settings.bind_path = Some("/no/such/folder:/a".to_owned())),
        ("`local_image`", |settings| settings.image = Some("canyon.test/absent:1".to_owned())),
    ];
    for (expected, change) in cases {
        let mut settings = host.settings();
        change(&mut settings);
        let kind = host.dispatcher(settings, &json!({}));
        let launch = host.acting(new_job(), "writes");
        let error = kind.start(&launch).await.unwrap_err();
        assert_eq!(error.on_failure, OnFailure::EndAttempt, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.to_string().contains(CODE));
        // Everything that was created is removed.
        assert_eq!(kind.forget(&launch.job).await, RemovalOutcome::Removed);
        assert_eq!(kind.jobs().await.unwrap(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_reports_what_a_launch_would_find_and_leaves_nothing() {
    let host = Host::new().await;
    let checked = async |settings| {
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        host.dispatcher(settings, &json!({})).check(&CheckReports::new(sender)).await;
        let mut reports = vec![];
        while let Some(report) = receiver.recv().await {
            reports.push((report.step, report.result, report.message));
        }
        reports
    };
    let all = [CheckStep::Connect, CheckStep::Image, CheckStep::DryRun, CheckStep::Metadata];
    let reports = checked(host.settings()).await;
    assert_eq!(reports.iter().map(|report| report.0).collect::<Vec<_>>(), all, "{reports:?}");
    assert!(reports.iter().all(|report| report.1 == StepResult::Ok), "{reports:?}");
    assert!(reports[0].2.contains("version"), "{reports:?}");
    assert_eq!(host.plain().jobs().await.unwrap(), []);

    let mut absent = host.settings();
    absent.image = Some("canyon.test/absent:1".to_owned());
    let reports = checked(absent).await;
    assert_eq!(reports.last().unwrap().0, CheckStep::Image);
    assert_eq!(reports.last().unwrap().1, StepResult::Failed, "{reports:?}");
    let mut unbound = host.settings();
    unbound.bind_path = Some("/no/such/folder:/a".to_owned());
    let reports = checked(unbound).await;
    assert!(reports.last().unwrap().2.contains("`bind_path`"), "{reports:?}");
    let mut away = host.settings();
    away.host = Some("unix:///nowhere/docker.sock".to_owned());
    let reports = checked(away).await;
    assert_eq!((reports[0].0, reports[0].1), (CheckStep::Connect, StepResult::Failed));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_tries_from_a_container_whether_jobs_reach_the_credentials_of_the_host() {
    let host = Host::new().await;
    // The runner's definition names the exit code of the image's program.
    let checked = async |end: &str, is_acknowledged: bool| {
        let job = json!({ "environment": { "METADATA_END": end } });
        let mut settings = host.settings();
        settings.acknowledge_host_credentials = is_acknowledged;
        let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
        host.dispatcher(settings, &job).check(&CheckReports::new(sender)).await;
        let mut last = None;
        while let Some(report) = receiver.recv().await {
            last = Some(report);
        }
        let last = last.unwrap();
        assert_eq!(last.step, CheckStep::Metadata, "{}", last.message);
        (last.result, last.message)
    };
    let (result, text) = checked("0", false).await;
    assert!(result == StepResult::Ok && text.starts_with("no metadata service"), "{text}");
    let (result, text) = checked("10", false).await;
    assert_eq!(result, StepResult::Failed, "{text}");
    for part in ["--http-put-response-hop-limit 1", "DOCKER-USER", "ACKNOWLEDGE_HOST_CREDENTIALS"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (result, text) = checked("10", true).await;
    assert!(result == StepResult::Ok && text.contains("acknowledge"), "{text}");
    let (result, text) = checked("64", false).await;
    assert!(result == StepResult::Ok && text.starts_with("not tried"), "{text}");
    assert_eq!(host.docker(&["ps", "-aq", "--filter", "name=canyon-check-"]), "");
}
