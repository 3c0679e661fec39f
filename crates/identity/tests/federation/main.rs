//! Canyon's tokens at the clouds. The clouds are strict servers in Python, which know only what
//! Canyon publishes: `tests/strict`.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue fails")
)]

mod aws;
mod azure;
mod caching;
mod clusters;
mod faults;
mod gcp;
mod harness;
mod rotation;
mod servers;
mod signed_requests;
mod tenants;
