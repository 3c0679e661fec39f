//! A deployment's runner, as far as the launcher needs it.

use crate::time_limited::TimeLimited;
use crate::{LaunchError, Launcher};
use canyon_dispatch::{AgentNeed, ChosenAgent, Dispatcher, Target};
use canyon_domain::attempt::Attempt;
use canyon_domain::defined_place::DefinedPlace;
use canyon_domain::deployment::Deployment;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{OrgUuid, RunnerId};
use canyon_domain::inventory::Environment;
use canyon_domain::runner::{RunnerDefinition, RunnerType, Timeouts, timeouts::TimeoutSettings};
use canyon_domain::state_home::StateHome;
use canyon_domain::state_storage::StateStorage;
use canyon_store::deployment_lists::Due;
use canyon_store::runners::RunnerRecord;
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) struct ResolvedRunner {
    pub(crate) timeouts: Timeouts,
    /// The dispatcher of its jobs, or why there is none.
    pub(crate) dispatcher: Result<Arc<dyn Dispatcher>, String>,
    /// Why no job can be started, although existing jobs can be observed and stopped.
    pub(crate) start_refusal: Option<String>,
    /// Why no job is launched for now.
    pub(crate) hold_reason: Option<String>,
    /// Where it keeps states, and its former storages, if its definition can be read.
    pub(crate) state: Option<(StateHome, Vec<StateStorage>)>,
    /// The version of the runner's record, if it exists.
    pub(crate) version: Option<u64>,
    /// The first version whose jobs it finds.
    pub(crate) finds_jobs_since: Option<u64>,
}

impl ResolvedRunner {
    /// Whether the dispatcher finds the attempt's job: since its launch the runner was not changed, or only for jobs to come.
    pub(crate) fn finds_job_of(&self, attempt: &Attempt) -> bool {
        attempt.runner_version.zip(self.finds_jobs_since).is_some_and(|(at, since)| at >= since)
    }

    /// Whether the attempt was launched by this version of the runner, so that its job may be started once more: with other
    /// settings a platform takes it for another job, or refuses it.
    pub(crate) fn has_launch_version_of(&self, attempt: &Attempt) -> bool {
        self.version.is_some() && self.version == attempt.runner_version
    }

    /// Why no agent fulfils `need` for a job that is launched now, if that is known.
    pub(crate) async fn no_agent_reason(&self, need: AgentNeed) -> Option<String> {
        match (&self.dispatcher, &self.start_refusal) {
            (Ok(dispatcher), None) => dispatcher.no_agent_reason(need).await,
            // The launch itself reports what is wrong.
            (Ok(_), Some(_)) | (Err(_), _) => None,
        }
    }

    fn unavailable(reason: String) -> Self {
        Self {
            timeouts: (&TimeoutSettings::default()).into(),
            dispatcher: Err(reason),
            start_refusal: None,
            hold_reason: None,
            state: None,
            version: None,
            finds_jobs_since: None,
        }
    }
}

impl Launcher {
    pub(crate) async fn resolve_runner(
        &self,
        due: Due,
        deployment: &Deployment,
    ) -> Result<ResolvedRunner, LaunchError> {
        let runner = self.table.runner(due.org, &deployment.runner).await?;
        self.resolve_found(due, deployment, runner).await
    }

    /// The runner, and the environment that a launch needs; in one request while the deployment waits for its launch.
    pub(crate) async fn resolve_with_environment(
        &self,
        due: Due,
        deployment: &Deployment,
    ) -> Result<(ResolvedRunner, Option<Environment>), LaunchError> {
        if deployment.open_attempt().is_some() {
            return Ok((self.resolve_runner(due, deployment).await?, None));
        }
        let (runner, environment) = self.table.runner_and_environment(due.org, deployment).await?;
        Ok((self.resolve_found(due, deployment, runner).await?, environment))
    }

    async fn resolve_found(
        &self,
        due: Due,
        deployment: &Deployment,
        runner: Option<RunnerRecord>,
    ) -> Result<ResolvedRunner, LaunchError> {
        // An ended deployment only needs its job observed or removed: that needs no profile.
        let of = (!deployment.status.is_terminal()).then_some(deployment);
        let by = deployment.created_by;
        let agent = deployment.agent.clone().map(|id| ChosenAgent { id, by });
        let place = deployment.place.as_deref();
        let found = (&deployment.runner, runner);
        Box::pin(self.resolve_runner_for(due.org, found, of, place, agent)).await
    }

    /// The runner `id` as it is now.
    pub(crate) async fn current_runner(
        &self,
        org: OrgUuid,
        id: &RunnerId,
    ) -> Result<ResolvedRunner, LaunchError> {
        let runner = self.table.runner(org, id).await?;
        Box::pin(self.resolve_runner_for(org, (id, runner), None, None, None)).await
    }

