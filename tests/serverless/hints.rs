//! ECS's events about stopped tasks. They are hints: the launcher then checks the task itself.

use crate::bus::SOON;
use crate::harness::deployments::{assert_succeeded, failure, request};
use crate::harness::module::inline;
use crate::harness::site::{ENV, Site};
use crate::harness::{ledger, module, processes};
use canyon_cloud::event_bus::BusDisturbance;
use canyon_domain::failure::FailureClass;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use uuid::Uuid;

/// Kills every process of a job.
pub(crate) fn kill(pid: i32) {
    kill_process_group(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Requests a run that takes minutes, and waits until it applies. Returns it and its first process.
pub(crate) async fn applying(site: &Site, round: u32) -> (String, i32) {
    let path = site.server.path("ledger");
    let body = request(ENV, Some(module::ledger(&path, 2, "300", round)));
    let id = site.accept(&body).await;
    let deadline = Instant::now() + SOON;
    while ledger::indexes(&path, "begin", round).is_empty() {
        assert!(Instant::now() < deadline, "no apply\n{}", site.server.log());
        sleep(Duration::from_millis(20)).await;
    }
    let jobs = processes::runners(&site.server.data());
    let (_, pid) = jobs.into_iter().find(|(name, _)| name.starts_with(&id)).unwrap();
    (id, pid)
}

/// Puts an event that a task has this status.
fn tell(site: &Site, started_by: &str, status: &str) {
    let detail = json!({ "startedBy": started_by, "lastStatus": status, "version": 5 });
    let event =
        json!({ "source": "aws.ecs", "detail-type": "ECS Task State Change", "detail": detail });
    site.server.cloud().bus.put("default", event);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_job_is_noticed_at_once() {
    let site = Site::new().await;
    let (id, pid) = applying(&site, 1).await;
    let began = Instant::now();
    kill(pid);
    let ended = site.end(&id).await;
    // Without the hint the job counts as silent a minute after its last report.
    assert!(began.elapsed() < Duration::from_secs(45), "{:?}", began.elapsed());
    assert_eq!(failure(&ended).0, FailureClass::Lost);
    assert_succeeded(&site.deploy(inline("")).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn hints_that_are_wrong_late_or_repeated_change_nothing() {
    let site = Site::new().await;
    let cloud = site.server.cloud();
    let disturbance =
        BusDisturbance { copies: 3, shuffle: Duration::from_millis(500), ..Default::default() };
    cloud.bus.disturb(disturbance);
    let org = site.client.get(&[]).await.unwrap()["uuid"].as_str().unwrap().replace('-', "");
    let path = site.server.path("ledger");
    let body = request(ENV, Some(module::ledger(&path, 3, "2", 1)));
    let id = site.accept(&body).await;
    site.until(&id, "running", |one| one.status == "running").await;
    let ours = Uuid::parse_str(&id).unwrap().simple().to_string();
    let unknown = Uuid::new_v4().simple().to_string();
    for _ in 0..5 {
        tell(&site, &format!("canyon-{org}-{ours}-1"), "STOPPED");
        tell(&site, &format!("canyon-{org}-{ours}-1"), "RUNNING");
        tell(&site, &format!("canyon-{org}-{ours}-2"), "STOPPED");
        tell(&site, &format!("canyon-{org}-{unknown}-1"), "STOPPED");
        tell(&site, &format!("canyon-{unknown}-{ours}-1"), "STOPPED");
        tell(&site, "canyon-of-somebody-else", "STOPPED");
    }
    let ended = site.end(&id).await;
    assert_succeeded(&ended);
    assert_eq!(ended.attempts.len(), 1, "{ended:#?}");
    ledger::assert_once(&path, 1, 3);
    tell(&site, &format!("canyon-{org}-{ours}-1"), "STOPPED");
    cloud.bus.settled(SOON).await.unwrap();
    tokio::time::timeout(SOON, cloud.function("events").settled()).await.unwrap();
    assert_eq!(site.client.deployment(&id).await.unwrap(), ended, "an end never changes");
    let reports = cloud.function("events").reports();
    assert!(reports.iter().all(|one| one.error.is_none()), "{reports:?}");
    // 20 of the 31 events match the rule, three times each.
    assert!(reports.len() >= 60, "{}", reports.len());
}
