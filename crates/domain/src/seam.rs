//! Where time and chance come in. The domain takes their results as arguments; whoever calls it
//! gets them through these, so that a test can hold time still.

use jiff::Timestamp;

/// What time it is.
pub trait Clock: Send + Sync {
    /// Now, to the millisecond: that is what keys and records hold.
    fn now(&self) -> Timestamp;
}

/// Chance.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with unpredictable ones.
    fn fill(&self, bytes: &mut [u8]);

    /// A number that nobody can guess, and that sorts by time (UUID version 7, RFC 9562).
    fn id(&self, now: Timestamp) -> uuid::Uuid {
        let mut random = [0; 10];
        self.fill(&mut random);
        let millis = u64::try_from(now.as_millisecond()).unwrap_or_default();
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }
}
