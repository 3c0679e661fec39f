//! Tokens of other issuers, judged. What is refused here lets nobody in.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")
)]

mod caching;
mod corpus;
mod differential;
mod fetching;
mod issuer;
mod subjects;
