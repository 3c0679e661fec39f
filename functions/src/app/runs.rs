//! Requests of runners: claims, reports, results.
//!
//! Each request reads the deployment and is decided on its current state. So a token ends with its attempt, and a late
//! request of a superseded attempt changes nothing.

use super::App;
use super::named_roles;
use super::results::unwritten_facts;
use super::runners::{stored_definition, unusable};
use super::streams::ChunkError;
use crate::app::error::AppError;
use canyon_api::attempt::{
    Chunk, Claimed, Offsets, REPORT_FORMAT, ReportAnswer, ReportBody, Stream,
};
use canyon_domain::attempt::{ApplyNote, Attempt, Outcome, SecretHash};
use canyon_domain::backend::backend_file;
use canyon_domain::claimant::Claimant;
use canyon_domain::deployment::Deployment;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::ids::OrgUuid;
use canyon_domain::inventory::Environment;
use canyon_domain::job::{Bundle, Executable, Job, StateTask};
use canyon_domain::lifecycle::{self, Refused, TOKEN_LIFETIME};
use canyon_domain::module_record::ModuleRecord;
use canyon_domain::runner::local::Executable as Program;
use canyon_domain::runner::{RunnerConfiguration, RunnerDefinition};
use canyon_domain::secret_variables::SecretVariables;
use canyon_identity::bearer::{self, AttemptRef};
use canyon_store::contention::MAX_TRIES;
use canyon_store::deployment_item::Wake;
use canyon_store::outcome::Saved;
use secrecy::ExposeSecret;
use serde_json::Value;

/// Seconds between two reports when there is nothing to ship.
const REPORT_SECONDS: u32 = 15;

/// An attempt that has proved its token, with its deployment at that time.
pub(crate) struct Proved {
    pub(crate) deployment: Deployment,
    /// Whether the attempt is over. Then only a repeated result is answered, and all else is refused.
    pub(crate) over: bool,
}

/// The failure of a job that uses a feature which an older runner would ignore.
fn too_old(job: &Job, has: u32) -> String {
    format!(
        "the canyon-runner in the job's image is older than this Canyon, and does not know all that this job needs: format {} of jobs, \
         and it knows {has}. Use the image of this version: `job.image` of the runner",
        job.required_format()
    )
}

impl App {
    /// The deployment of an attempt whose token has this hash.
    ///
    /// # Errors
    ///
    /// 401 when the token is not that attempt's, or the runner has not reported for too long.
    pub(crate) async fn prove(
        &self,
        of: AttemptRef,
        token: &SecretHash,
    ) -> Result<Proved, AppError> {
        let deployment = self.table.deployment(of.org, of.deployment).await?;
        let deployment = deployment.ok_or_else(AppError::unauthorized)?;
        let attempt = deployment.attempts.iter().find(|attempt| attempt.number == of.number);
        let claim = attempt.and_then(|attempt| attempt.claim.as_ref());
        let claim = claim.filter(|claim| claim.token_hash == *token);
        let claim = claim.ok_or_else(AppError::unauthorized)?;
        let over = attempt.is_none_or(|attempt| attempt.ended.is_some());
        if !over && self.now() >= claim.heartbeat_at.max(self.up_since) + TOKEN_LIFETIME {
            return Err(AppError::unauthorized());
        }
        Ok(Proved { deployment, over })
    }

