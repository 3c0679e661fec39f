//! Jobs and pods as the API server has them.

use super::deployments::LIMIT;
use super::site::Site;
use serde_json::Value;
use std::time::{Duration, Instant};

/// How often a test polls.
const PAUSE: Duration = Duration::from_millis(100);

impl Site {
    /// Waits until the deployment has a pod of which `wanted` holds.
    pub(crate) async fn pod(&self, id: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            let pods = self.pods_of(id);
            if let Some(pod) = pods.iter().find(|pod| wanted(pod)) {
                return pod.clone();
            }
            let late = Instant::now() > deadline;
            assert!(!late, "no pod {what}: {pods:#?}\n{}", self.server.log());
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The pods of a deployment.
    pub(crate) fn pods_of(&self, id: &str) -> Vec<Value> {
        let of = |object: &Value| object["metadata"]["labels"]["canyon.dev/deployment"] == id;
        self.objects("pods").into_iter().filter(of).collect()
    }

    /// Waits until none of a deployment's pods runs.
    pub(crate) async fn no_pod_runs(&self, id: &str) {
        let deadline = Instant::now() + LIMIT;
        while self.pods_of(id).iter().any(runs) {
            assert!(Instant::now() < deadline, "a pod still runs: {:#?}", self.pods_of(id));
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until the deployment's Jobs are deleted, and with them their pods.
    pub(crate) async fn is_cleared(&self, id: &str) {
        let of = |object: &Value| object["metadata"]["labels"]["canyon.dev/deployment"] == id;
        let deadline = Instant::now() + LIMIT;
        loop {
            let mut left = self.objects("jobs,pods");
            left.retain(of);
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "{left:#?}\n{}", self.server.log());
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Asserts that no process holds the lock of a state.
    #[track_caller]
    pub(crate) fn assert_no_lock(&self) {
        for lease in self.objects("leases") {
            let holder = &lease["spec"]["holderIdentity"];
            assert!(holder.is_null() || holder == "", "a lock is left: {lease:#}");
        }
    }
}

/// Whether the pod has a process, or may get one.
pub(crate) fn runs(pod: &Value) -> bool {
    !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
}

/// Whether the pod's runner has begun.
pub(crate) fn has_begun(pod: &Value) -> bool {
    pod["status"]["phase"] == "Running"
}
