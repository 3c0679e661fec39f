//! Pauses between retries: exponential backoff with full jitter.

use std::time::Duration;

/// Upper bound of the pause before the first retry; it doubles with each retry.
const BASE: Duration = Duration::from_millis(20);
/// Upper bound of every pause.
const CAP: Duration = Duration::from_millis(640);

/// "Full jitter": any time up to the limit, so that writers that collided once spread out (AWS
/// Architecture Blog, "Exponential Backoff And Jitter"). `random` is a number from the whole range
/// of `u32`; `repetition` is the number of the retry, from 0.
pub fn full_jitter(repetition: u32, random: u32) -> Duration {
    let limit = BASE.saturating_mul(1_u32.checked_shl(repetition).unwrap_or(u32::MAX)).min(CAP);
    limit.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// Sleeps for [`full_jitter`].
pub(crate) async fn pause(repetition: u32) {
    // Without a random number there is no jitter: pause for half the limit.
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
