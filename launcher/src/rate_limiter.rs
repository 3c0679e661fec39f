//! The rate limits of platforms, kept in the table for all launchers together.

use async_trait::async_trait;
use canyon_dispatch::{Permit, Rate, RateLimiter};
use canyon_domain::ports::Clock;
use canyon_store::Table;
use canyon_store::rate_limiter::{self, Bucket};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// A rate limiter that counts permits in the table.
#[derive(Clone)]
pub struct TableRateLimiter {
    /// The table that has the counters.
    pub table: Table,
    /// The clock. Clocks of launchers may differ by less than a burst's length.
    pub clock: Arc<dyn Clock>,
}

#[async_trait]
impl RateLimiter for TableRateLimiter {
    async fn acquire(
        &self,
        rate: &Rate,
        max_wait: Duration,
    ) -> Result<Permit, Box<dyn Error + Send + Sync>> {
        let bucket = Bucket { burst: rate.burst, per_second: rate.per_second };
        let now = self.clock.now();
        Ok(match self.table.acquire_permit(&rate.name, bucket, now, max_wait).await? {
            rate_limiter::Permit::Granted(wait) => Permit::Granted(wait),
            rate_limiter::Permit::RetryAfter(pause) => Permit::RetryAfter(pause),
        })
    }
}
