//! Processor time of a request, in a process that has already served requests.

use crate::installation::{ENVIRONMENTS, Installation};
use crate::start::summary;
use crate::{Error, print};
use canyon_cloud::streams::Disturbance;
use serde_json::json;

const REQUESTS: usize = 200;

pub(crate) async fn measure(installation: &Installation) -> Result<(), Error> {
    // The launcher does not get these deployments.
    installation.cloud.stream.disturb(Disturbance { off: true, ..Disturbance::default() });
    let url = format!("{}/orgs/{}/runners/here", installation.cloud.url(), installation.org);
    let client = reqwest::Client::new();
    for _ in 0..REQUESTS + 10 {
        let request = client.get(&url).bearer_auth(installation.token());
        request.send().await?.error_for_status()?;
    }
    report(installation, "GET runner");
    for n in 0..REQUESTS + 10 {
        installation.deploy(n % ENVIRONMENTS).await?;
    }
    report(installation, "POST deployments");
    Ok(())
}

/// Prints the last requests of the function `api`.
fn report(installation: &Installation, what: &str) {
    let reports = installation.cloud.function("api").reports();
    let last = reports.iter().rev().take(REQUESTS).filter(|report| report.init.is_none());
    let (cpu, wall): (Vec<_>, Vec<_>) =
        last.filter_map(|report| Some((report.cpu?, report.duration))).unzip();
    print(&json!({
        "request": what, "requests": cpu.len(), "cpu_ms": summary(cpu), "took_ms": summary(wall),
        "max_memory_kib": reports.last().and_then(|report| report.max_memory_kib),
    }));
}
