//! Time in tests.

use std::time::{Duration, Instant};

/// Waits until `is_so` is true.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30), "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Advances the time for all tasks that wait, without real time passing.
pub(crate) async fn passes(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}
