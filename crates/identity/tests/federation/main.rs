//! Canyon's tokens at the clouds. The clouds are strict servers in Python, which know nothing of
//! Canyon but what it publishes: `tests/strict`.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")
)]

mod aws;
mod azure;
mod clusters;
mod gcp;
mod harness;
mod keeping;
mod rotation;
mod servers;
mod tenants;
mod unwell;
