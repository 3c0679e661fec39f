//! Decisions that are made again when their conditional write loses a race.

/// How often a caller reads, decides and writes before it gives up. Each lost race is the write of another caller, which
/// has made progress; 20 in a row mean that so many callers change the same item at once.
pub const MAX_TRIES: u32 = 20;
