//! Accepting a deployment.

use super::App;
pub use super::container_jobs::ResourceRequest;
use super::deployment_diffs::Diff;
pub use super::deployment_order::DeploymentRequest;
pub use super::idempotency::Idempotency;
use super::modules::Work;
use super::permissions::require;
use crate::app::error::AppError;
use canyon_domain::approval::{ApprovalNeed, ApprovalRule, TurnHold};
use canyon_domain::backend::state_location;
use canyon_domain::deadline::QUEUE_CHECK;
use canyon_domain::deployment::{Deployment, Mode, Status, StoredResults};
use canyon_domain::environment_state::StateFacts;
use canyon_domain::ids::{DeploymentId, OrgUuid, RunnerId};
use canyon_domain::inventory::{Environment, EnvironmentStatus};
use canyon_domain::principal::{Principal, Role};
use canyon_domain::resource_count::Resources;
use canyon_domain::run_kind::RunKind;
use canyon_domain::scoped_role::ScopedRole;
use canyon_domain::source_id::SourceId;
use canyon_domain::state_command::StateCommand;
use canyon_store::contention::MAX_TRIES;
use canyon_store::deployments::Accepted;

/// For the audit record: the state that the environment gives up for the state in the runner's storage.
fn given_up(environment: &Environment) -> Option<String> {
    let state = environment.module.state.as_ref()?;
    let place = state_location(&state.storage, environment.uuid);
    Some(match &state.facts {
        Some(StateFacts { lineage, serial, resources, .. }) => format!(
            "until then: {} in the state at {place} (lineage {lineage}, serial {serial}){}",
            Resources(*resources),
            if state.doubt.is_some() { ", and perhaps more" } else { "" }
        ),
        None => format!("until then: an unknown number of resources in the state at {place}"),
    })
}

fn missing_environment(order: &DeploymentRequest) -> AppError {
    let DeploymentRequest { project, env, .. } = order;
    let reason = format!(
        "there is no environment `{env}` in project `{project}`, or your token does not see it; list those that it \
         sees: canyon list environments {project}; create a new one: canyon create environment {project} {env} \
         --set=env_type_id=TYPE"
    );
    AppError::absent("env_id", reason)
}

fn missing_project(order: &DeploymentRequest) -> AppError {
    let project = &order.project;
    let reason = format!(
        "there is no project `{project}`, or your token does not see it; list those that it sees: canyon list projects; \
         create a new one: canyon create project {project}"
    );
    AppError::absent("project_id", reason)
}

/// The refusal for an environment that does not exist, or that the caller may not see.
fn unseen(by: &Principal, order: &DeploymentRequest) -> AppError {
    if by.sees_project(&order.project) {
        missing_environment(order)
    } else {
        missing_project(order)
    }
}

