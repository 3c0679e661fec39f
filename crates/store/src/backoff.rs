//! How long to wait before asking again.

use std::time::Duration;

/// Longest wait before the first repetition; doubled for each further one.
const BASE: Duration = Duration::from_millis(20);
/// Longest wait of all.
const CAP: Duration = Duration::from_millis(640);

/// "Full jitter": any time up to the limit, so that writers that collided once spread out
/// (AWS Architecture Blog, "Exponential Backoff And Jitter"). `random` is a number from the whole
/// range of `u32`; `repetition` counts from 0.
pub fn full_jitter(repetition: u32, random: u32) -> Duration {
    let limit = BASE.saturating_mul(1_u32.checked_shl(repetition).unwrap_or(u32::MAX)).min(CAP);
    limit.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Sleeps for [`full_jitter`].
pub(crate) async fn pause(repetition: u32) {
    // No randomness, no jitter: half the limit is still a pause.
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    tokio::time::sleep(full_jitter(repetition, random)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_limit_and_never_beyond() {
        let longest: Vec<_> =
            [0, 1, 2, 5, 6, 31, 32, 1000].map(|n| full_jitter(n, u32::MAX).as_millis()).into();
        assert_eq!(longest, [20, 40, 80, 640, 640, 640, 640, 640]);
        assert_eq!(full_jitter(5, 0), Duration::ZERO);
    }
}
