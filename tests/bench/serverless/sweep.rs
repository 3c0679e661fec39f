//! A minute of the functions that the clock starts: without work, with deployments that are active but not due, and with schedules
//! that are not due.

use crate::fill::Fill;
use crate::installation::Installation;
use crate::start::summary;
use crate::{Error, print};
use canyon_cloud::streams::Disturbance;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::time::Duration;
use uuid::Uuid;

const MINUTES: usize = 20;
/// What the rule of the clock sends to both functions.
const SCHEDULED: &str =
    r#"{"source": "aws.events", "detail-type": "Scheduled Event", "detail": {}}"#;

pub(crate) async fn measure(installation: &Installation, size: usize) -> Result<(), Error> {
    installation.watch(false).await?;
    read(installation, &["sweep"], "active deployments", 0).await?;
    installation.cloud.stream.disturb(Disturbance { off: true, ..Disturbance::default() });
    // The deployment is accepted, and due at once; its copies are due in an hour.
    installation.deploy(0).await?;
    let fill = Fill::new(installation);
    let pattern = fill.newest().await?;
    let later = (Timestamp::now() + SignedDuration::from_hours(1)).as_millisecond().to_string();
    fill.deployments(&pattern, size, |item, own| not_due_until(item, own, &later)).await?;
    // The sweep ends the due deployment: published functions start no local job.
    installation
        .cloud
        .function("sweep")
        .invoke(SCHEDULED)
        .await
        .map_err(|error| error.to_string())?;
    installation.until_succeeded(0).await?;
    read(installation, &["sweep"], "active deployments", size).await?;
    let schedule = json!({"id": "pattern", "kind": "drift", "cron": "@yearly"});
    installation
        .client()?
        .create(&["projects", "bench", "envs", "e0", "schedules"], &schedule)
        .await?;
    let pattern = fill.item("#schedules", "pattern").await?;
    let name = |own: Uuid| format!("s{}", own.simple());
    fill.copies(&[pattern], "pattern", name, size, |_, _| {}).await?;
    read(installation, &["sweep", "events"], "schedules", size).await
}

/// Moves a due item to another time in the index, in the shard of its own id.
fn not_due_until(item: &mut serde_json::Value, own: Uuid, later: &str) {
    if item.get("gsi2pk").is_some() {
        item["gsi2pk"] = json!({"S": format!("due#{}", own.as_bytes()[15] % 4)});
        item["gsi2sk"] = json!({"S": later});
    }
}

/// What a minute of `functions` costs beside `count` of `what`.
async fn read(
    installation: &Installation,
    functions: &[&str],
    what: &str,
    count: usize,
) -> Result<(), Error> {
    let minute = async || -> Result<(), Error> {
        for name in functions {
            let answer = installation.cloud.function(name).invoke(SCHEDULED).await;
            answer.map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    minute().await?;
    installation.meter.take();
    for _ in 0..MINUTES {
        minute().await?;
    }
    let counts = installation.meter.take();
    let (mut requests, mut units) = (0.0, 0.0);
    let minutes = f64::from(u32::try_from(MINUTES)?);
    for usage in counts.values() {
        requests += usage.requests / minutes;
        units += usage.units / minutes;
    }
    let reports: Vec<_> =
        functions.iter().map(|name| installation.cloud.function(name).reports()).collect();
    // The invocations of one minute together.
    let cpu = (0..MINUTES).filter_map(|back| {
        reports.iter().map(|of| of.iter().rev().nth(back)?.cpu).sum::<Option<Duration>>()
    });
    print(&json!({
        "of": what, "count": count, "functions": functions, "requests": requests, "read_units": units,
        "cpu_ms": summary(cpu.collect()),
    }));
    Ok(())
}
