//! The agent over a line that breaks: a small server in Canyon's place cuts connections, is busy, has forgotten the
//! session, or is out of reach for an hour.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as the tests do")]

mod absence;
mod take;
mod world;
