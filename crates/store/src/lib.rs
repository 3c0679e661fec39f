//! Where Canyon keeps its state: one DynamoDB table, and an object store for what is too large for it.
//!
//! There is one back end. On AWS the table is DynamoDB; on a laptop the same SDK client talks to
//! `embedded`, a DynamoDB in this process on one SQLite file. So the code that runs on a laptop
//! is the code that runs on AWS, down to the request bytes. The feature `embedded` brings it; a function
//! is built without.

pub mod agent_jobs;
pub mod agents;
pub mod allowance;
pub mod audit;
pub mod backoff;
mod batch;
pub mod blob_keys;
pub mod blobs;
pub mod concurrency;
pub mod conditional;
mod deployment_ends;
pub mod deployment_item;
pub mod deployment_lists;
pub mod deployments;
#[cfg(feature = "embedded")]
pub mod embedded;
pub mod environments;
pub mod error;
pub mod event_sources;
pub mod inventory;
mod items;
pub mod keys;
pub mod meter;
mod named;
pub mod organizations;
pub mod outcome;
pub mod pace;
pub mod page;
pub mod runner_checks;
pub mod runner_profiles;
pub mod runner_rules;
pub mod runners;
pub mod service_accounts;
pub mod signed_url;
pub mod streams;
pub mod table;
pub mod transact;
pub mod wrapped_key;

pub use error::StoreError;
pub use table::Table;
