//! Ports for time and randomness. The domain takes their results as arguments; its callers get them through
//! these traits, so that a test controls the time.

use jiff::Timestamp;

/// The clock.
pub trait Clock: Send + Sync {
    /// The current time, to the millisecond: the precision of keys and records.
    fn now(&self) -> Timestamp;
}

/// A source of cryptographically secure random bytes.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with unpredictable bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// An unpredictable id that sorts by time (UUID version 7, RFC 9562).
    fn id(&self, now: Timestamp) -> uuid::Uuid {
        let mut random = [0; 10];
        self.fill(&mut random);
        let millis = u64::try_from(now.as_millisecond()).unwrap_or_default();
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }
}
