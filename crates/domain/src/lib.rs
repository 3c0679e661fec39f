//! Canyon's domain model without input or output: ids, runners, rules, deployments.
//!
//! Time, ids and settings are arguments; the result is a return value. Nothing here reads a clock, the
//! environment, a file or the network, so a test can call every rule.

pub mod age_recipients;
pub mod agent;
pub mod agent_job;
pub mod attempt;
pub mod audit;
pub mod audit_filter;
pub mod backend;
pub mod blocking_lock;
pub mod causes;
pub mod change;
pub mod claimant;
pub mod commit;
pub mod concurrency;
pub mod container_log;
pub mod deadline;
pub mod deployment;
pub mod deployment_expiry;
pub mod deployment_queue;
pub mod display_name;
mod dns_label;
pub mod environment_end;
pub mod environment_state;
pub mod event_source;
pub mod events;
pub mod expiring_cache;
pub mod failure;
pub mod fallback;
pub mod fetched_module;
pub mod field_error;
pub mod git_credentials;
pub mod grant;
pub mod hold;
pub mod identity_provider;
pub mod ids;
pub mod inputs;
pub mod inventory;
pub mod job;
pub mod json;
pub mod known_principal;
pub mod lifecycle;
pub mod logs_removal;
pub mod manifest;
pub mod merge_patch;
pub mod mode;
pub mod module_source;
pub mod plan_options;
pub mod pod_template;
pub mod polled_job;
pub mod ports;
pub mod principal;
pub mod public_address;
pub mod retention;
pub mod role;
pub mod role_class;
pub mod run_context;
pub mod run_kind;
pub mod runner;
pub mod runner_check;
pub mod runner_profile;
pub mod runner_rules;
pub mod scoped_role;
pub mod secret_name;
pub mod secret_reference;
pub mod secret_store;
pub mod secret_text;
pub mod secret_variables;
pub mod service_account;
pub mod slot;
pub mod state_command;
pub mod state_facts;
pub mod state_home;
pub mod state_lock;
pub mod to_json;
pub mod trust_policy;
pub mod unfinished_run;
pub mod unwritten_state;
pub mod variable_scope;
pub mod variables;
pub mod waiting;

pub use runner::{job_identity, state_storage, trust};

#[cfg(test)]
mod stored_names_tests;
