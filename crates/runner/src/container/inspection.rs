//! Keeps the container for a while after a failure, so that people can look into it: `keep_seconds` of a job.
//!
//! The runner is the container's first process: the container stays as long as the runner does not exit.

use crate::lock_owner_name;
use crate::stop::{Stop, StopRequest};
use std::fs;
use std::time::Duration;

/// The platform puts the namespace of the pod there, unless the pod has no token.
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Tells how to look into the container.
pub(super) fn advice(keep: Duration) -> String {
    let (seconds, name) = (keep.as_secs(), lock_owner_name::host());
    let command = if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        let namespace = fs::read_to_string(NAMESPACE).ok();
        let namespace = namespace.map_or("NAMESPACE".to_owned(), |text| text.trim().to_owned());
        format!("kubectl exec -it {name} --namespace {namespace} -c canyon-runner -- sh")
    } else {
        format!("docker exec -it {name} sh")
    };
    format!("the container stays for {seconds} s: look into it with `{command}`")
}

/// Waits for `keep`, or until the platform is to stop the job.
pub(super) async fn wait(keep: Duration, stop: &Stop) {
    tokio::select! {
        () = tokio::time::sleep(keep) => {}
        () = stop.reached(StopRequest::Stop) => {}
    }
}
