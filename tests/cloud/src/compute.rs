//! The compute of a cloud: jobs as processes of this machine. Like ECS, it puts an event on the default
//! bus when a job has stopped, at least once.

use crate::event_bus::EventBus;
use serde_json::json;
use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use uuid::Uuid;

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The organization of the jobs, once there is one.
pub(crate) type Organization = Arc<OnceLock<Uuid>>;

/// Watches the folders of jobs until its task is dropped.
pub(crate) async fn watch(jobs: PathBuf, organization: Organization, bus: EventBus) {
    let (mut living, mut reported) = (HashSet::new(), HashSet::new());
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        let Some(organization) = organization.get() else { continue };
        let Ok(folders) = std::fs::read_dir(&jobs) else { continue };
        for folder in folders.flatten() {
            let Some(name) = folder.file_name().to_str().map(str::to_owned) else { continue };
            match lives(&folder.path()) {
                Some(true) => {
                    living.insert(name);
                }
                Some(false) if living.contains(&name) && reported.insert(name.clone()) => {
                    put_stopped_event(&bus, organization, &name);
                }
                _ => {}
            }
        }
    }
}

/// Whether a job's processes live: they hold its lock. `None` before it has begun.
fn lives(folder: &Path) -> Option<bool> {
    let begun = folder.join("pid").exists();
    let lock = File::open(folder.join("lock")).ok()?;
    let held = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockShared).is_err();
    begun.then_some(held)
}

/// An event as in the Amazon ECS developer guide, "Amazon ECS task state change events".
fn put_stopped_event(bus: &EventBus, organization: &Uuid, name: &str) {
    let Some((deployment, attempt)) = name.rsplit_once('-') else { return };
    let Ok(deployment) = deployment.parse::<Uuid>() else { return };
    let started_by = format!("canyon-{}-{}-{attempt}", organization.simple(), deployment.simple());
    bus.put(
        "default",
        json!({
            "source": "aws.ecs",
            "detail-type": "ECS Task State Change",
            "detail": { "startedBy": started_by, "lastStatus": "STOPPED", "version": 5 },
        }),
    );
}
