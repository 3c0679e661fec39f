//! AWS Lambda, as far as a function can tell: real processes of one program behind the runtime
//! API, one invocation at a time in each.
//!
//! The rules are those of the Lambda developer guide, which the files quote where they follow it:
//! - runtime API: <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>
//! - life of an execution environment:
//!   <https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html>
//! - quotas: <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html>
//!
//! What is not played: extensions, layers, memory limits, response streaming, `SnapStart`, and
//! functions in VPCs.

mod asynchronous;
mod config;
mod desk;
mod environment;
mod fault;
mod function;
mod invocation;
mod pool;
mod report;
mod variables;

pub use asynchronous::{AsyncConfig, Condition, FailedEvent};
pub use config::{Credentials, FunctionConfig};
pub use fault::Kill;
pub use function::Function;
pub use invocation::{Invocation, InvokeError, InvokeResult};
pub use report::Report;
