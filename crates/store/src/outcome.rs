//! Results of conditional writes. A lost race is an answer, not an error.

/// Result of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// Created.
    Yes,
    /// The name is taken.
    Exists,
    /// Something that it refers to does not exist; the function's documentation lists the numbers.
    Missing(usize),
}

/// Result of a change on condition that the item has not changed since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// Written.
    Yes,
    /// A concurrent write was first: read again and decide again.
    Lost,
}

/// Result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// Deleted.
    Yes,
    /// It does not exist, something refers to it, or it has changed: read it to find out which.
    No,
}
