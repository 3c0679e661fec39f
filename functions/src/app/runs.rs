//! What runners ask for: a claim, a report, an end.
//!
//! Every call reads the deployment and decides on what it says now, so a token dies with its
//! attempt, and a late word of a superseded one changes nothing.

use super::App;
use super::streams::ChunkError;
use crate::http::error::ApiError;
use axum::http::StatusCode;
use canyon_api::attempt::{Chunk, Claimed, Offsets, ReportAnswer, ReportBody, Stream};
use canyon_domain::attempt::{Attempt, SecretHash};
use canyon_domain::backend::backend_file;
use canyon_domain::deployment::Deployment;
use canyon_domain::job::{Bundle, Executable, Job};
use canyon_domain::lifecycle::{self, Claimant, Refused, TOKEN_LIFE};
use canyon_domain::runner::local::Executable as Program;
use canyon_domain::runner::{RunnerConfiguration, RunnerDefinition};
use canyon_identity::bearer::{self, AttemptRef};
use canyon_store::deployment_item::Wake;
use canyon_store::outcome::Saved;
use secrecy::ExposeSecret;

/// Seconds between two reports when there is nothing to ship.
const REPORT_SECONDS: u32 = 15;
/// How often a word is weighed again when the deployment has changed meanwhile.
const MAX_TRIES: u32 = 20;

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::WrongCode => Self::unauthorized(),
            Refused::Superseded | Refused::ClaimedByAnother => Self::conflict(refused.to_string()),
        }
    }
}

/// An attempt that has proved its token, and what its deployment said then.
pub(crate) struct Proved {
    pub(crate) deployment: Deployment,
    /// Whether the attempt is over; a repeated result is answered then, anything else refused.
    pub(crate) over: bool,
}

impl App {
    /// The deployment of an attempt whose token has this hash.
    ///
    /// # Errors
    ///
    /// 401 when the token is not that attempt's, or was silent for too long.
    pub(crate) async fn prove(
        &self,
        of: AttemptRef,
        token: &SecretHash,
    ) -> Result<Proved, ApiError> {
        let deployment = self.table.deployment(of.org, of.deployment).await?;
        let deployment = deployment.ok_or_else(ApiError::unauthorized)?;
        let attempt = deployment.attempts.iter().find(|attempt| attempt.number == of.number);
        let claim = attempt.and_then(|attempt| attempt.claim.as_ref());
        let claim = claim.filter(|claim| claim.token_hash == *token);
        let claim = claim.ok_or_else(ApiError::unauthorized)?;
        let over = attempt.is_none_or(|attempt| attempt.ended.is_some());
        if !over && self.now() >= claim.heartbeat_at.max(self.up_since) + TOKEN_LIFE {
            return Err(ApiError::unauthorized());
        }
        Ok(Proved { deployment, over })
    }

    /// A runner claims an attempt with the code that it was started with.
    ///
    /// # Errors
    ///
    /// 401 when the code is wrong; 409 when another runner has the attempt or it is over.
    pub(crate) async fn claim(
        &self,
        of: AttemptRef,
        code: &SecretHash,
        claimant: Claimant<'_>,
    ) -> Result<Claimed, ApiError> {
        for _ in 0..MAX_TRIES {
            let found = self.table.deployment(of.org, of.deployment).await?;
            let mut deployment = found.ok_or_else(ApiError::unauthorized)?;
            let token = bearer::job_token(of, &*self.entropy);
            let hash = bearer::hash(token.expose_secret());
            let offsets = if of.number == 1 {
                Offsets::default()
            } else {
                self.stream_ends(of.org, of.deployment).await?
            };
            let from = (offsets.log, offsets.events);
            lifecycle::claim(&mut deployment, of.number, code, claimant, hash, from, self.now())?;
            deployment.version += 1;
            if self.table.save_deployment(of.org, &deployment, Wake::Launcher).await? == Saved::Lost
            {
                continue;
            }
            let job = self.job(of, &deployment).await?;
            let token = token.expose_secret().to_owned();
            let read = self.master_keys.get().await?.read_token(of, job.fence);
            let read_token = Some(read.expose_secret().to_owned());
            let report_seconds = REPORT_SECONDS;
            return Ok(Claimed { token, read_token, job, offsets, report_seconds });
        }
        Err(ApiError::contended(of.deployment))
    }

