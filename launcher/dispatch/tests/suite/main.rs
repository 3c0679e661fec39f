//! What every kind of compute must do (`behaviour`), and what only processes can (`local`).

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as the tests do")]

mod behaviour;
mod local;
