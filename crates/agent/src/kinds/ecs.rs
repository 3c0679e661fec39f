//! Platform `ecs`: jobs are tasks of ECS.

use super::values::Values;
use super::{Kind, KindError, aws};
use crate::settings::dispatcher::{ACKNOWLEDGED, DispatcherSettings};
use async_trait::async_trait;
use canyon_dispatch::ecs::{EcsDefaults, EcsPlatform};
use canyon_dispatch::{AmbientAws, Dispatcher, Permit, Platform as _, Rate, RateLimiter, Target};
use canyon_domain::runner::RunnerType;
use canyon_domain::runner::ecs::LaunchType;
use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// The kind `ecs`.
pub(super) fn kind(
    settings: &DispatcherSettings,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn Kind>, KindError> {
    let (ambient, defaults) = read(settings, variable)?;
    let limiter = Arc::new(ProcessRateLimiter::default());
    let platform = Arc::new(EcsPlatform::for_agent(ambient, limiter, defaults));
    Ok(Arc::new(EcsKind { platform, place: OnceCell::new() }))
}

/// The agent's identity at AWS, and its defaults for all tasks.
pub(super) fn read(
    settings: &DispatcherSettings,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<(Arc<AmbientAws>, EcsDefaults), KindError> {
    let mut values = Values::of(settings);
    let launch_type = launch_type(&mut values);
    let region = aws::region(&mut values, variable, "set the region of the cluster");
    let ambient = aws::ambient(&mut values, &region, variable);
    let defaults = EcsDefaults {
        cluster: values.required("cluster", "set the cluster in which jobs run"),
        subnets: values.list("subnets"),
        image: values.text("image").or_else(|| variable("CANYON_RUNNER_IMAGE")),
        launch_type,
        region,
    };
    match ambient {
        Some(ambient) if values.faults.is_empty() => Ok((ambient, defaults)),
        _ => Err(KindError(values.faults.to_string())),
    }
}

/// The launch type of tasks whose runner names none.
fn launch_type(values: &mut Values<'_>) -> Option<LaunchType> {
    let acknowledged = values.boolean(ACKNOWLEDGED);
    let given = values.text("launch_type")?.to_ascii_lowercase();
    let launch_type = given.parse().ok();
    match launch_type {
        Some(LaunchType::Ec2) if acknowledged == Some(false) => {
            values.fault(
                ACKNOWLEDGED,
                "is false, but tasks on EC2 share the credentials of their instance",
            );
        }
        Some(_) => {}
        None => values.fault("launch_type", "is neither fargate nor ec2"),
    }
    launch_type
}

struct EcsKind {
    platform: Arc<EcsPlatform>,
    place: OnceCell<String>,
}

#[async_trait]
impl Kind for EcsKind {
    fn serves(&self) -> RunnerType {
        RunnerType::EcsAgent
    }

    async fn platform_id(&self) -> Result<String, KindError> {
        let place = self.place.get_or_try_init(|| self.platform.platform_id()).await;
        place.cloned().map_err(KindError::of)
    }

    fn dispatcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        self.platform.dispatcher(target)
    }
}

/// The rate limiter of this process: an agent launches in one cluster, and shares its rate with no other process.
#[derive(Default)]
struct ProcessRateLimiter {
    /// When the token bucket is full again.
    full_at: Mutex<Option<Instant>>,
}

#[async_trait]
impl RateLimiter for ProcessRateLimiter {
    async fn acquire(
        &self,
        rate: &Rate,
        max_wait: Duration,
    ) -> Result<Permit, Box<dyn Error + Send + Sync>> {
        let now = Instant::now();
        let interval = Duration::from_secs(1) / rate.per_second.max(1);
        let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let full = full_at.map_or(now, |at| at.max(now));
        let ahead = full.duration_since(now);
        let wait = ahead.saturating_sub(interval * rate.burst.max(1).saturating_sub(1));
        if wait > max_wait {
            return Ok(Permit::RetryAfter(wait));
        }
        *full_at = Some(full + interval);
        Ok(Permit::Granted(wait))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_burst_passes_at_once_and_the_rest_one_by_one() {
        let pace = ProcessRateLimiter::default();
        let rate = Rate { name: "r".to_owned(), burst: 3, per_second: 1 };
        let mut waits = vec![];
        for _ in 0..5 {
            waits.push(pace.acquire(&rate, Duration::from_millis(1_500)).await.unwrap());
        }
        assert!(
            waits[..3].iter().all(|turn| *turn == Permit::Granted(Duration::ZERO)),
            "{waits:?}"
        );
        assert!(matches!(waits[3], Permit::Granted(wait) if wait > Duration::from_millis(500)));
        assert!(matches!(waits[4], Permit::RetryAfter(_)), "{waits:?}");
    }
}
