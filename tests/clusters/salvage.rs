//! Log lines of a job from the time when Canyon was down and the container was killed. They exist only in the
//! container's output, from which Canyon adds them to the log.

use crate::ecs::{docker, task};
use crate::harness::bed::bed;
use crate::harness::deployments::{failure, request};
use crate::harness::kinds::Kind;
use crate::harness::module::inline;
use crate::harness::site::{ENV, Site};
use crate::kills::kill_runner;
use canyon_domain::failure::FailureClass;
use std::time::{Duration, Instant};

/// Prints a counter for as long as it lives.
pub(crate) const COUNTS: &str = r#"
resource "terraform_data" "counts" {
  provisioner "local-exec" {
    command = "i=0; while :; do echo counted to $i.; i=$((i + 1)); sleep 0.2; done"
  }
}
"#;
/// How long more output may take to come.
const LIMIT: Duration = Duration::from_mins(1);

/// The last number that it has printed.
fn counted(text: &str) -> Option<u32> {
    let count = |line: &str| line.split_once("counted to ")?.1.strip_suffix('.')?.parse().ok();
    text.lines().rev().find_map(count)
}

/// Starts it, kills Canyon, and lets it count on. Returns the last number, read from the container's `output`.
pub(crate) async fn counts_unheard(site: &mut Site, id: &str, output: impl Fn() -> String) -> u32 {
    let deadline = Instant::now() + LIMIT;
    while counted(&site.log(id).await).is_none() {
        assert!(Instant::now() < deadline, "it does not count\n{}", site.log(id).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut first = None;
    site.server.kill();
    loop {
        let now = counted(&output());
        first = first.or(now);
        if let (Some(first), Some(now)) = (first, now)
            && now > first + 3
        {
            return now;
        }
        assert!(Instant::now() < deadline, "its output has no more: {}", output());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The log contains the numbers up to `count`, and the end says what happened.
pub(crate) async fn is_in_the_log(site: &Site, id: &str, count: u32) {
    let ended = site.end(id).await;
    let (class, message) = failure(&ended);
    assert_eq!((ended.status.as_str(), class), ("failed", FailureClass::Lost), "{message}");
    let log = site.log(id).await;
    assert!(log.contains(&format!("counted to {count}.\n")), "up to {count}: {log}");
    for line in log.lines() {
        assert!(!line.starts_with("~canyon"), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pods_output_while_canyon_was_down_is_in_the_log_after_its_runner_was_killed() {
    let mut site = Site::new(Kind::Oidc).await;
    let id = site.accept(&request(ENV, Some(inline(COUNTS)))).await;
    let pod = site.pod(&id, "at all", |_| true).await;
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    let namespace = site.namespace.0.clone();
    // The API server may still report a container as being created that already counts: its kubelet reports the pod's
    // state later than the runner writes its log.
    let output = || bed().try_kubectl(&["-n", &namespace, "logs", &name], "").unwrap_or_default();
    let count = counts_unheard(&mut site, &id, output).await;
    kill_runner(&site, &id).await;
    site.server.restart().await;
    is_in_the_log(&site, &id, count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tasks_output_while_canyon_was_down_is_in_the_log_after_its_container_was_killed() {
    let mut site = Site::new(Kind::Ecs).await;
    let id = site.accept(&request(ENV, Some(inline(COUNTS)))).await;
    site.until(&id, "a claim", |deployment| {
        deployment.attempts.first().is_some_and(|attempt| attempt.phase == "apply")
    })
    .await;
    let (_, name) = task(&site, &id).await;
    let count = counts_unheard(&mut site, &id, || docker(&["logs", &name])).await;
    docker(&["kill", "--signal", "KILL", &name]);
    site.server.restart().await;
    is_in_the_log(&site, &id, count).await;
}
