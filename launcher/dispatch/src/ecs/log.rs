//! The output of a task's container, from CloudWatch Logs: for a runner that died before it could
//! report.

use super::definition::LOG_PREFIX;
use super::refusal::Refusals;
use super::session::Clients;
use super::{CONTAINER, EcsDispatcher};
use crate::{DispatchError, JobRef, TAIL_LIMIT, TailStream};
use aws_sdk_cloudwatchlogs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_cloudwatchlogs::operation::get_log_events::GetLogEventsError;
use canyon_domain::container_log::{Stream, Tail};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The maximum size of a container's log that is read, in bytes.
const MAX_LOG: usize = 32 * 1024 * 1024;
/// A log is read in chunks, one call each; within this time it is fetched once.
const CACHE_LIFETIME: Duration = Duration::from_secs(30);

/// The log that was read last.
#[derive(Default)]
pub(super) struct LogReader(Mutex<Option<Read>>);

struct Read {
    task: String,
    at: Instant,
    output: Arc<Vec<u8>>,
}

impl LogReader {
    fn recent(&self, task: &str) -> Option<Arc<Vec<u8>>> {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read =
            last.as_ref().filter(|read| read.task == task && read.at.elapsed() < CACHE_LIFETIME)?;
        Some(read.output.clone())
    }

    fn keep(&self, task: &str, output: Arc<Vec<u8>>) {
        let read = Read { task: task.to_owned(), at: Instant::now(), output };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(read);
    }
}

impl EcsDispatcher {
    pub(super) async fn read_log(
        &self,
        job: &JobRef,
        stream: TailStream,
        offset: u64,
    ) -> Result<Vec<u8>, DispatchError> {
        let Some(group) = &self.config.job.log_group else { return Ok(Vec::new()) };
        let clients =
            self.session.clients().await.map_err(|error| Refusals::no_credentials(&error))?;
        let Some(arn) = self.arn(&clients, job).await? else { return Ok(Vec::new()) };
        let output = if let Some(output) = self.logs.recent(&arn) {
            output
        } else {
            let output = Arc::new(self.fetch_log(&clients, group, CONTAINER, &arn).await?);
            self.logs.keep(&arn, output.clone());
            output
        };
        let stream = match stream {
            TailStream::Log => Stream::Log,
            TailStream::Events => Stream::Events,
        };
        let mut rest = Tail::read(&output, stream, offset);
        rest.truncate(usize::try_from(TAIL_LIMIT).unwrap_or(usize::MAX));
        Ok(rest)
    }

    /// The log of one of the task's containers; empty if the container wrote nothing.
    pub(super) async fn fetch_log(
        &self,
        clients: &Clients,
        group: &str,
        container: &str,
        arn: &str,
    ) -> Result<Vec<u8>, DispatchError> {
        let task = arn.rsplit('/').next().unwrap_or(arn);
        let name = format!("{LOG_PREFIX}/{container}/{task}");
        let mut text = Vec::new();
        let mut token: Option<String> = None;
        loop {
            let call = clients.logs.get_log_events().log_group_name(group).log_stream_name(&name);
            let call = call.start_from_head(true).set_next_token(token.clone());
            let page = match call.send().await {
                Ok(page) => page,
                Err(error) if is_missing(&error) => break,
                Err(error) => return Err(self.refusals().of_request("logs:GetLogEvents", &error)),
            };
            for event in page.events() {
                text.extend_from_slice(event.message().unwrap_or_default().as_bytes());
                text.push(b'\n');
            }
            // At the end CloudWatch returns the same token as in the request.
            if page.next_forward_token.is_none()
                || page.next_forward_token == token
                || text.len() > MAX_LOG
            {
                break;
            }
            token = page.next_forward_token;
        }
        Ok(text)
    }
}

/// Whether the container has no log stream, because it wrote nothing.
fn is_missing(error: &SdkError<GetLogEventsError>) -> bool {
    error.code() == Some("ResourceNotFoundException")
}
