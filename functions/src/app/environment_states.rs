//! The locations of environments' states. A change of a runner must not leave a state behind.

use super::App;
use super::runners::stored_definition;
use super::users::Users;
use crate::app::error::AppError;
use canyon_domain::backend::state_location;
use canyon_domain::environment_state::{Doubt, EnvironmentState, same_location};
use canyon_domain::ids::{EnvUuid, RunnerId};
use canyon_domain::inventory::Environment;
use canyon_domain::module_record::ModuleRecord;
use canyon_domain::principal::Principal;
use canyon_domain::runner::RunnerDefinition;
use canyon_domain::state_home::StateHome;
use canyon_store::blob_keys::BlobKey;
use canyon_store::outcome::Saved;
use canyon_store::runners::RunnerRecord;
use uuid::Uuid;

use super::environments::Refresh;

/// The most resource addresses in an audit record. The state has all of them.
const LISTED: usize = 100;
/// How often environments without a record are searched; each round writes ten of them.
const MAX_ROUNDS: u32 = 1_000;

impl App {
    /// Records in `environment`, which is being linked to `runner`, that its state may be moved to that runner's
    /// storage. Returns the new location, if the state has to be moved.
    ///
    /// # Errors
    ///
    /// 409 when that runner keeps state elsewhere, and the state may not or cannot be moved.
    pub(super) async fn relink_state(
        &self,
        by: &Principal,
        environment: &mut Environment,
        runner: &RunnerId,
        how: Refresh,
    ) -> Result<Option<String>, AppError> {
        if *runner == environment.runner_id && !how.migrate {
            return Ok(None);
        }
        let next = stored_definition(&self.runner(by, runner).await?)?;
        let linked = stored_definition(&self.runner(by, &environment.runner_id).await?)?;
        let name = environment.id.clone();
        let target = (environment.project_id.clone(), name.clone());
        let mut moves_to = None;
        for (id, module) in environment.modules_mut() {
            let recorded = module.recorded_state(&linked.state_storage);
            let Some(state) = recorded.filter(|_| module.may_hold_resources()) else { continue };
            let stays = same_location(&state.storage, &next.state_storage, id);
            if stays && linked.state_platform() == next.state_platform() {
                module.state = Some(state);
                continue;
            }
            let from = state_location(&state.storage, id);
            let to = state_location(&next.state_storage, id);
            if let Some(reason) = state.storage.storage_type().refusal_for(next.runner_type()) {
                return Err(AppError::conflict(format!(
                    "the state of environment `{name}` is in `{from}`, which no job of runner `{runner}` can \
                     read, so it cannot be moved: {reason}"
                )));
            }
            if !how.migrate && !how.dry_run {
                let (project, env) = target;
                return Err(AppError::conflict(format!(
                    "environment `{env}` has its state in `{from}`, and runner `{runner}` keeps state in \
                     `{to}`{}: its next run would create everything a second time. Have that run move the \
                     state first: canyon refresh-runner {project} {env} --migrate",
                    if stays { " of other machines or another cluster" } else { "" },
                )));
            }
            let may_move_to = Some(next.state_storage.clone()).filter(|_| !stays);
            module.state = Some(EnvironmentState { may_move_to, ..state });
            moves_to = moves_to.or(Some(to));
        }
        Ok(moves_to)
    }

    /// Checks a change of the definition of `runner` that may move states. With `migrate` it records in the runner that
    /// states may be moved from their present location.
    ///
    /// # Errors
    ///
    /// 409 with the environments that would lose their state.
    pub(super) async fn keep_states(
        &self,
        by: &Principal,
        runner: &mut RunnerRecord,
        before: &RunnerDefinition,
        after: &RunnerDefinition,
        migrate: bool,
    ) -> Result<(), AppError> {
        if StateHome::from(before).is_same_as(&StateHome::from(after)) {
            return Ok(());
        }
        // Two storages map either every environment to the same location, or none.
        let stays =
            same_location(&before.state_storage, &after.state_storage, EnvUuid(Uuid::nil()));
        let left = |env: &Environment| {
            // A running deployment may be creating the first resources.
            let is_busy = env.queue.current.is_some();
            let is_left = |(id, module): (EnvUuid, &ModuleRecord)| {
                let is_there = |state: &EnvironmentState| {
                    !stays && same_location(&state.storage, &after.state_storage, id)
                };
                (is_busy || module.may_hold_resources())
                    && !module.state.as_ref().is_some_and(is_there)
            };
            env.runner_id == runner.id && env.modules().any(is_left)
        };
        if !migrate {
            let users = self.users(by, left, None).await?;
            return if users.is_empty() { Ok(()) } else { Err(refusal(&runner.id, &users)) };
        }
        if stays {
            // The storage is the same, on other machines or in a cluster with another address. The run itself checks
            // whether its state is there.
            return Ok(());
        }
        self.record_states(by, &runner.id, before).await?;
        let (former, next) = (&before.state_storage, &after.state_storage);
        runner.former_storages.retain(|storage| storage != former && storage != next);
        runner.former_storages.push(former.clone());
        Ok(())
    }

