//! The behaviour of the laptop's end-to-end tests, on the functions: real processes under the Lambda runtime
//! API, with the rights that the template gives them, over DynamoDB Local, MinIO and moto. The tests are the same
//! files; only the server that they start is another.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a harness may panic, and says what a failing server said"
)]

#[path = "../e2e/cancel.rs"]
mod cancel;
#[path = "../e2e/duplicates.rs"]
mod duplicates;
#[path = "../e2e/kills.rs"]
mod kills;
#[path = "../e2e/main_job.rs"]
mod main_job;
#[path = "../e2e/order.rs"]
mod order;
#[path = "../e2e/seed.rs"]
mod seed;
#[path = "../e2e/sources.rs"]
mod sources;
#[path = "../e2e/withheld.rs"]
mod withheld;

mod harness;
