//! The kind `local`, with `act.sh` as the runner.

use crate::act_scripts::{self, UNTIL_ASKED, WRITES};
use crate::behaviour::{Act, Platform, behaves, launch, new_job, until, until_gone};
use canyon_dispatch::{
    Dispatcher, JobRef, Launch, Started, StopMode,
    local::{LocalDispatcher, LocalSettings},
};
use canyon_domain::{deadline::Observation, failure::FailureClass};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use tempfile::TempDir;

/// A runner with a child that saves its state when asked, as OpenTofu does, and with a provider
/// below it, which must not be asked while its parent needs it. (A shell gives a command that it
/// starts with `&` an empty standard input; so descriptor 3 keeps the job's.) The orphan has
/// neither the lock nor a living parent.
const WITH_CHILD: &str = r#"
    exec 3<&0
    sh -c '
        sh -c "trap \"echo x >> provider-asked\" TERM
            echo x >> provider; while :; do sleep 0.02; done" <&3 &
        provider=$!
        trap "echo x >> asked; sleep 0.3; echo x >> saved; kill -9 $provider; exit 0" TERM
        echo x >> child; while :; do sleep 0.02; done' <&3 &
    sleep 300 3<&- &
    echo $! > orphan; echo x >> started; wait"#;

struct Local {
    folder: TempDir,
    kind: Arc<LocalDispatcher>,
    gone: Arc<Mutex<Vec<JobRef>>>,
}

fn settings(jobs: &Path) -> LocalSettings {
    LocalSettings {
        runner: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/act.sh")),
        jobs: jobs.to_owned(),
        path: "/usr/bin:/bin".into(),
        inherited: [("HTTPS_PROXY".into(), "http://127.0.0.1:9".into())].into(),
    }
}

impl Local {
    fn new() -> Self {
        Self::on(tempfile::tempdir().unwrap())
    }

    /// A dispatcher on a used folder, as after a restart.
    fn on(folder: TempDir) -> Self {
        let gone = Arc::<Mutex<Vec<_>>>::default();
        let hints = gone.clone();
        let on_gone = move |job| hints.lock().unwrap().push(job);
        let kind = Arc::new(LocalDispatcher::new(settings(folder.path()), on_gone));
        Self { folder, kind, gone }
    }

    fn work(&self, job: &JobRef) -> PathBuf {
        self.job_folder(job).join("work")
    }

    fn job_folder(&self, job: &JobRef) -> PathBuf {
        self.folder.path().join(format!("{}-{}", job.deployment, job.attempt))
    }

    async fn start(&self, script: &str) -> JobRef {
        let job = new_job();
        let started = self.kind.start(&script_of(job.clone(), script)).await.unwrap();
        assert!(matches!(started, Started::Now(_)));
        job
    }

    async fn has(&self, job: &JobRef, what: &str) {
        until(what, async || self.noted(job, what) > 0).await;
    }

    fn leader(&self, job: &JobRef) -> i32 {
        number_in(&self.job_folder(job).join("pid"))
    }

    async fn hint(&self, job: &JobRef) {
        until("there is a hint", async || self.gone.lock().unwrap().contains(job)).await;
    }
}

fn script_of(job: JobRef, script: &str) -> Launch {
    launch(job, [("CANYON_ACT".to_owned(), script.to_owned().into())].into())
}

