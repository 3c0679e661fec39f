//! Verification of tokens of other issuers.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue fails")
)]

mod caching;
mod corpus;
mod differential;
mod fetching;
mod issuer;
mod subjects;
