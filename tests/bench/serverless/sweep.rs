//! A minute of the sweep: without work, and with deployments that are active but not due.

use crate::fill::Fill;
use crate::installation::Installation;
use crate::start::summary;
use crate::{Error, print};
use canyon_cloud::streams::Disturbance;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use uuid::Uuid;

const MINUTES: usize = 20;

pub(crate) async fn measure(installation: &Installation, size: usize) -> Result<(), Error> {
    installation.watch(false).await?;
    read(installation, 0).await?;
    installation.cloud.stream.disturb(Disturbance { off: true, ..Disturbance::default() });
    // The deployment is accepted, and due at once; its copies are due in an hour.
    installation.deploy(0).await?;
    let fill = Fill::new(installation);
    let pattern = fill.newest().await?;
    let later = (Timestamp::now() + SignedDuration::from_hours(1)).as_millisecond().to_string();
    fill.copies(&pattern, size, |item, own| not_due_until(item, own, &later)).await?;
    // The sweep ends the due deployment: published functions start no local job.
    sweep(installation).await?;
    installation.until_succeeded(0).await?;
    read(installation, size).await
}

/// Moves a due item to another time in the index, in the shard of its own id.
fn not_due_until(item: &mut serde_json::Value, own: Uuid, later: &str) {
    if item.get("gsi2pk").is_some() {
        item["gsi2pk"] = json!({"S": format!("due#{}", own.as_bytes()[15] % 4)});
        item["gsi2sk"] = json!({"S": later});
    }
}

async fn sweep(installation: &Installation) -> Result<(), Error> {
    let answer = installation.cloud.function("sweep").invoke("{}").await;
    answer.map(drop).map_err(|error| error.to_string().into())
}

async fn read(installation: &Installation, active: usize) -> Result<(), Error> {
    sweep(installation).await?;
    installation.meter.take();
    for _ in 0..MINUTES {
        sweep(installation).await?;
    }
    let counts = installation.meter.take();
    let (mut requests, mut units) = (0.0, 0.0);
    let minutes = f64::from(u32::try_from(MINUTES)?);
    for usage in counts.values() {
        requests += usage.requests / minutes;
        units += usage.units / minutes;
    }
    let reports = installation.cloud.function("sweep").reports();
    let last = reports.iter().rev().take(MINUTES);
    let (cpu, took): (Vec<_>, Vec<_>) =
        last.filter_map(|report| Some((report.cpu?, report.duration))).unzip();
    print(&json!({
        "active": active, "requests": requests, "read_units": units,
        "cpu_ms": summary(cpu), "took_ms": summary(took),
    }));
    Ok(())
}
