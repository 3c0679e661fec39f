//! The output of a container that the engine keeps: for a runner that died before it could report.

use super::DockerDispatcher;
use super::engine;
use super::names::container_name;
use super::refusal;
use crate::{DispatchError, JobRef};
use bollard::query_parameters::LogsOptionsBuilder;
use futures::StreamExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum number of bytes read of one container: slightly more than the engine keeps.
const MAX_LOG: usize = 34 * 1024 * 1024;
/// A log is read in chunks, one call each; within this time it is fetched once.
const CACHE_LIFETIME: Duration = Duration::from_secs(10);
/// The number of lines read for a runner's last message.
const MESSAGE_LINES: &str = "20";

/// The log that was read last.
#[derive(Default)]
pub(super) struct LogCache(Mutex<Option<Read>>);

struct Read {
    name: String,
    at: Instant,
    output: Arc<Vec<u8>>,
}

impl LogCache {
    fn recent(&self, name: &str) -> Option<Arc<Vec<u8>>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read =
            kept.as_ref().filter(|read| read.name == name && read.at.elapsed() < CACHE_LIFETIME)?;
        Some(read.output.clone())
    }

    fn keep(&self, name: String, output: Arc<Vec<u8>>) {
        let read = Read { name, at: Instant::now(), output };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
    }

    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl DockerDispatcher {
    /// The whole output of a container; empty if the engine has no such container.
    pub(super) async fn output(&self, job: &JobRef) -> Result<Arc<Vec<u8>>, DispatchError> {
        let name = container_name(job);
        if let Some(output) = self.kept.recent(&name) {
            return Ok(output);
        }
        let output = Arc::new(self.read(&name, "all").await?);
        self.kept.keep(name, output.clone());
        Ok(output)
    }

    /// The last lines of the output.
    pub(super) async fn last_output(&self, job: &JobRef) -> Result<Vec<u8>, DispatchError> {
        self.read(&container_name(job), MESSAGE_LINES).await
    }

    async fn read(&self, name: &str, lines: &str) -> Result<Vec<u8>, DispatchError> {
        let platform = &self.platform;
        let docker = self.docker().await?;
        let how = LogsOptionsBuilder::default().stdout(true).stderr(true).tail(lines).build();
        let mut pieces = docker.logs(name, Some(how));
        let mut output = Vec::new();
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(piece) => output.extend_from_slice(piece.as_ref()),
                Err(error) if engine::is_missing(&error) => return Ok(Vec::new()),
                Err(error) => {
                    return Err(refusal::of_request(&platform.engine, "read the log", &error));
                }
            }
            if output.len() > MAX_LOG {
                break;
            }
        }
        Ok(output)
    }
}