    /// A runner claims an attempt with its claim code.
    ///
    /// # Errors
    ///
    /// 401 when the code is wrong; 409 when another runner has the attempt or it is over.
    pub(crate) async fn claim(
        &self,
        of: AttemptRef,
        code: &SecretHash,
        claimant: Claimant<'_>,
    ) -> Result<Claimed, AppError> {
        let keys = self.master_keys.get().await?;
        for _ in 0..MAX_TRIES {
            let found = self.table.deployment(of.org, of.deployment).await?;
            let mut deployment = found.ok_or_else(AppError::unauthorized)?;
            let attempt = deployment.attempts.iter().find(|attempt| attempt.number == of.number);
            let attempt = attempt.ok_or_else(AppError::unauthorized)?;
            // The same claimant gets the same token: a claim that the network repeats invalidates nothing.
            let token = keys.job_token(of, attempt.fence, claimant.drawn);
            let hash = bearer::hash(token.expose_secret());
            let from = match &attempt.claim {
                Some(claim) => claim.streams_from,
                None if of.number == 1 => (0, 0),
                None => {
                    let ends = self.stream_ends(of.org, of.deployment).await?;
                    (ends.log, ends.events)
                }
            };
            let is_new = lifecycle::claim(
                &mut deployment,
                of.number,
                code,
                claimant,
                hash,
                from,
                self.now(),
            )?;
            if is_new {
                let ran_at = self.place_of_job(of, &deployment).await?;
                if let Some(attempt) = deployment.attempts.last_mut() {
                    attempt.ran_at = ran_at;
                }
                deployment.version += 1;
                let saved = self.table.save_deployment(of.org, &deployment, Wake::Launcher).await?;
                if saved == Saved::Lost {
                    continue;
                }
            }
            let job = match self.job(of, &deployment).await? {
                Ok(job) => job,
                // The network may repeat a claim of a job that runs with the earlier definition.
                Err(reason) if !is_new => return Err(AppError::conflict(reason)),
                Err(reason) => return Err(self.end_unrunnable(of, deployment, &reason).await?),
            };
            if claimant.job_format < job.required_format() {
                let reason = too_old(&job, claimant.job_format);
                if !is_new {
                    return Err(AppError::conflict(reason));
                }
                return Err(self.end_unrunnable(of, deployment, &reason).await?);
            }
            let token = token.expose_secret().to_owned();
            let read_token = Some(keys.read_token(of, job.fence).expose_secret().to_owned());
            let offsets = Offsets { log: from.0, events: from.1 };
            let report_seconds = REPORT_SECONDS;
            let report_format = REPORT_FORMAT;
            return Ok(Claimed { token, read_token, job, offsets, report_seconds, report_format });
        }
        Err(AppError::contended(of.deployment))
    }

    /// Where the job of an attempt runs: the place of the agent that has taken it, or the location in the runner's
    /// definition. A state may be stored there although the runner now keeps states elsewhere.
    async fn place_of_job(
        &self,
        of: AttemptRef,
        deployment: &Deployment,
    ) -> Result<Option<String>, AppError> {
        let runner = self.table.runner(of.org, &deployment.runner).await?;
        let Some(runner) = runner else { return Ok(None) };
        let job = self.table.agent_job(of.org, runner.uuid, of.deployment, of.number).await?;
        if let Some(taken) = job.and_then(|job| job.holder) {
            return Ok(Some(taken.platform_id));
        }
        Ok(Some(stored_definition(&runner)?.platform_identity().to_string()))
    }

    /// Ends an attempt whose job cannot run as requested.
    async fn end_unrunnable(
        &self,
        of: AttemptRef,
        deployment: Deployment,
        reason: &str,
    ) -> Result<AppError, AppError> {
        let outcome = Outcome::Failed(Failure::new(FailureClass::Config, reason));
        match self.end_attempt(of, deployment, outcome).await? {
            Saved::Yes => Ok(AppError::conflict(reason)),
            Saved::Lost => Ok(AppError::contended(of.deployment)),
        }
    }

