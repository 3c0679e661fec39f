//! How far a run has come with what changes the world.

/// How far a run has come with its apply, or with the program of its container job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Applying {
    /// Canyon knows of none.
    #[default]
    No,
    /// Canyon may know of it.
    Announced,
    /// The program was started.
    Begun,
}
