//! What a conditional change came to. A lost race is an answer, not an error.

/// Of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It is there now.
    Yes,
    /// There was one of that name already.
    Exists,
    /// Something that it refers to is not there: its position in the function's documentation.
    Missing(usize),
}

/// Of a change on condition that nothing has changed since it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saved {
    /// Written.
    Yes,
    /// Somebody else was first: read again and decide again.
    Lost,
}

/// Of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deleted {
    /// It is gone.
    Yes,
    /// It is not there, or something refers to it, or it has changed: read to see which.
    No,
}