    /// A runner as it was found: with the profile that `deployment` uses, if one is given, then with the changes of
    /// `place`, and only for `agent`, if one is named.
    async fn resolve_runner_for(
        &self,
        org: OrgUuid,
        (id, runner): (&RunnerId, Option<RunnerRecord>),
        deployment: Option<&Deployment>,
        place: Option<&DefinedPlace>,
        agent: Option<ChosenAgent>,
    ) -> Result<ResolvedRunner, LaunchError> {
        let Some(runner) = runner else {
            return Ok(ResolvedRunner::unavailable(format!("runner `{id}` was deleted")));
        };
        let Some(definition) = stored_definition(&runner) else {
            let reason = format!(
                "the definition of runner `{id}` is not in a form that this version reads; update it"
            );
            return Ok(ResolvedRunner::unavailable(reason));
        };
        // Validate the runner itself: a profile may fix a fault for a deployment, but not for a check of the runner.
        let invalid = definition.clone().usable().err().map(|faults| unusable(id, &faults));
        let can_be_watched = definition.can_be_observed();
        let profiled = match deployment {
            Some(deployment) => self.with_profile(org, id, &definition, deployment).await?,
            None => Ok(definition.clone()),
        };
        // Running jobs are observed and stopped even without a valid profile: the runner alone suffices.
        let (definition, start_refusal) = match profiled {
            Ok(definition) => (definition, None),
            Err(reason) => (definition, Some(reason)),
        };
        // In the runner's own cluster nothing would find the job.
        let definition = match place.map(|place| place.applied_to(&definition)) {
            None => definition,
            Some(Ok(moved)) => moved,
            Some(Err(faults)) => {
                let reason = format!(
                    "the place that its resource definition names does not fit runner `{id}`: {faults}; change the runner or the definition"
                );
                return Ok(ResolvedRunner::unavailable(reason));
            }
        };
        let run = deployment.and_then(|deployment| deployment.container.as_ref());
        let refused = run.and_then(|run| {
            definition.check_container(id, &run.image, run.grace_seconds, &run.size).err()
        });
        let refused = refused.map(|refusal| refusal.to_string());
        let start_refusal = invalid.clone().or(start_refusal).or(refused);
        let timeouts = definition.timeouts();
        let version = Some(runner.version);
        let finds_jobs_since = runner.finds_jobs_since.or(version);
        let state = Some((StateHome::from(&definition), runner.former_storages.clone()));
        let hold_reason = self.disabled_reason(org, &runner, agent.as_ref()).await?;
        let usable = match invalid {
            Some(reason) if !can_be_watched => Err(reason),
            Some(_) | None => Ok(definition),
        };
        let dispatcher = match usable {
            Err(reason) => Err(reason),
            Ok(definition) => {
                let may_start = start_refusal.is_none();
                self.dispatcher(org, runner, definition, agent, may_start).await?
            }
        };
        Ok(ResolvedRunner {
            timeouts,
            dispatcher,
            start_refusal,
            hold_reason,
            state,
            version,
            finds_jobs_since,
        })
    }

    /// The dispatcher of the runner's jobs, or why there is none. Without `may_start` it only observes and stops them.
    async fn dispatcher(
        &self,
        org: OrgUuid,
        runner: RunnerRecord,
        definition: RunnerDefinition,
        agent: Option<ChosenAgent>,
        may_start: bool,
    ) -> Result<Result<Arc<dyn Dispatcher>, String>, LaunchError> {
        let Some(platform) = self.platforms.get(&definition.runner_type()) else {
            return Ok(Err(self.cannot_launch(definition.runner_type())));
        };
        let definition = match self.with_secrets(org, &runner, definition).await? {
            Ok(definition) => definition,
            Err(reason) => return Ok(Err(reason)),
        };
        let Some(org_id) = self.organization(org).await? else {
            return Ok(Err("its organization was deleted".to_owned()));
        };
        let (runner, runner_id) = (runner.uuid, runner.id);
        let target = Arc::new(Target { org, org_id, runner, runner_id, definition, agent });
        let dispatcher =
            if may_start { platform.dispatcher(&target) } else { platform.watcher(&target) };
        Ok(Ok(Arc::new(TimeLimited(dispatcher))))
    }

    async fn with_secrets(
        &self,
        org: OrgUuid,
        runner: &RunnerRecord,
        definition: RunnerDefinition,
    ) -> Result<Result<RunnerDefinition, String>, LaunchError> {
        let mut secrets = BTreeMap::<String, SecretString>::new();
        if let Some(sealed) = &runner.sealed_secrets {
            let place = RunnerRecord::sealing_context(org, &runner.id);
            let opened = self.master_keys.get().await?.open(&place, sealed);
            let read = opened.ok().and_then(|text| serde_json::from_slice(&text).ok());
            let Some(read) = read else {
                let id = &runner.id;
                return Ok(Err(format!(
                    "the secrets of runner `{id}` cannot be decrypted; set them again with: canyon update runner {id}"
                )));
            };
            secrets = read;
        }
        Ok(definition.join_secrets(&secrets).map_err(|faults| unusable(&runner.id, &faults)))
    }

    fn cannot_launch(&self, wanted: RunnerType) -> String {
        let mut types: Vec<_> = self.platforms.keys().map(|kind| kind.as_str()).collect();
        types.sort_unstable();
        let others = if types.is_empty() { "none".to_owned() } else { types.join(", ") };
        format!("this installation cannot launch runners of type `{wanted}`; it launches: {others}")
    }
}

fn unusable(runner: &RunnerId, faults: &FieldErrors) -> String {
    format!(
        "runner `{runner}` cannot be used: {faults}; change it with: canyon update runner {runner}"
    )
}

pub(crate) fn stored_definition(runner: &RunnerRecord) -> Option<RunnerDefinition> {
    let value = serde_json::from_str(&runner.definition).ok()?;
    RunnerDefinition::parse_stored(value).ok()
}
