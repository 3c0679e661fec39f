//! AWS Lambda, as far as a function can observe it: real processes of one program behind the
//! runtime API, one invocation at a time in each.
//!
//! The rules are those of the Lambda developer guide, which the code quotes where it follows them:
//! - runtime API: <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>
//! - life of an execution environment:
//!   <https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html>
//! - quotas: <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
//!
//! Not implemented: extensions, layers, memory limits, response streaming, `SnapStart`, and
//! functions in VPCs.

mod asynchronous;
mod config;
mod environment;
mod fault;
mod function;
mod invocation;
mod pool;
mod report;
mod runtime_api;
mod variables;

pub use asynchronous::{AsyncConfig, Condition, FailedEvent};
pub use config::{Credentials, FunctionConfig};
pub use fault::Kill;
pub use function::Function;
pub use invocation::{Invocation, InvokeError, InvokeResult};
pub use report::Report;