    /// The environment and its unfinished run. A late reading writes both in one transaction: so the environment is read
    /// again after that run, and knows at least what the run says was read.
    async fn with_unfinished(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        environment: Environment,
    ) -> Result<(Environment, Option<Deployment>), AppError> {
        let unfinished_in = |environment: &Environment| {
            environment.module_of(deployment).and_then(ModuleRecord::unfinished)
        };
        let Some(id) = unfinished_in(&environment) else { return Ok((environment, None)) };
        let unfinished = self.table.deployment(org, id).await?;
        let (project, env) = (&environment.project_id, &environment.id);
        let again = self.table.environment(org, project, env).await?;
        let again = again.filter(|again| again.uuid == environment.uuid);
        match again {
            Some(again) if unfinished_in(&again) == Some(id) => Ok((again, unfinished)),
            Some(_) | None => Err(AppError::contended(&environment.id)),
        }
    }

    /// The job description for the runner of an attempt. The inner error says why the runner's definition, which was
    /// changed since the launch, cannot be used.
    async fn job(
        &self,
        of: AttemptRef,
        deployment: &Deployment,
    ) -> Result<Result<Job, String>, AppError> {
        let gone = |what: &str| AppError::conflict(format!("{what} is gone"));
        // Each is a large future of the SDK. Boxed, they do not enlarge this future.
        let (bundle, runner, environment) = tokio::try_join!(
            Box::pin(self.table.bundle(of.org, of.deployment)),
            Box::pin(self.table.runner(of.org, &deployment.runner)),
            Box::pin(self.table.environment(of.org, &deployment.project, &deployment.env)),
        )?;
        let mut bundle: Bundle = bundle.ok_or_else(|| gone("the module of the deployment"))?;
        let runner = runner.ok_or_else(|| gone("the runner's definition"))?;
        let environment = environment.filter(|found| found.uuid == deployment.env_uuid);
        let environment = environment.ok_or_else(|| gone("the environment"))?;
        let definition = serde_json::from_str(&runner.definition)
            .ok()
            .and_then(|value| RunnerDefinition::parse_stored(value).ok());
        let Some(definition) = definition else {
            tracing::error!(runner = %runner.id, "a stored runner definition does not parse");
            return Err(AppError::internal());
        };
        let definition = match definition.usable() {
            Ok(definition) => definition,
            Err(faults) => return Ok(Err(unusable(&runner.id, &faults))),
        };
        let at = deployment.open_attempt().and_then(|open| open.claim.as_ref());
        let at = at.map_or_else(|| self.now(), |claim| claim.at);
        let env_type = &environment.env_type_id;
        let identity =
            match named_roles::identity_of(&runner, &definition, deployment, env_type, at) {
                Ok(identity) => identity,
                Err(reason) => return Ok(Err(reason)),
            };
        let attempt = deployment.attempts.last();
        let attempt: &Attempt = attempt.ok_or_else(|| gone("the attempt"))?;
        let (executable, variables) = local_settings(&definition);
        let (environment, unfinished) =
            self.with_unfinished(of.org, deployment, environment).await?;
        let storage = &definition.state_storage;
        let (backend, state) = if deployment.kind().facts().has_state {
            let (storage, state) =
                environment.state_for_job(deployment, storage, unfinished.as_ref());
            (backend_file(storage, deployment.state_id()), state)
        } else {
            (Value::Null, StateTask::default())
        };
        let mut kept =
            match Box::pin(self.kept_for_job(of.org, environment.on(&deployment.runner))).await? {
                Ok(kept) => kept,
                Err(reason) => return Ok(Err(reason)),
            };
        self.fill_in(of.org, deployment, &environment, &mut bundle, &mut kept.variables).await?;
        self.open_inputs(of.org, &environment, &mut bundle, &mut kept).await?;
        let referred = self.refer_to_stores(of.org, &environment, &bundle, &mut kept).await?;
        if let Err(reason) = referred {
            return Ok(Err(reason));
        }
        let plan = Box::pin(self.plan_task(of.org, deployment)).await?;
        let policy = Box::pin(self.job_policy(of.org, deployment, &environment)).await?;
        let former_inputs = self.former_inputs(of.org, &environment, deployment.id).await?;
        kept.former_secrets.extend(former_inputs);
        Ok(Ok(Job {
            deployment_id: deployment.id,
            attempt: of.number,
            fence: attempt.fence,
            project_id: deployment.project.clone(),
            env_id: deployment.env.clone(),
            env_uuid: deployment.env_uuid,
            env_type_id: Some(environment.env_type_id.clone()),
            mode: deployment.mode,
            plan_only: deployment.plan_only,
            bundle,
            backend,
            state,
            max_deletions: environment.allowed_deletions(deployment.max_deletions),
            executable,
            environment: variables,
            secret_variables: SecretVariables::of(&definition),
            variables: kept.variables,
            stored_variables: kept.stored_variables,
            former_secrets: kept.former_secrets,
            git_credentials: kept.git_credentials,
            plan,
            policy,
            identity,
            stop_seconds: attempt.limits.stop,
        }))
    }