    /// Environments that an earlier version of Canyon has deployed have no record of the location of their state. It is
    /// recorded while the runner's definition still has that location.
    async fn record_states(
        &self,
        by: &Principal,
        runner: &RunnerId,
        definition: &RunnerDefinition,
    ) -> Result<(), AppError> {
        let unrecorded = |env: &Environment| {
            let Environment { runner_id, module, .. } = env;
            runner_id == runner && module.state.is_none() && module.applied.is_some()
        };
        for _ in 0..MAX_ROUNDS {
            let found = self.users(by, unrecorded, None).await?.environments;
            if found.is_empty() {
                return Ok(());
            }
            for mut environment in found {
                let recorded = environment.module.recorded_state(&definition.state_storage);
                environment.module.state = recorded;
                environment.version += 1;
                let subject =
                    format!("projects/{}/envs/{}", environment.project_id, environment.id);
                let record = self.record(by, "environment.record_state", subject);
                // An environment that was changed concurrently is found again in the next round.
                let _: Saved = self.table.save_environment(by.org, &environment, &record).await?;
            }
        }
        Err(AppError::contended(runner))
    }

    /// The resources that the deletion of `environment` leaves behind, for its audit record.
    pub(super) async fn left_behind(
        &self,
        by: &Principal,
        environment: &Environment,
    ) -> Result<Vec<String>, AppError> {
        let mut details = Vec::new();
        for (id, module) in environment.modules() {
            details.extend(self.left_of(by, environment, id, module).await?);
        }
        Ok(details)
    }

    async fn left_of(
        &self,
        by: &Principal,
        environment: &Environment,
        id: EnvUuid,
        module: &ModuleRecord,
    ) -> Result<Vec<String>, AppError> {
        if !module.may_hold_resources() {
            return Ok(Vec::new());
        }
        let Some(state) = &module.state else {
            return Ok(vec!["resources in a state that no run has reported".to_owned()]);
        };
        let place = state_location(&state.storage, id);
        let mut details = vec![match &state.facts {
            Some(facts) => format!("{} resources in the state at {place}", facts.resources),
            None => format!("an unknown number of resources in the state at {place}"),
        }];
        let runner = stored_definition(&self.runner(by, &environment.runner_id).await?)?;
        if !same_location(&state.storage, &runner.state_storage, id) {
            let now = state_location(&runner.state_storage, id);
            details.push(format!(
                "or at {now}, if a run moved it there and was ended before it reported that"
            ));
        }
        match state.doubt {
            Some(Doubt::Unfinished(deployment) | Doubt::Unseen(deployment)) => details.push(
                format!("there may be more: deployment {deployment} did not report everything that it left"),
            ),
            Some(Doubt::Unrecorded) => {
                details.push("there may be more: no run has reported this state".to_owned());
            }
            None => {}
        }
        let Some(reported) = state.reported else { return Ok(details) };
        let key = BlobKey::resources(by.org, reported.by, reported.attempt);
        let Some(bytes) = self.blobs.get(&key).await? else { return Ok(details) };
        let addresses: Vec<String> = serde_json::from_slice(&bytes).map_err(|error| {
            tracing::error!(%error, deployment = %reported.by, "a stored artifact does not parse");
            AppError::internal()
        })?;
        details.extend(addresses.into_iter().take(LISTED));
        Ok(details)
    }
}

fn refusal(runner: &RunnerId, users: &Users) -> AppError {
    users.refusal(
        &format!("the state storage of runner `{runner}`"),
        "their next run would create everything a second time. Have it move the state first (give \
         `migrate: true`, or canyon update runner with --migrate)",
    )
}
