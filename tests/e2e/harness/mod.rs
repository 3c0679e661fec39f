//! The programs that the tests start, and what they check of them.

pub(crate) mod cli;
pub(crate) mod clouds;
pub(crate) mod deployments;
pub(crate) mod hostile;
pub(crate) mod ledger;
pub(crate) mod module;
pub(crate) mod probe;
pub(crate) mod processes;
pub(crate) mod programs;
pub(crate) mod proxy;
pub(crate) mod running;
pub(crate) mod searched;
pub(crate) mod server;
pub(crate) mod site;
