//! The real binary against a small server with prepared answers. The tests check what users and scripts
//! see: exit code, stdout and stderr together.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod approvals;
mod audit;
mod canned_server;
mod commands;
mod completion;
mod confirming;
mod contexts;
mod deploying;
mod deploying_here;
mod deployments;
mod drift;
mod exit_codes;
mod invocation;
mod manners;
mod missing_targets;
mod named_roles;
mod notices;
mod retention;
mod rollback;
mod schedules;
mod state;
mod status;
mod terminal;
mod variable_uses;
