//! The harness of `tests/e2e`, with an installation in place of its server.

#[path = "../../clusters/harness/bed.rs"]
#[allow(dead_code, reason = "the tests of clusters use more of it")]
pub(crate) mod bed;
#[path = "../../e2e/harness/cli.rs"]
pub(crate) mod cli;
#[path = "../../e2e/harness/deployments.rs"]
pub(crate) mod deployments;
pub(crate) mod fleet;
pub(crate) mod handbook;
#[path = "../../e2e/harness/hostile.rs"]
pub(crate) mod hostile;
#[path = "../../e2e/harness/ledger.rs"]
pub(crate) mod ledger;
#[path = "../../e2e/harness/module.rs"]
pub(crate) mod module;
#[path = "../../e2e/harness/processes.rs"]
pub(crate) mod processes;
#[path = "../../e2e/harness/programs.rs"]
pub(crate) mod programs;
#[path = "../../e2e/harness/proxy.rs"]
pub(crate) mod proxy;
pub(crate) mod published_events;
pub(crate) mod server;
#[path = "../../e2e/harness/site.rs"]
pub(crate) mod site;
pub(crate) mod stand_in;
