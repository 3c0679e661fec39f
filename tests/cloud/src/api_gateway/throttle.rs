//! "API Gateway throttles requests to your API using the token bucket algorithm, where a token
//! counts for a request."
//! <https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-throttling.html>

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The throttle of a route.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Throttle {
    /// Requests per second (`ThrottlingRateLimit`).
    pub rate: f64,
    /// How many requests may come at once (`ThrottlingBurstLimit`).
    pub burst: u32,
}

/// The remaining tokens.
pub(super) struct Bucket {
    throttle: Throttle,
    state: Mutex<(f64, Instant)>,
}

impl Bucket {
    pub(super) fn new(throttle: Throttle) -> Self {
        let state = Mutex::new((throttle.burst.into(), Instant::now()));
        Self { throttle, state }
    }

    /// Whether one more request may pass.
    pub(super) fn take(&self) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (tokens, since) = *state;
        let grown = tokens + now.duration_since(since).as_secs_f64() * self.throttle.rate;
        let tokens = grown.min(self.throttle.burst.into());
        let passes = tokens >= 1.0;
        *state = (if passes { tokens - 1.0 } else { tokens }, now);
        passes
    }
}
