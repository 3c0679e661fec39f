//! The agent with a connection that breaks: a small server in Canyon's place cuts connections, is busy, has forgotten the
//! session, or cannot be reached for an hour.

#![expect(clippy::unwrap_used, reason = "a test may panic when its own setup fails")]

mod absence;
mod take;
mod world;
