//! The published polling protocol on a real cluster. A loop around `kubectl`, written from docs/api.md alone, applies
//! what Canyon renders (`bed/poll_requests.py`, with another implementation of its tokens).

use crate::cancel::accept_slow;
use crate::harness::bed::bed;
use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::helm::run;
use crate::harness::kinds::Kind;
use crate::harness::module::{THIRTY, inline};
use crate::harness::programs;
use crate::harness::site::{ACCOUNT, ENV, PROJECT, Site};
use serde_json::json;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const RUNNER: &str = "polled";

/// A user's polling loop. Dropping it ends the loop.
struct Loop {
    process: Child,
    folder: TempDir,
}

impl Loop {
    fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            println!("{}", self.said());
        }
    }
}

/// A new key: the file of its private half, and the public one, PEM.
fn key(folder: &Path) -> (String, String) {
    let file = folder.join("key").to_str().unwrap().to_owned();
    run(&["openssl", "genpkey", "-algorithm", "ed25519", "-out", &file], &[]).done();
    let public = run(&["openssl", "pkey", "-in", &file, "-pubout"], &[]).done();
    (file, public)
}

/// A site whose environment deploys with the runner [`RUNNER`], and the loop that serves it.
async fn polled(more: &[&str]) -> (Site, Loop) {
    // The namespace, with the objects that jobs need, is that of a runner that Canyon reaches.
    let site = Site::new(Kind::Oidc).await;
    let folder = tempfile::tempdir().unwrap();
    let (file, public) = key(folder.path());
    let namespace = &site.namespace.0;
    let runner = json!({
        "id": RUNNER,
        "runner_configuration": {
            "type": "kubernetes-agent", "key": public,
            "job": { "namespace": namespace, "service_account": ACCOUNT },
        },
        "state_storage_configuration": { "type": "kubernetes", "namespace": namespace },
    });
    site.make(&["runners"], &runner).await;
    site.make(&["runner-rules"], &json!({ "runner_id": RUNNER, "project_id": PROJECT })).await;
    // The environment was created with the other runner.
    let refresh = ["projects", PROJECT, "envs", ENV, "actions", "refresh_runner"];
    site.client.act(&refresh, &[]).await.unwrap();
    let log = File::create(folder.path().join("log")).unwrap();
    let process = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(programs::given("CANYON_TEST_AWS_PYTHON"))
        .args(["-B", concat!(env!("CARGO_MANIFEST_DIR"), "/clusters/bed/poll_requests.py")])
        .args([site.server.url().as_str(), site.server.org(), RUNNER, &file])
        .args(more)
        .env("KUBECTL", bed().get("KUBECTL"))
        .env("KUBECONFIG", bed().file_beside("kubeconfig"))
        .stdin(Stdio::piped())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    (site, Loop { process, folder })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_loop_around_kubectl_deploys_cancels_and_removes_jobs() {
    let (site, serves) = polled(&[]).await;
    let id = site.accept(&request(ENV, Some(inline(THIRTY)))).await;
    let ended = site.end(&id).await;
    assert_succeeded(&ended);
    assert_eq!((ended.runner_id.as_str(), ended.attempts.len()), (RUNNER, 1));
    assert_eq!(site.client.outputs(&id).await.unwrap()["count"].value, Some(json!(30).into()));
    site.is_cleared(&id).await;

    let id = accept_slow(&site).await;
    site.client.cancel(&id).await.unwrap();
    assert_eq!(site.end(&id).await.status, "cancelled");
    site.no_pod_runs(&id).await;
    site.assert_no_lock();
    site.is_cleared(&id).await;
    assert!(serves.said().contains("cancel-job"), "{}", serves.said());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_creation_was_lost_is_found_missing_and_created_again() {
    let (site, serves) = polled(&["--lose-first"]).await;
    let id = site.accept(&request(ENV, Some(inline(THIRTY)))).await;
    let ended = site.end(&id).await;
    assert_succeeded(&ended);
    assert_eq!(ended.attempts.len(), 2, "{ended:#?}");
    let said = serves.said();
    assert!(said.contains("check-job-status") && said.contains("said 204"), "{said}");
}
