//! States in real storage: what is stored after a kill, which locks Canyon breaks, and which it does not.

mod manual;
mod outage;
pub(crate) mod storage;

use crate::harness::deployments::{assert_succeeded, counts, failure, request};
use crate::harness::ledger;
use crate::harness::module;
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, RUNNER, Site};
use crate::harness::{processes, programs};
use canyon_api::deployment::{DeploymentCreateBody, RequestedMode};
use canyon_domain::backend::backend_file;
use canyon_domain::failure::FailureClass;
use canyon_domain::runner::RunnerDefinition;
use manual::{Holder, ManualTofu, State};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use std::time::{Duration, Instant};
use storage::Storage;
use tokio::time::sleep;

/// Resources of each deployment.
const COUNT: u32 = 6;
/// How often a job is killed in each storage.
const KILLS: u32 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn s3_keeps_states_and_the_locks_of_the_dead_are_broken() {
    kept_and_freed(Storage::s3().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gcs_keeps_states_and_the_locks_of_the_dead_are_broken() {
    kept_and_freed(Storage::gcs().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn azurerm_keeps_states_and_the_locks_of_the_dead_are_broken() {
    kept_and_freed(Storage::azurerm().await).await;
}

async fn site(storage: &Storage) -> Site {
    let job = json!({ "environment": storage.variables });
    Site::keeping(Server::start().await, &job, &storage.definition).await
}

/// A person's OpenTofu at the state of an environment.
async fn manual_tofu(site: &Site, storage: &Storage, env: &str) -> ManualTofu {
    let environment = site.client.get(&["projects", PROJECT, "envs", env]).await.unwrap();
    let uuid = environment["uuid"].as_str().unwrap().parse().unwrap();
    let definition = RunnerDefinition::parse_stored(json!({
        "runner_configuration": { "type": "local" },
        "state_storage_configuration": storage.definition,
    }));
    let backend = backend_file(&definition.unwrap().state_storage, uuid);
    ManualTofu::with(&backend, storage.variables.clone())
}

async fn kept_and_freed(storage: Storage) {
    let site = site(&storage).await;
    let path = site.server.path("ledger");
    let module = |round| module::ledger(&path, COUNT, "1.5", round);

    assert_eq!(counts(&site.deploy(module(0)).await), (COUNT, 0, 0));
    let manual = manual_tofu(&site, &storage, ENV).await;
    let made = manual.state();
    assert_eq!(made.instances, COUNT as usize);
    assert_eq!(
        counts(&site.deploy(module(0)).await),
        (0, 0, 0),
        "the second sees the first's state"
    );
    assert_eq!(manual.state(), made);
    ledger::assert_once(&path, 0, COUNT);

    let mut serial = made.serial;
    for round in 1..=KILLS {
        let id = site.accept(&request(ENV, Some(module(round)))).await;
        until_begun(&path, round).await;
        let moment = random_moment();
        sleep(moment).await;
        kill_job(&site, &id);
        let ended = site.end(&id).await;
        assert_eq!(failure(&ended).0, FailureClass::Lost, "killed after {moment:?}: {ended:#?}");
        let lock = manual.lock().expect("what was killed has left its lock");

        let next = site.deploy(module(round)).await;
        let log = site.log(&next.id.to_string()).await;
        let proof = format!("the job of attempt 1 of deployment {id} is gone since");
        assert!(log.contains(&format!("breaking the lock {lock} of ")), "{log}");
        assert!(log.contains(&proof), "{log}");
        assert_eq!(records_of_breaks(&site, &lock).await, [proof], "it is recorded, once");
        assert_eq!(manual.lock(), None);
        let State { serial: now, instances } = manual.state();
        assert_eq!(instances, COUNT as usize);
        assert!(now > serial, "killed after {moment:?}: serial {serial}, then {now}");
        serial = now;
    }
    site.environment("quiet").await;
    let quiet = self::manual_tofu(&site, &storage, "quiet").await;
    tokio::join!(
        // No job of Canyon has ever run there. Canyon cannot know that the holder is dead.
        never_broken(&site, &quiet, "quiet", false),
        // A job has run here, on this very host, at about that time, and is dead.
        never_broken(&site, &manual, ENV, true),
    );

    // The state moves to a storage without a state, to a folder, and back. It stays the same state, and no
    // resource is created twice.
    let folder = json!({ "type": "local", "path": site.server.path("moved") });
    assert_eq!(counts(&site.deploy(module(KILLS)).await).0, COUNT, "over what the person has left");
    let mut empty = storage.definition.clone();
    empty["path_prefix"] = json!("moved");
    for definition in [&empty, &folder, &storage.definition] {
        let body = json!({ "state_storage_configuration": definition, "migrate": true });
        site.client.update(&["runners", RUNNER], &body).await.unwrap();
        assert_eq!(counts(&site.deploy(module(KILLS)).await), (0, 0, 0), "in {definition}");
        let there = site.client.get(&["projects", PROJECT, "envs", ENV]).await.unwrap();
        let place = there["state"]["place"].as_str().unwrap();
        assert_eq!(place.contains("moved"), *definition != storage.definition, "{place}");
    }
    assert_eq!(manual.state().instances, COUNT as usize);
}

/// A person's lock stays, and the deployment that it blocks names the person.
async fn never_broken(site: &Site, manual: &ManualTofu, env: &str, lives: bool) {
    let mut holder = Some(manual.hold().await).filter(|_| lives);
    let reason = if lives { "of that host may hold it" } else { "no earlier attempt" };
    let lock = manual.lock().expect("it is held");
    let module = module::inline("resource \"terraform_data\" \"x\" {}");
    let ended = site.run(&request(env, Some(module.clone()))).await;
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::User, "{message}");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim();
    for part in [
        format!("@{host}` since 20"),
        format!("force-unlock {PROJECT} {env} {lock} --force"),
        reason.to_owned(),
    ] {
        assert!(message.contains(&part), "no `{part}` in: {message}");
    }
    assert!(holder.as_mut().is_none_or(Holder::is_alive));
    assert_eq!(manual.lock(), Some(lock.clone()), "it is not broken");
    assert_eq!(records_of_breaks(site, &lock).await, [""; 0]);
    let unlock = ["force-unlock", PROJECT, env, &lock];
    if lives {
        let kept = site.server.canyon(&unlock);
        assert!(kept.code == 1 && kept.stderr.contains(reason), "{kept:?}");
    }
    let id = "9a7bff58-e09d-5260-5a4f-13cb3c817dd5";
    let other = site.server.canyon(&["force-unlock", PROJECT, env, id, "--force", "--yes"]);
    assert!(other.stderr.contains(&format!("it is not the lock {id}")), "{other:?}");
    assert_eq!(manual.lock(), Some(lock.clone()), "it is still not broken");
    site.server.canyon(&[&unlock[..], &["--force", "--yes"]].concat()).done();
    assert_eq!(manual.lock(), None);
    site.server.canyon(&unlock).done();
    assert_succeeded(&site.run(&request(env, Some(module))).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_on_the_state_breaks_the_lock_of_a_dead_job_too() {
    let storage = Storage::s3().await;
    let site = site(&storage).await;
    let path = site.server.path("ledger");
    let id = site.accept(&request(ENV, Some(module::ledger(&path, COUNT, "1.5", 1)))).await;
    until_begun(&path, 1).await;
    kill_job(&site, &id);
    site.end(&id).await;
    let manual = manual_tofu(&site, &storage, ENV).await;
    let lock = manual.lock().expect("what was killed has left its lock");
    let import = json!({ "command": "import", "address": "terraform_data.step[9]", "id": "it" });
    let body = DeploymentCreateBody {
        mode: RequestedMode::State,
        state_command: Some(serde_json::from_value(import).unwrap()),
        module: Some(module::ledger(&path, 10, "0", 1)),
        ..request(ENV, None)
    };
    let ended = site.run(&body).await;
    assert_succeeded(&ended);
    let log = site.log(&ended.id.to_string()).await;
    assert!(log.contains(&format!("breaking the lock {lock} of ")), "{log}");
    assert_eq!((manual.lock(), records_of_breaks(&site, &lock).await.len()), (None, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_of_a_job_that_may_live_is_kept_until_it_is_proved_dead() {
    let storage = Storage::s3().await;
    let folder = tempfile::tempdir().unwrap();
    let hold = folder.path().join("hold");
    std::fs::write(&hold, "").unwrap();
    // The job outlives its runner as long as this file exists.
    let runner = programs::built().join("canyon-runner");
    let script = format!(
        "'{}' \"$@\"\ncode=$?\nwhile [ -e '{}' ]; do sleep 0.05; done\nexit $code\n",
        runner.display(),
        hold.display()
    );
    programs::with_runner(folder.path(), &script);
    let server = Server::start_with(folder.path(), programs::search_path(None)).await;
    let job = json!({ "environment": storage.variables });
    let site = Site::keeping(server, &job, &storage.definition).await;
    let path = site.server.path("ledger");
    let module = |round| module::ledger(&path, COUNT, "1.5", round);

    let id = site.accept(&request(ENV, Some(module(1)))).await;
    until_begun(&path, 1).await;
    kill_tofu(&site, &id);
    let ended = site.end(&id).await;
    let (_, message) = failure(&ended);
    assert!(message.contains("killed by signal 9"), "its runner reported it: {message}");
    let manual = manual_tofu(&site, &storage, ENV).await;
    let lock = manual.lock().expect("what was killed has left its lock");

    let next = site.accept(&request(ENV, Some(module(1)))).await;
    let wait = format!("attempt 1 of deployment {id} has left the state locked");
    site.until(&next, "the wait", |found| found.status_message.contains(&wait)).await;
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        assert_eq!(manual.lock().as_ref(), Some(&lock), "it may live");
    }
    assert_eq!(records_of_breaks(&site, &lock).await, [""; 0]);
    std::fs::remove_file(&hold).unwrap();
    let next = site.end(&next).await;
    assert_succeeded(&next);
    let log = site.log(&next.id.to_string()).await;
    // It may first have waited for another process of this machine.
    assert!(log.contains("waiting for") && log.contains("breaking the lock"), "{log}");
    assert_eq!(records_of_breaks(&site, &lock).await.len(), 1);
}

/// The recorded reason of each break of a lock.
async fn records_of_breaks(site: &Site, lock: &str) -> Vec<String> {
    let records = site.client.list(&["audit-records"], &[]).await.unwrap();
    let ours = |record: &&serde_json::Value| {
        let subject = record["subject"].as_str().unwrap_or_default();
        record["action"] == "state_lock.break" && subject.ends_with(&format!("/state-locks/{lock}"))
    };
    let rights = records.iter().filter(ours).map(|record| {
        let right = record["by_right"].as_str().unwrap();
        right.split(" since").next().unwrap().to_owned() + " since"
    });
    rights.collect()
}

fn random_moment() -> Duration {
    Duration::from_millis(u64::try_from(uuid::Uuid::new_v4().as_u128() % 900).unwrap())
}

/// `kill -9` of every process of a deployment's job.
fn kill_job(site: &Site, id: &str) {
    kill_process_group(Pid::from_raw(leader(site, id)).unwrap(), Signal::KILL).unwrap();
}

/// `kill -9` of OpenTofu alone.
fn kill_tofu(site: &Site, id: &str) {
    let leader = leader(site, id);
    let mut tofu = processes::all().into_iter().filter(|process| process.group == leader);
    let tofu = tofu.find(|process| process.name == "tofu").expect("it applies");
    processes::signal(tofu.pid, Signal::KILL);
}

fn leader(site: &Site, id: &str) -> i32 {
    let runners = processes::runners(&site.server.data());
    runners.into_iter().find(|(name, _)| name.starts_with(id)).expect("it runs").1
}

/// Waits until the ledger has a line, so that an apply is running.
async fn until_begun(path: &std::path::Path, round: u32) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while ledger::indexes(path, "begin", round).is_empty() {
        assert!(Instant::now() < deadline, "round {round} did not begin");
        sleep(Duration::from_millis(5)).await;
    }
}
