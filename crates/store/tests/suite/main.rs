//! One behaviour suite for the embedded table and DynamoDB Local, so that both behave alike.
//!
//! `on_each_table!` takes functions of a new [`canyon_store::Table`] and makes two tests of each,
//! one for each implementation.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as the tests do")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests count to a few hundred"
)]

#[macro_use]
mod peers;

mod accounts;
mod agents;
mod api_rate_limit;
mod audit;
mod blobs;
mod concurrency;
mod conditions;
mod consistent_reads;
mod deployment_cost;
mod deployment_lists;
mod deployment_search;
mod deployment_walk;
mod deployments;
mod drift;
mod due_writes;
mod embedded_file;
mod ends;
mod environments;
mod event_sources;
mod faults;
mod identity_providers;
mod inventory;
mod isolation;
mod item_sizes;
mod items;
mod metering;
mod nonces;
mod organizations;
mod pages;
mod power_loss;
mod publication;
mod queries;
mod rate_limiter;
mod retention;
mod runner_checks;
mod runner_profiles;
mod runner_rules;
mod schedules;
mod service_accounts;
#[cfg(feature = "s3")]
mod signed_urls;
mod streams;
mod successors;
mod table_shape;
mod transactions;
mod variable_sets;
mod world;
mod wrapped_key;
