//! What follows after a session.

use crate::exit::Exit;

/// What follows after a session.
pub(crate) enum Next {
    /// The process exits.
    Exit(Exit),
    /// A new session.
    Reopen,
    /// A new session, once the process that superseded this one is gone.
    StandBy(String),
}
