//! The wire types of Canyon's HTTP API, and (feature `client`) a typed client for it.
//!
//! Paths, fields and status codes are those of the published Platform Orchestrator API where it has
//! them; Canyon adds fields and paths and changes none. A body of a request with an unknown field
//! is rejected, so that Canyon never silently ignores a misspelled field. Answers may get further
//! fields, so clients must ignore unknown ones.

pub mod account;
pub mod agent;
pub mod approval;
pub mod archive;
pub mod attempt;
pub mod audit;
pub mod caller;
#[cfg(feature = "client")]
pub mod client;
pub mod concurrency_limit;
pub mod deployed_container;
pub mod deployed_module;
pub mod deployment;
pub mod deployment_query;
mod deployment_request;
pub mod drift;
pub mod env_type;
pub mod environment;
pub mod error;
pub mod event_source;
pub mod fallback;
pub mod git_credential;
pub mod identity_provider;
pub mod job_token;
pub mod judged_lock;
pub mod named_role;
pub mod nonce;
pub mod organization;
pub mod page;
pub mod plan;
pub mod plan_check;
pub mod policy;
pub mod project;
pub mod remote_runner;
pub mod resource;
pub mod resource_definition;
pub mod retention;
pub mod runner;
pub mod runner_check;
pub mod runner_profile;
pub mod runner_rule;
pub mod schedule;
pub mod scoped_role;
pub mod sealed_log;
pub mod sealed_plan;
pub mod secret_store;
pub mod service_account;
pub mod state_command;
pub mod token;
pub mod token_exchange;
pub mod variable_set;
pub mod variable_use;