    /// Everything that the runner of an attempt needs to know.
    async fn job(&self, of: AttemptRef, deployment: &Deployment) -> Result<Job, ApiError> {
        let gone = |what: &str| ApiError::conflict(format!("{what} is gone"));
        let bundle = self.table.bundle(of.org, of.deployment).await?;
        let bundle: Bundle = bundle.ok_or_else(|| gone("what was to be deployed"))?;
        let runner = self.table.runner(of.org, &deployment.runner).await?;
        let runner = runner.ok_or_else(|| gone("the runner's definition"))?;
        let definition = serde_json::from_str(&runner.definition)
            .ok()
            .and_then(|value| RunnerDefinition::parse_stored(value).ok());
        let Some(definition) = definition else {
            tracing::error!(runner = %runner.id, "a stored runner definition does not parse");
            return Err(ApiError::internal());
        };
        let attempt = deployment.attempts.last();
        let attempt: &Attempt = attempt.ok_or_else(|| gone("the attempt"))?;
        let (executable, environment) = local_settings(&definition);
        Ok(Job {
            deployment_id: deployment.id,
            attempt: of.number,
            fence: attempt.fence,
            project_id: deployment.project.clone(),
            env_id: deployment.env.clone(),
            env_uuid: deployment.env_uuid,
            mode: deployment.mode,
            plan_only: deployment.plan_only,
            bundle,
            backend: backend_file(&definition.state_storage, deployment.env_uuid),
            executable,
            environment,
            identity: definition.configuration.job_identity().cloned(),
            stop_seconds: attempt.limits.stop,
        })
    }

    /// A runner lives and ships what was written.
    ///
    /// # Errors
    ///
    /// 401 when the token is not the attempt's; 409 when the attempt is over.
    pub(crate) async fn report(
        &self,
        of: AttemptRef,
        token: &SecretHash,
        body: &ReportBody,
    ) -> Result<ReportAnswer, ApiError> {
        for _ in 0..MAX_TRIES {
            let Proved { mut deployment, over, .. } = self.prove(of, token).await?;
            if over {
                return Err(Refused::Superseded.into());
            }
            // Stored before the begin of an apply is acknowledged: what led to it is then known.
            let offsets = self.store_chunks(of, &body.chunks).await?;
            if lifecycle::report(&mut deployment, of.number, body.phase, self.now())? {
                deployment.version += 1;
                let saved = self.table.save_deployment(of.org, &deployment, Wake::Nobody).await?;
                if saved == Saved::Lost {
                    continue;
                }
            }
            let stop = deployment.open_attempt().is_some_and(|attempt| attempt.stop.is_some());
            return Ok(ReportAnswer { stop, offsets });
        }
        Err(ApiError::contended(of.deployment))
    }

    /// Stores pieces of streams; a piece that is there already stays as it is. Returns where each
    /// stream that was written to goes on.
    pub(crate) async fn store_chunks(
        &self,
        of: AttemptRef,
        chunks: &[Chunk],
    ) -> Result<Offsets, ApiError> {
        let mut ends = Offsets::default();
        for (index, chunk) in chunks.iter().enumerate() {
            let fault = |field, reason| ApiError::field(format!("chunks[{index}].{field}"), reason);
            let end = self.store_chunk(of, chunk).await.map_err(|error| match error {
                ChunkError::Data(reason) => fault("data", reason),
                ChunkError::Offset(reason) => fault("offset", reason),
                ChunkError::Store(error) => error.into(),
            })?;
            match chunk.stream {
                Stream::Log => ends.log = ends.log.max(end),
                Stream::Events => ends.events = ends.events.max(end),
            }
        }
        if !chunks.is_empty() {
            self.changes.hint();
        }
        Ok(ends)
    }
}

/// What a local runner's definition says about the program to run and its variables. Other kinds
/// set the environment of the job's container, and have OpenTofu in the image.
fn local_settings(
    definition: &RunnerDefinition,
) -> (Executable, std::collections::BTreeMap<String, String>) {
    match &definition.configuration {
        RunnerConfiguration::Local(local) => {
            let job = local.job.as_ref();
            let executable = match job.and_then(|job| job.executable) {
                None => Executable::Any,
                Some(Program::Tofu) => Executable::Tofu,
                Some(Program::Terraform) => Executable::Terraform,
            };
            (executable, job.and_then(|job| job.environment.clone()).unwrap_or_default())
        }
        _ => (Executable::Any, std::collections::BTreeMap::new()),
    }
}

/// 413 for a body of chunks that is too large is axum's; this is for one chunk.
pub(crate) const MAX_CHUNK: usize = 128 * 1024;

/// The answer when an attempt's token is used for another deployment's path.
pub(crate) fn foreign_path() -> ApiError {
    ApiError::new(StatusCode::NOT_FOUND, "the token is not for what the path names")
}
