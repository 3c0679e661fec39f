//! An execution environment: one process, which serves one invocation at a time.

use super::config::FunctionConfig;
use super::fault::Kill;
use super::invocation::{InvokeError, InvokeResult};
use super::report;
use super::runtime_api::{Answer, Call, Delivery, RuntimeApi};
use super::variables;
use crate::process::Process;
use http::StatusCode;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A living process, and the runtime API for it alone.
pub(super) struct Environment {
    process: Process,
    runtime_api: RuntimeApi,
    started: Instant,
    freeze: bool,
    /// Cancelled, it kills all processes of the function.
    killed: CancellationToken,
}

/// The first of several possible events.
enum Event {
    Call(Call),
    Ended(InvokeError),
    Late,
    Fault,
}

impl Environment {
    /// Starts the process. It has not yet asked for an event.
    pub(super) async fn start(
        config: &FunctionConfig,
        environment: &BTreeMap<String, String>,
        killed: CancellationToken,
    ) -> io::Result<Self> {
        let runtime_api = RuntimeApi::open().await?;
        let log_stream = format!("[$LATEST]{}", Uuid::new_v4().simple());
        let mut command = Process::command(&config.program, &config.log_path())?;
        command.envs(variables::all(config, environment, &runtime_api.address, &log_stream));
        if let Some(task_root) = config.program.parent() {
            command.current_dir(task_root);
        }
        let started = Instant::now();
        let process = Process::start(command).await?;
        Ok(Self { process, runtime_api, started, freeze: config.freeze, killed })
    }

    pub(super) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Whether it may still serve.
    pub(super) fn is_alive(&mut self) -> bool {
        !self.killed.is_cancelled()
            && self.process.ended().is_none()
            && report::lives(self.process.pid())
    }

    /// The Init phase: waits until the process asks for its first event, at most until `limit`.
    /// `None` as an error means a timeout.
    pub(super) async fn init(&mut self, limit: Instant) -> Result<Duration, Option<InvokeError>> {
        match self.event(limit, None).await {
            Event::Call(Call::Next) => Ok(self.started.elapsed()),
            Event::Call(Call::InitError { body, error_type }) => {
                Err(Some(InvokeError::from_report(&body, error_type.as_deref())))
            }
            // An answer without an event: its sender gets "Invalid request ID".
            Event::Call(Call::Response(_) | Call::Error(_)) => Err(Some(InvokeError::Crashed {
                how: "with error: it answered before it was asked".to_owned(),
            })),
            Event::Ended(error) => Err(Some(error)),
            Event::Late | Event::Fault => Err(None),
        }
    }

    /// The Invoke phase: delivers the event, and waits until the process asks for the next one. The
    /// process can serve another invocation only if it [is alive](Self::is_alive) then.
    pub(super) async fn invoke(
        &mut self,
        delivery: Delivery,
        deadline: Instant,
        timeout: Duration,
        kill: Option<Kill>,
    ) -> InvokeResult {
        let request_id = delivery.request_id.clone();
        self.process.signal(Signal::CONT);
        // If the other end is gone, the process will be found dead.
        let _ = self.runtime_api.deliveries.send(delivery);
        let fault = match kill {
            Some(Kill::After(pause)) => Some(Instant::now() + pause),
            Some(Kill::BeforeResponse) | None => None,
        };
        let mut result = None;
        loop {
            let fault = fault.filter(|_| result.is_none());
            match self.event(deadline, fault).await {
                Event::Call(Call::Next) => {
                    // "The Invoke phase ends after the runtime [...] signal that they are done by
                    // sending a Next API request."
                    let Some(result) = result else {
                        return self.end("with error: it skipped the event").await;
                    };
                    if self.freeze {
                        self.process.signal(Signal::STOP);
                    }
                    return result;
                }
                Event::Call(Call::Response(_)) if kill == Some(Kill::BeforeResponse) => {
                    return self.end("with error: signal: killed").await;
                }
                Event::Call(Call::Response(answer))
                    if answer.is_due(&request_id, result.as_ref()) =>
                {
                    result = Some(take_response(answer));
                }
                Event::Call(Call::Error(answer)) if answer.is_due(&request_id, result.as_ref()) => {
                    result = Some(Err(take_error(answer)));
                }
                // Dropped: its sender gets "Invalid request ID".
                Event::Call(_) => {}
                Event::Ended(error) => return result.unwrap_or(Err(error)),
                Event::Late => {
                    self.process.kill().await;
                    return Err(InvokeError::Timeout { after: timeout });
                }
                Event::Fault => return self.end("with error: signal: killed").await,
            }
        }
    }

    async fn end(&mut self, how: &str) -> InvokeResult {
        self.process.kill().await;
        Err(InvokeError::Crashed { how: how.to_owned() })
    }

    async fn event(&mut self, limit: Instant, fault: Option<Instant>) -> Event {
        let fault_at = fault.unwrap_or(limit);
        tokio::select! {
            biased;
            Some(call) = self.runtime_api.calls.recv() => Event::Call(call),
            status = self.process.wait() => Event::Ended(match status {
                Ok(status) => InvokeError::exited(status),
                Err(error) => InvokeError::Crashed { how: format!("with error: {error}") },
            }),
            () = self.killed.cancelled() => {
                self.process.kill().await;
                Event::Ended(InvokeError::Crashed { how: "with error: signal: killed".to_owned() })
            }
            () = sleep_until(fault_at), if fault.is_some() => Event::Fault,
            () = sleep_until(limit) => Event::Late,
        }
    }

    /// Kills the process and waits for its end.
    pub(super) async fn kill(mut self) {
        self.process.kill().await;
    }
}

impl Answer {
    /// Whether this is the first answer to the current request.
    fn is_due(&self, request_id: &str, result: Option<&InvokeResult>) -> bool {
        self.request_id == request_id && result.is_none()
    }
}

fn take_response(answer: Answer) -> InvokeResult {
    let (status, result) = match answer.body {
        Some(body) => (StatusCode::ACCEPTED, Ok(body)),
        None => (StatusCode::PAYLOAD_TOO_LARGE, Err(InvokeError::response_too_large())),
    };
    let _ = answer.taken.send(status);
    result
}

fn take_error(answer: Answer) -> InvokeError {
    let body = answer.body.unwrap_or_default();
    let error = InvokeError::from_report(&body, answer.error_type.as_deref());
    let _ = answer.taken.send(StatusCode::ACCEPTED);
    error
}