fn number_in(file: &Path) -> i32 {
    fs::read_to_string(file).unwrap().split_whitespace().next().unwrap().parse().unwrap()
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

fn lives(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

impl Platform for Local {
    type Kind = LocalDispatcher;

    fn dispatcher(&self) -> Arc<LocalDispatcher> {
        self.kind.clone()
    }

    fn launch(&self, job: JobRef, act: Act) -> Launch {
        script_of(job, act_scripts::of(act))
    }

    fn noted(&self, job: &JobRef, what: &str) -> usize {
        fs::read_to_string(self.work(job).join(what)).map_or(0, |text| text.lines().count())
    }
}

behaves! { Local::new() }

#[tokio::test]
async fn a_kill_ends_the_whole_tree() {
    let local = Local::new();
    let job = local.start(WITH_CHILD).await;
    local.has(&job, "provider").await;
    local.has(&job, "started").await;
    // The orphan does not hold the lock, and is found by its group.
    let orphan = number_in(&local.work(&job).join("orphan"));
    assert!(lives(orphan));
    local.kind.stop(&job, StopMode::Kill).await.unwrap();
    until_gone(&*local.kind, &job).await;
    until("the orphan is dead", async || !lives(orphan)).await;
    local.hint(&job).await;
}

#[tokio::test]
async fn a_process_that_left_the_group_is_killed_too() {
    let local = Local::new();
    let script =
        "exec 3<&0; setsid sh -c 'trap \"\" TERM; echo $$ > pid; exec sleep 300' <&3 & wait";
    let job = local.start(script).await;
    local.has(&job, "pid").await;
    let outside = number_in(&local.work(&job).join("pid"));
    kill(local.leader(&job));
    until("the leader is dead", async || !lives(local.leader(&job))).await;
    local.kind.forget(&job).await;
    assert_eq!(local.kind.observe(&job).await, Observation::Alive);
    local.kind.stop(&job, StopMode::Kill).await.unwrap();
    until_gone(&*local.kind, &job).await;
    assert!(!lives(outside));
}

#[tokio::test]
async fn the_children_of_a_killed_leader_save_their_state_before_the_job_is_gone() {
    let local = Local::new();
    let job = local.start(WITH_CHILD).await;
    local.has(&job, "child").await;
    local.has(&job, "provider").await;
    kill(local.leader(&job));
    // The job first: its observation must hold for the assertions below.
    until_gone(&*local.kind, &job).await;
    assert_eq!(local.noted(&job, "saved"), 1);
    assert_eq!(local.noted(&job, "asked"), 1);
    assert_eq!(local.noted(&job, "provider-asked"), 0);
    local.hint(&job).await;
    kill(number_in(&local.work(&job).join("orphan")));
}

#[tokio::test]
async fn a_restarted_canyon_adopts_living_jobs_and_notices_dead_ones() {
    let before = Local::new();
    let lives = before.start(UNTIL_ASKED).await;
    let died = before.start(WRITES).await;
    before.has(&lives, "started").await;
    until_gone(&*before.kind, &died).await;

    let after = Local::on(before.folder);
    assert_eq!(after.kind.observe(&lives).await, Observation::Alive);
    assert_eq!(after.kind.adopt().unwrap().len(), 2);
    after.hint(&died).await;
    assert!(!after.gone.lock().unwrap().contains(&lives));
    after.kind.stop(&lives, StopMode::Graceful).await.unwrap();
    after.hint(&lives).await;
    assert!(matches!(after.kind.observe(&lives).await, Observation::Gone(Some(_))));
}

#[tokio::test]
async fn an_interrupted_start_is_found_or_repeated() {
    let local = Local::new();
    let launch = script_of(new_job(), UNTIL_ASKED);
    // Killed after it had created the folder and the lock.
    let folder = local.job_folder(&launch.job);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("lock"), "").unwrap();
    assert_eq!(local.kind.observe(&launch.job).await, Observation::Gone(None));
    assert!(matches!(local.kind.start(&launch).await.unwrap(), Started::Now(_)));
    local.has(&launch.job, "started").await;
    // Killed after the spawn, before it had recorded the process.
    let leader = local.leader(&launch.job);
    fs::remove_file(folder.join("pid")).unwrap();
    assert!(matches!(local.kind.start(&launch).await.unwrap(), Started::Already(_)));
    assert_eq!(local.leader(&launch.job), leader);
    local.kind.stop(&launch.job, StopMode::Graceful).await.unwrap();
    until_gone(&*local.kind, &launch.job).await;
    assert_eq!(local.noted(&launch.job, "started"), 1);
}

#[tokio::test]
async fn a_job_gets_only_the_variables_that_it_needs() {
    let local = Local::new();
    let job = local.start("env > env; ls -l /proc/self/fd > fds; echo x >> started").await;
    until_gone(&*local.kind, &job).await;
    let text = fs::read_to_string(local.work(&job).join("env")).unwrap();
    let mut names: Vec<_> = text.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    names.retain(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(name)); // the shell's own
    names.sort_unstable();
    assert_eq!(names, ["CANYON_ACT", "HOME", "HTTPS_PROXY", "LANG", "PATH", "TMPDIR"]);
    // Standard input, output (of `ls`) and error, and nothing else of the job's folder.
    let open = fs::read_to_string(local.work(&job).join("fds")).unwrap();
    let ours = local.folder.path().to_str().unwrap();
    assert_eq!(open.lines().filter(|line| line.contains(ours)).count(), 3, "{open}");
    let mode = fs::metadata(local.job_folder(&job)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn the_last_message_of_a_dead_runner_is_in_the_failure() {
    let local = Local::new();
    let job =
        local.start("echo first; echo 'the API refused the \u{1b}[31mclaim' >&2; exit 3").await;
    local.hint(&job).await;
    let Observation::Gone(Some(reason)) = local.kind.observe(&job).await else { panic!() };
    assert_eq!(reason.class, FailureClass::Lost);
    assert_eq!(
        reason.message,
        "the runner ended without a result (exit status: 3); its last message: the API refused the [31mclaim"
    );
}

#[tokio::test]
async fn a_missing_program_is_a_configuration_error_and_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        LocalSettings { runner: "/nowhere/canyon-runner".into(), ..settings(folder.path()) };
    let kind = LocalDispatcher::new(settings, |_| {});
    let launch = script_of(new_job(), WRITES);
    let error = kind.start(&launch).await.unwrap_err();
    assert_eq!(error.failure.class, FailureClass::Config);
    assert_eq!(error.on_failure, canyon_dispatch::OnFailure::EndAttempt);
    assert!(error.to_string().contains("`/nowhere/canyon-runner`"), "{error}");
    assert_eq!(kind.observe(&launch.job).await, Observation::Gone(None));
}

#[tokio::test]
async fn a_link_in_place_of_the_log_is_not_followed() {
    let local = Local::new();
    let job = local.start("ln -s /etc/passwd log.txt; echo x >> started").await;
    until_gone(&*local.kind, &job).await;
    assert!(local.kind.tail(&job, canyon_dispatch::TailStream::Log, 0).await.is_err());
}

#[tokio::test]
async fn a_pipe_or_a_link_in_place_of_a_record_blocks_nothing() {
    for replace in ["mkfifo", "ln -s target"] {
        let local = Local::new();
        let job = local.start(&format!("{replace} ../exit")).await;
        local.hint(&job).await;
        let Observation::Gone(Some(reason)) = local.kind.observe(&job).await else { panic!() };
        assert!(reason.message.contains("(exit status: 0)"), "{}", reason.message);
        assert!(!local.job_folder(&job).join("target").exists(), "the link was followed");

        let until_recorded = "until [ -e ../pid ]; do sleep 0.02; done; rm ../pid ../lock";
        for lock in ["mkfifo ../lock", "ln -s target ../lock", "mkdir ../lock"] {
            let job = local.start(&format!("{until_recorded}; {replace} ../pid; {lock}")).await;
            local.hint(&job).await;
            // The same as for a job that was never started, because nothing else is known of it.
            assert_eq!(local.kind.observe(&job).await, Observation::Gone(None), "{lock}");
            local.kind.forget(&job).await;
            assert!(!local.job_folder(&job).exists(), "{lock}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_a_modules_command_left_behind_is_removed_with_the_job() {
    let local = Local::new();
    // Until it is `sleep`, the process is a shell with the lock, and counts as the job.
    let script = "sleep 300 < /dev/null & echo $! > orphan
        until grep -q sleep /proc/$!/comm; do :; done; echo x >> started";
    let job = local.start(script).await;
    local.hint(&job).await;
    until_gone(&*local.kind, &job).await;
    let orphan = number_in(&local.work(&job).join("orphan"));
    assert!(lives(orphan), "it is no part of the job, so it does not keep it alive");
    local.kind.forget(&job).await;
    assert!(!local.job_folder(&job).exists());
    until("the orphan is dead", async || !lives(orphan)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_another_users_process_keeps_no_job_and_harms_no_process() {
    let local = Local::new();
    let mut other = std::process::Command::new("sleep").arg("300").spawn().unwrap();
    let script = format!(
        "until [ -e ../pid ]; do sleep 0.02; done
        start=$(cut -d ' ' -f 22 /proc/{0}/stat) boot=$(cat /proc/sys/kernel/random/boot_id)
        echo {0} $start $boot > ../pid; echo x >> started",
        other.id()
    );
    let job = local.start(&script).await;
    local.hint(&job).await;
    until_gone(&*local.kind, &job).await;
    local.kind.stop(&job, StopMode::Kill).await.unwrap();
    local.kind.forget(&job).await;
    assert!(!local.job_folder(&job).exists());
    assert!(other.try_wait().unwrap().is_none(), "the other process lives");
    other.kill().unwrap();
    other.wait().unwrap();
}