    /// Records a heartbeat and the runner's stream pieces.
    ///
    /// # Errors
    ///
    /// 401 when the token is not the attempt's; 409 when the attempt is over.
    pub(crate) async fn report(
        &self,
        of: AttemptRef,
        token: &SecretHash,
        body: &ReportBody,
    ) -> Result<ReportAnswer, AppError> {
        for _ in 0..MAX_TRIES {
            let Proved { mut deployment, over, .. } = self.prove(of, token).await?;
            if over {
                return Err(Refused::Superseded.into());
            }
            // Stored before the start of an apply is acknowledged, so that the log up to that point is kept.
            let offsets = self.store_chunks(of, &body.chunks).await?;
            let forgets = body.forgets
                && lifecycle::note_apply(&mut deployment, of.number, ApplyNote::Forgets)?;
            let is_unwritten = body.unwritten.as_ref().is_some_and(|unwritten| {
                deployment.could_not_write_state(of.number, unwritten_facts(unwritten))
            });
            let is_changed = forgets || is_unwritten;
            if let Some(fetched) = body.fetched.clone() {
                deployment.record_fetched(of.number, fetched.into());
            }
            if lifecycle::report(&mut deployment, of.number, body.phase, self.now())? || is_changed
            {
                deployment.version += 1;
                let saved = self.table.save_deployment(of.org, &deployment, Wake::None).await?;
                if saved == Saved::Lost {
                    continue;
                }
            }
            let reason =
                |attempt: &Attempt| attempt.stop.as_ref().map(|stop| stop.as_failure(attempt));
            let stop_reason = deployment.open_attempt().and_then(reason);
            return Ok(ReportAnswer {
                phase: body.phase,
                stop: stop_reason.is_some(),
                stop_reason,
                offsets,
            });
        }
        Err(AppError::contended(of.deployment))
    }

    /// Stores the first [`MAX_CHUNKS`] pieces of streams; a stored piece stays as it is. Returns the next offset of
    /// each stream in the request, so that the runner can send the rest again.
    pub(crate) async fn store_chunks(
        &self,
        of: AttemptRef,
        chunks: &[Chunk],
    ) -> Result<Offsets, AppError> {
        let mut ends = Offsets::default();
        for (index, chunk) in chunks.iter().take(MAX_CHUNKS).enumerate() {
            let fault =
                |field, reason| AppError::invalid(format!("chunks[{index}].{field}"), reason);
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
            self.changes.hint_of(of.deployment);
        }
        Ok(ends)
    }
}

/// The program and its variables in a local runner's definition. For other runner types, the job's container has
/// the environment and the image has OpenTofu.
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

/// The most pieces of one report that are stored. Each causes requests to the object store. A runner sends four.
pub(crate) const MAX_CHUNKS: usize = 16;

/// The most bytes of one piece. axum answers 413 for a body that is too large as a whole.
pub(crate) const MAX_CHUNK: usize = 128 * 1024;

/// The answer when an attempt's token is used for another deployment's path.
pub(crate) fn foreign_path() -> AppError {
    AppError::missing("the token is for another deployment or attempt than the path")
}
