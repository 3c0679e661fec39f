//! Storage of Canyon's state: one DynamoDB table, and an object store for large data.
//!
//! There is one back end. On AWS the table is DynamoDB; in `canyon local` the same SDK client uses
//! `embedded`, a DynamoDB in this process on one SQLite file. So both run the same code, down to
//! the bytes of a request. The feature `embedded` adds it; the functions are built without it.

pub mod accounts;
pub mod agent_jobs;
pub mod agents;
pub mod api_rate_limit;
pub mod audit;
pub mod backoff;
mod batch;
pub mod blob_keys;
pub mod blobs;
pub mod concurrency;
pub mod conditional;
pub mod contention;
pub mod definitions;
pub mod deployment_ends;
pub mod deployment_item;
pub mod deployment_lists;
pub mod deployment_removal;
pub mod deployment_search;
pub mod deployments;
#[cfg(feature = "embedded")]
pub mod due_writes;
#[cfg(feature = "embedded")]
pub mod embedded;
pub mod environments;
pub mod error;
pub mod event_sources;
pub mod identity_providers;
pub mod inventory;
pub mod issued_tokens;
pub mod item_size;
mod items;
pub mod job_parts;
pub mod keys;
pub mod known_principals;
pub mod meter;
mod named;
pub mod nonces;
pub mod organizations;
pub mod outcome;
pub mod page;
pub mod rate_limiter;
mod recent_reads;
mod released_slots;
pub mod retention;
pub mod runner_checks;
pub mod runner_profiles;
pub mod runner_rules;
pub mod runners;
#[cfg(feature = "s3")]
pub mod s3_signer;
pub mod schedules;
pub mod secret_stores;
pub mod service_accounts;
pub mod signed_url;
pub mod streams;
pub mod table;
pub mod transact;
pub mod url_signer;
pub mod usage;
pub mod variable_sets;
pub mod wrapped_key;
pub mod write_requests;

pub use error::StoreError;
pub use table::Table;
