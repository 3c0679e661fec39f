//! Rate limits of platforms, which all launchers share.

use async_trait::async_trait;
use std::error::Error;
use std::time::Duration;

/// A token bucket: a burst of calls, then a steady rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rate {
    /// What is limited, and where: `ecs-run-task/123456789012/eu-west-1`.
    pub name: String,
    /// The number of calls that may be made at once.
    pub burst: u32,
    /// The number of calls that each second adds.
    pub per_second: u32,
}

/// A rate limiter.
#[async_trait]
pub trait RateLimiter: Send + Sync {
    /// Takes the next permit of `rate` and returns how long to wait for it; zero means now. A
    /// permit that is further away than `max_wait` is not taken.
    ///
    /// # Errors
    ///
    /// If the limiter's storage fails.
    async fn acquire(
        &self,
        rate: &Rate,
        max_wait: Duration,
    ) -> Result<Permit, Box<dyn Error + Send + Sync>>;
}

/// A permit, or when to ask for one again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Taken: make the call after this time.
    Granted(Duration),
    /// Not taken: ask again after this time.
    RetryAfter(Duration),
}
