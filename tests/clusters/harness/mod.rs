//! The harness of `tests/e2e`, with a cluster for the jobs.

pub(crate) mod account;
pub(crate) mod bed;
pub(crate) mod clouds;
#[path = "../../e2e/harness/deployments.rs"]
pub(crate) mod deployments;
/// Canyon's functions, of which one installation has several organizations.
#[path = "../../serverless/harness/server.rs"]
#[allow(dead_code, reason = "the tests of the functions use more of it")]
pub(crate) mod functions;
pub(crate) mod helm;
pub(crate) mod kinds;
#[path = "../../e2e/harness/module.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
pub(crate) mod module;
pub(crate) mod page;
pub(crate) mod pods;
#[path = "../../e2e/harness/probe.rs"]
pub(crate) mod probe;
#[path = "../../e2e/harness/processes.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
pub(crate) mod processes;
#[path = "../../e2e/harness/programs.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
pub(crate) mod programs;
pub(crate) mod server;
pub(crate) mod site;
pub(crate) mod strict;
