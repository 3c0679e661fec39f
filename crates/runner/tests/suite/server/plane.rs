//! What the control plane has received, and how it behaves.

use axum::http::StatusCode;
use base64::{Engine, engine::general_purpose::STANDARD};
use canyon_api::attempt::{
    Chunk, DeploymentResultsUpdateBody, FetchedModuleBody, Stream, UnwrittenStateBody,
};
use canyon_domain::failure::Phase;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The data of the control plane, and how it behaves.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fault of its own")]
pub(crate) struct Plane {
    pub(crate) job: Value,
    /// The job as text, for numbers that a `Value` cannot hold.
    pub(crate) job_text: Option<String>,
    pub(crate) claimant: Option<String>,
    pub(crate) claims: usize,
    pub(crate) streams: BTreeMap<&'static str, Vec<u8>>,
    pub(crate) phases: Vec<Phase>,
    /// The last state that a report said to be unwritten.
    pub(crate) unwritten: Option<UnwrittenStateBody>,
    /// The fetched module in the last report of an apply.
    pub(crate) fetched_before_apply: Option<FetchedModuleBody>,
    pub(crate) results: Vec<DeploymentResultsUpdateBody>,
    pub(crate) stop: bool,
    /// The reason in the API's format: class and message.
    pub(crate) stop_reason: Option<Value>,
    /// The attempt is over: every further request is refused.
    pub(crate) over: bool,
    /// Reports that came afterwards.
    pub(crate) late_reports: usize,
    /// So many reports and results are recorded and then answered with 503.
    pub(crate) failures: usize,
    /// The control plane itself refuses results with outputs as invalid.
    pub(crate) takes_no_outputs: bool,
    /// The control plane is of a version that knows no state that was not written, and no fetched module.
    pub(crate) knows_no_unwritten: bool,
    pub(crate) wrong_offsets: usize,
    /// Bytes of streams that came although the control plane had them.
    pub(crate) repeated: usize,
    /// So many reports of an apply do not arrive: the runner gets the answer to an earlier report.
    pub(crate) stale: usize,
    /// A proxy takes no report with more than so many bytes of streams, as text, and answers with this status.
    pub(crate) largest_report: Option<(usize, StatusCode)>,
    /// A proxy takes no request with more than so many bytes, and answers with 403.
    pub(crate) largest_request: Option<u64>,
    /// Seconds that a job's token is good; 600 if 0.
    pub(crate) token_life: u32,
    /// Requests for a token are refused with this status.
    pub(crate) no_tokens: Option<u16>,
    /// The same, only for tokens of the apply.
    pub(crate) no_apply_tokens: Option<u16>,
    /// The issued tokens: audience, phase, token.
    pub(crate) tokens: Vec<(String, String, String)>,
    /// The bytes of the job's archive.
    pub(crate) archive: Vec<u8>,
    /// The object store's address of the archive, to which the control plane redirects.
    pub(crate) archive_url: Option<String>,
    /// The stored pieces of a plan.
    pub(crate) pieces: BTreeMap<String, Vec<u8>>,
    /// What a proxy answers in the control plane's place.
    pub(crate) foreign: Vec<Foreign>,
}

/// A proxy's answer to the next request whose path ends with `step`.
#[derive(Clone, Debug)]
pub(crate) struct Foreign {
    pub(crate) step: &'static str,
    /// Whether the request reaches the control plane before the answer.
    pub(crate) arrived: bool,
    pub(crate) status: u16,
    pub(crate) body: &'static str,
}

impl Plane {
    pub(crate) fn log(&self) -> String {
        self.text_of("log")
    }

    pub(crate) fn events(&self) -> String {
        self.text_of("events")
    }

    pub(crate) fn result(&self) -> &DeploymentResultsUpdateBody {
        assert_eq!(self.results.len(), 1, "{}", self.log());
        &self.results[0]
    }

    fn text_of(&self, stream: &str) -> String {
        String::from_utf8_lossy(self.streams.get(stream).map_or(&[], Vec::as_slice)).into_owned()
    }

    pub(super) fn take(&mut self, chunks: &[Chunk]) {
        for chunk in chunks {
            let bytes = STANDARD.decode(&chunk.data).unwrap();
            assert!(bytes.len() <= 128 * 1024 && !bytes.is_empty());
            let stream = self.streams.entry(chunk.stream.as_str()).or_default();
            let length = stream.len();
            let offset = usize::try_from(chunk.offset).unwrap();
            // Bytes may come again, for example after a lost answer; a gap is an error.
            if offset > length {
                self.wrong_offsets += 1;
                continue;
            }
            self.repeated += bytes.len().min(length - offset);
            stream.extend(bytes.iter().skip(length - offset));
        }
    }

    pub(super) fn offsets(&self) -> Value {
        let length = |stream: Stream| self.streams.get(stream.as_str()).map_or(0, Vec::len);
        json!({"log": length(Stream::Log), "events": length(Stream::Events)})
    }
}