impl App {
    /// Accepts a deployment: from then on it reaches an end. A request with the same idempotency key returns the same
    /// deployment.
    ///
    /// # Errors
    ///
    /// 400 names the faulty field; 409 names what conflicts or is missing. Nothing is written in either case.
    pub async fn deploy(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
        idempotency: Option<&Idempotency>,
    ) -> Result<Deployment, AppError> {
        let keyed = self.keyed(order, idempotency).await?;
        let idempotency = keyed.as_ref();
        // The future is large.
        match Box::pin(self.accept(by, order, idempotency)).await {
            Ok(Some(deployment)) => Ok(deployment),
            Ok(None) => self.repeated(by.org, Some(by), idempotency).await?.ok_or_else(|| {
                AppError::conflict("the idempotency key is in use; try again with another")
            }),
            // A request that was accepted once gets the same answer again, even if it would be refused now. The key
            // is looked up only after a refusal: that saves a read for each first request.
            Err(refusal) if !refusal.is_failure() => {
                self.repeated(by.org, Some(by), idempotency).await?.ok_or(refusal)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Checks a request as [`App::deploy`] does, and writes nothing. Returns its runner, and what it would run differently.
    ///
    /// # Errors
    ///
    /// The same errors as [`App::deploy`].
    pub(crate) async fn check_deployment_request(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
    ) -> Result<(RunnerId, Diff), AppError> {
        let environment = self.open_environment(by, order).await?;
        let order = &*Box::pin(self.with_plan(by, order, &environment)).await?;
        let work = self.work_for(by, order, &environment).await?;
        // Checks whether the queue is full.
        let (deployment, _) = self.enqueue(by, order, &work, None, environment.clone())?;
        let diff = Box::pin(self.diff_of_request(by, order, &work, &environment)).await?;
        Ok((deployment.runner, diff))
    }

    /// Writes the deployment; `None` when the key has been used.
    async fn accept(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
        idempotency: Option<&Idempotency>,
    ) -> Result<Option<Deployment>, AppError> {
        for _ in 0..MAX_TRIES {
            let environment = self.open_environment(by, order).await?;
            let order = &*Box::pin(self.with_plan(by, order, &environment)).await?;
            let work = self.work_for(by, order, &environment).await?;
            let reads_in = self.reads_in(by, order, &environment).await?;
            let (mut deployment, mut environment) =
                self.enqueue(by, order, &work, reads_in, environment)?;
            Box::pin(self.ask_for_kept_plan(by, &mut deployment)).await?;
            if deployment.waits_without_turn() {
                environment.queue.step_aside(deployment.id);
            }
            let Work { bundle, .. } = work;
            if !bundle.sealed_inputs.is_empty() && deployment.changes_state() {
                environment.record_secret_inputs(deployment.id);
            }
            let key = idempotency.map(|key| key.record(&deployment));
            let mut record = self.record(by, "deployment.create", deployment.path());
            record.details = RunKind::details_of(&deployment);
            record.details.extend(order.state_command.iter().map(|it| format!("command: {it}")));
            if order.accept_state {
                record.details.push("accepts any state in its runner's storage".to_owned());
                record.details.extend(given_up(&environment));
            }
            let accepted = self
                .table
                .accept_deployment(
                    by.org,
                    &deployment,
                    &bundle,
                    &environment,
                    key.as_ref(),
                    &record,
                )
                .await?;
            match accepted {
                Accepted::Yes => {
                    Box::pin(self.end_superseded(by.org, &deployment, &environment.queue)).await?;
                    return Ok(Some(deployment));
                }
                Accepted::Repeated => return Ok(None),
                Accepted::Lost => {}
            }
        }
        Err(AppError::contended(&order.env))
    }

    /// The deployment of an idempotency key, if the key was used, has not expired, and `reader`, if given, may still
    /// read the deployment: an administrator may have narrowed the caller's roles since.
    pub(super) async fn repeated(
        &self,
        org: OrgUuid,
        reader: Option<&Principal>,
        idempotency: Option<&Idempotency>,
    ) -> Result<Option<Deployment>, AppError> {
        let Some(idempotency) = idempotency else { return Ok(None) };
        let Some(known) = self.table.idempotency(org, &idempotency.of, &idempotency.key).await?
        else {
            return Ok(None);
        };
        if known.expires_at <= self.now() {
            return Ok(None);
        }
        let found = self.table.deployment(org, known.deployment).await?;
        let is_seen = |found: &Deployment| {
            reader.is_none_or(|reader| reader.role_in(found.into()) >= Role::Viewer)
        };
        let Some(found) = found.filter(is_seen) else { return Ok(None) };
        if known.body != idempotency.body {
            return Err(AppError::conflict(format!(
                "this idempotency key came with another body and made deployment {}; use a new \
                 key for a new deployment",
                known.deployment
            )));
        }
        Ok(Some(found))
    }

    async fn open_environment(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
    ) -> Result<Environment, AppError> {
        let found = self.table.environment(by.org, &order.project, &order.env).await?;
        let Some(environment) = found else { return Err(self.no_environment(by, order).await?) };
        require(by, Role::Deployer, (&environment).into(), || unseen(by, order))?;
        if environment.status == EnvironmentStatus::Deleting {
            return Err(AppError::conflict(format!(
                "environment `{}` is being deleted",
                environment.id
            )));
        }
        if order.accept_state && by.role_in((&environment).into()) < Role::Admin {
            return Err(AppError::denied(
                "`accept_state` gives up the state that the environment has; only an administrator may \
                 set it",
            ));
        }
        let forces_unlock =
            matches!(order.state_command, Some(StateCommand::ForceUnlock { force: true, .. }));
        if forces_unlock && by.role_in((&environment).into()) < Role::Admin {
            return Err(AppError::denied(
                "`state_command.force` frees a lock whose holder may live; only an administrator may set it",
            ));
        }
        self.check_chosen_agent(by, order, &environment.runner_id).await?;
        self.check_requested_role(by, order, &environment).await?;
        Ok(environment)
    }

    /// The refusal that names the missing project or environment.
    async fn no_environment(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
    ) -> Result<AppError, AppError> {
        if self.table.project(by.org, &order.project).await?.is_none() {
            return Ok(missing_project(order));
        }
        Ok(unseen(by, order))
    }

    /// The deployment and its environment, as they will be stored.
    pub(super) fn enqueue(
        &self,
        by: &Principal,
        order: &DeploymentRequest,
        work: &Work,
        reads_in: Option<Vec<ScopedRole>>,
        mut environment: Environment,
    ) -> Result<(Deployment, Environment), AppError> {
        let Work { bundle, place } = work;
        let runner = place.as_ref().and_then(|place| place.runner.as_ref());
        let now = self.now();
        let id = DeploymentId(self.entropy.id(now));
        if !order.mode.takes_turn() {
            environment.may_check(None).map_err(|busy| AppError::conflict(busy.to_string()))?;
            environment.begin_check(id);
        } else if environment.status == EnvironmentStatus::Deleting {
            environment.queue.append(id);
        } else {
            environment.queue.join(id).map_err(|full| AppError::conflict(full.to_string()))?;
        }
        environment.version += 1;
        let may_begin = !order.mode.takes_turn() || environment.queue.is_next(id);
        let due_at = if may_begin { now } else { now + QUEUE_CHECK };
        let mut deployment = Deployment {
            id,
            project: order.project.clone(),
            env: order.env.clone(),
            env_uuid: environment.uuid,
            env_type: Some(environment.env_type_id.clone()),
            runner: runner.unwrap_or(&environment.runner_id).clone(),
            fallback: None,
            mode: order.mode,
            plan_only: order.plan_only,
            rollback_to: order.rollback_to,
            plan_of: order.plan_of,
            resource: bundle.resource.as_ref().map(|task| Box::new(task.resource.clone())),
            container: bundle.container.as_ref().map(|task| Box::new(task.into())),
            place: place.clone().map(Box::new),
            of_removal: false,
            priority: order.priority,
            agent: order.agent.clone(),
            role: order.role.clone(),
            accept_state: order.accept_state,
            max_deletions: order.max_deletions,
            partial: bundle.options.is_partial(),
            reconciles: order.reconciles,
            supersede: order.supersedes.then(|| SourceId::of(&bundle.module.source)),
            created_at: now,
            created_by: by.id,
            reads_in,
            status: Status::Queued,
            message: String::new(),
            hold: None,
            due_at: Some(due_at),
            attempts: Vec::new(),
            cancel: None,
            counts: None,
            state: None,
            refused_deletions: None,
            kept: StoredResults::default(),
            approval: None,
            plan: None,
            drift: None,
            policy: None,
            logs_removed: None,
            completed_at: None,
            version: 1,
        };
        let needs_approval = !deployment.plan_only
            && deployment.container.is_none()
            && deployment.mode != Mode::State
            && !deployment.of_removal;
        let asked = order.asks_approval.then(|| ApprovalRule::of(ApprovalNeed::Always));
        let needed = environment.approval_needed(asked.as_ref());
        deployment.approval = needed.filter(|_| needs_approval).map(Box::new);
        if let Some(approval) = deployment.approval.as_mut().filter(|_| bundle.resource.is_some()) {
            // Its state in the environment says what is being done with the resource, and there is one only.
            approval.hold = TurnHold::Turn;
        }
        Ok((deployment, environment))
    }
}
