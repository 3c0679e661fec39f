//! The commands: one file for each.

pub(crate) mod agents;
pub(crate) mod cancel;
pub(crate) mod completion;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod deploy;
pub(crate) mod destroy;
pub(crate) mod doctor;
pub(crate) mod get;
pub(crate) mod git_credentials;
pub(crate) mod limit;
pub(crate) mod list;
#[cfg(feature = "local")]
pub(crate) mod local;
pub(crate) mod login;
pub(crate) mod logs;
pub(crate) mod outputs;
pub(crate) mod refresh_runner;
pub(crate) mod rollback;
pub(crate) mod status;
pub(crate) mod switch;
pub(crate) mod token;
pub(crate) mod update;
pub(crate) mod variables;
pub(crate) mod version;
pub(crate) mod wait;
