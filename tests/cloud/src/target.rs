//! What streams and buses invoke.

use crate::runtime::{Function, InvokeError};
use async_trait::async_trait;

/// Why an invocation has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It ran, and failed.
    #[error("{0}")]
    Failed(String),
    /// It was not started: too many run already, or it is unreachable.
    #[error("{0}")]
    NotStarted(String),
}

/// Something that can be invoked.
#[async_trait]
pub trait Target: Send + Sync {
    /// Its answer, or why it has none.
    async fn invoke(&self, payload: Vec<u8>) -> Result<Vec<u8>, TargetError>;
}

/// A function, invoked as an event source mapping does: the caller waits for its answer.
#[async_trait]
impl Target for Function {
    async fn invoke(&self, payload: Vec<u8>) -> Result<Vec<u8>, TargetError> {
        let answer = Function::invoke(self, payload).await;
        answer.map(|answer| answer.to_vec()).map_err(TargetError::from)
    }
}

/// A function, invoked as `EventBridge` does: Lambda queues the event, and retries it if the function fails.
pub struct Asynchronous(pub Function);

#[async_trait]
impl Target for Asynchronous {
    async fn invoke(&self, payload: Vec<u8>) -> Result<Vec<u8>, TargetError> {
        let request_id = self.0.invoke_async(payload).map_err(TargetError::from)?;
        Ok(request_id.into_bytes())
    }
}

impl From<InvokeError> for TargetError {
    fn from(error: InvokeError) -> Self {
        let text = error.to_string();
        if error.is_function_error() { Self::Failed(text) } else { Self::NotStarted(text) }
    }
}
