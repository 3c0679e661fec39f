//! Creates, changes and deletes environments, and links them to runners.

use super::App;
use super::env_types::missing_env_type;
use super::permissions::{forbidden, require};
use crate::app::error::AppError;
use canyon_domain::approval::{ApprovalRule, TurnHold};
use canyon_domain::change::Change;
use canyon_domain::deployment_queue::DeploymentQueue;
use canyon_domain::display_name::DisplayName;
use canyon_domain::failure::shortened_to;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{EnvId, EnvTypeId, EnvUuid, ProjectId, RunnerId};
use canyon_domain::inventory::Update;
use canyon_domain::inventory::{DeletionProtection, Environment, EnvironmentStatus};
use canyon_domain::module_record::ModuleRecord;
use canyon_domain::plan_check::PlanCheckRule;
use canyon_domain::principal::{Principal, Role};
use canyon_domain::resource::ResourceSet;
use canyon_domain::resource_count::Resources;
use canyon_domain::runner_rules::{Rule, RuleTarget, choose};
use canyon_domain::scoped_role::Target;
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::{Page, PageRequest};

/// Maximum length of the approvers in an audit record, in characters: a rule may name many.
const MAX_APPROVERS: usize = 600;
/// Indices into the references that `Table::create_environment` checks.
const PROJECT: usize = 1;
const ENV_TYPE: usize = 2;

/// A request to create an environment, parsed.
#[derive(Clone, Debug)]
pub(crate) struct EnvironmentRequest {
    /// Its id.
    pub(crate) id: EnvId,
    /// Its project.
    pub(crate) project: ProjectId,
    /// Its type.
    pub(crate) env_type: EnvTypeId,
    /// The name that the console shows.
    pub(crate) display_name: DisplayName,
    /// The limit of deletions for a run; by default that of the type.
    pub(crate) deletion_protection: Option<DeletionProtection>,
}

/// Options for linking an environment to another runner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refresh {
    /// Report the result without a change.
    pub(crate) dry_run: bool,
    /// The next run may move the state to the storage of the new runner.
    pub(crate) migrate: bool,
}

/// Options for deleting an environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deletion {
    /// Leave the deployed resources behind.
    pub(crate) force: bool,
    /// The UUID of the environment to delete, if the caller gives it. A request that the network repeats late could
    /// meet a new environment with the same name.
    pub(crate) only: Option<EnvUuid>,
}

/// The result of a deletion.
#[derive(Debug)]
pub(crate) enum Removal {
    /// The environment is deleted.
    Gone,
    /// A destroy run removes its resources first.
    Destroying(Box<Environment>),
}

/// The result of linking an environment to the runner that the rules choose.
#[derive(Debug)]
pub(crate) struct Refreshed {
    /// The linked runner, or the one that a dry run would link.
    pub(crate) runner: RunnerId,
    /// The same for its fallbacks.
    pub(crate) fallbacks: Vec<RunnerId>,
    /// Whether the links were changed.
    pub(crate) updated: bool,
    /// Where the next run moves the state, or would move it after a dry run.
    pub(crate) moves_state_to: Option<String>,
}

impl App {
    /// A page of the environments that the caller may read: of all projects or one, of all types or `types`.
    pub(crate) async fn environments(
        &self,
        by: &Principal,
        project: Option<&ProjectId>,
        types: &[String],
        page: &PageRequest,
    ) -> Result<Page<Environment>, AppError> {
        let wanted = |env: &Environment| {
            (types.is_empty() || types.iter().any(|id| id == env.env_type_id.as_str()))
                && by.role_in(env.into()) >= Role::Viewer
        };
        Ok(self.table.environments(by.org, project, page, wanted).await?)
    }

    /// Creates an environment, linked to the runner that the rules choose now.
    pub(crate) async fn create_environment(
        &self,
        by: &Principal,
        order: EnvironmentRequest,
    ) -> Result<Environment, AppError> {
        let target = Target::NewEnvironment { project: &order.project, env_type: &order.env_type };
        for _ in 0..MAX_TRIES {
            let project = self.project(by, &order.project).await?;
            if by.role_in(target) < Role::Admin {
                return Err(forbidden(Role::Admin, by.role_in(target), target));
            }
            let Some(env_type) = self.table.env_type(by.org, &order.env_type).await? else {
                return Err(missing_env_type(&order.env_type));
            };
            let place = RuleTarget { project: project.id, env_type: order.env_type.clone() };
            let chosen = self.chosen_rule(by, &place).await?;
            let record = self.record(by, "environment.create", path(&order.project, &order.id));
            let environment = Environment {
                id: order.id.clone(),
                uuid: EnvUuid(self.entropy.id(record.at)),
                project_id: place.project,
                project_uuid: project.uuid,
                env_type_id: place.env_type,
                display_name: order.display_name.clone(),
                status: EnvironmentStatus::Active,
                status_message: None,
                runner_id: chosen.runner,
                fallback_runner_ids: chosen.fallbacks,
                created_at: record.at,
                updated_at: record.at,
                queue: DeploymentQueue::default(),
                module: ModuleRecord::default(),
                secret_inputs: Vec::new(),
                resources: ResourceSet::default(),
                deletion_protection: order.deletion_protection.or(env_type.deletion_protection),
                type_approval: env_type.approval.clone().map(Box::new),
                type_policy: env_type.policy.as_ref().map(|policy| policy.digest()),
                approval: None,
                drift: None,
                removed_by: None,
                version: 1,
            };
            match self.table.create_environment(by.org, &environment, &record).await? {
                Created::Yes => {
                    // The type may have changed after it was read, and before the environment was there to get its rules.
                    if let Some(env_type) = self.table.env_type(by.org, &order.env_type).await? {
                        self.set_type_rules(by, &environment, &env_type).await?;
                    }
                    return Ok(environment);
                }
                Created::Exists => {
                    return Err(AppError::conflict(format!(
                        "project `{}` has an environment `{}` already",
                        order.project, order.id
                    )));
                }
                Created::Missing(PROJECT) => {
                    return Err(AppError::not_found("project", &order.project));
                }
                Created::Missing(ENV_TYPE) => return Err(missing_env_type(&order.env_type)),
                // A runner was deleted after the rules had chosen it: they choose again.
                Created::Missing(_) => {}
            }
        }
        Err(AppError::contended(&order.id))
    }

    async fn chosen_rule(&self, by: &Principal, place: &RuleTarget) -> Result<Rule, AppError> {
        let rules: Vec<_> =
            self.table.all_rules(by.org).await?.into_iter().map(Rule::from).collect();
        let chosen =
            choose(&rules, place).map_err(|error| AppError::conflict(error.to_string()))?;
        Ok(chosen.clone())
    }

    /// An environment in which `by` has the role `needed`. 404 if it does not exist.
    pub(crate) async fn environment(
        &self,
        by: &Principal,
        needed: Role,
        project: &ProjectId,
        env: &EnvId,
    ) -> Result<Environment, AppError> {
        let missing = || AppError::not_found("environment", env);
        let found = self.table.environment(by.org, project, env).await?.ok_or_else(missing)?;
        require(by, needed, (&found).into(), missing)?;
        Ok(found)
    }

    /// Changes the parts of an environment that are given.
    pub(crate) async fn update_environment(
        &self,
        by: &Principal,
        project: &ProjectId,
        env: &EnvId,
        update: &Update,
    ) -> Result<Environment, AppError> {
        for _ in 0..MAX_TRIES {
            let mut environment = self.environment(by, Role::Admin, project, env).await?;
            let mut record = self.record(by, "environment.update", path(project, env));
            if let Some(name) = &update.display_name {
                environment.display_name = name.clone();
            }
            if !update.deletion_protection.is_keep() {
                environment.deletion_protection = update.deletion_protection.value().copied();
                record.details.push(protection_in_words(environment.deletion_protection));
            }
            if !update.approval.is_keep() {
                let rule = update.approval.value();
                if let (Some(own), Some(of_type)) = (rule, &environment.type_approval) {
                    let mut faults = FieldErrors::default();
                    own.check_is_stricter(of_type, "approval", &mut faults);
                    faults.into_result(())?;
                }
                self.check_approver_groups(by, rule).await?;
                environment.approval = rule.cloned().map(Box::new);
                record.details.extend(approval_in_words(&update.approval));
            }
            if let Some(rules) = &update.drift_ignore {
                environment.drift.get_or_insert_default().ignore.clone_from(rules);
                let said = rules.iter().map(|rule| format!("ignores drift of {}", rule.address));
                record.details.extend(said);
            }
            environment.updated_at = record.at;
            environment.version += 1;
            if self.table.save_environment(by.org, &environment, &record).await? == Saved::Yes {
                return Ok(environment);
            }
        }
        Err(AppError::contended(env))
    }

    /// Links an environment to the runner that the rules choose now; with `dry_run` it only reports that runner.
    /// Refused while deployments run or wait: they were accepted for the linked runner, and a running job writes the
    /// state there. Also refused if the new runner keeps state elsewhere, unless the state may be moved.
    pub(crate) async fn refresh_runner(
        &self,
        by: &Principal,
        project: &ProjectId,
        env: &EnvId,
        how: Refresh,
    ) -> Result<Refreshed, AppError> {
        for _ in 0..MAX_TRIES {
            let mut environment = self.environment(by, Role::Admin, project, env).await?;
            let Rule { runner, fallbacks, .. } =
                self.chosen_rule(by, &environment.rule_target()).await?;
            let moves_state_to = self.relink_state(by, &mut environment, &runner, how).await?;
            let former: Vec<_> = environment.runner_ids().cloned().collect();
            let updated = !former.iter().eq(std::iter::once(&runner).chain(&fallbacks));
            if how.dry_run || (!updated && moves_state_to.is_none()) {
                return Ok(Refreshed { runner, fallbacks, updated: false, moves_state_to });
            }
            refuse_if_busy(&environment)?;
            let mut record = self.record(by, "environment.refresh_runner", path(project, env));
            record
                .details
                .extend(moves_state_to.iter().map(|to| format!("state may move to {to}")));
            environment.runner_id = runner.clone();
            environment.fallback_runner_ids.clone_from(&fallbacks);
            environment.updated_at = record.at;
            environment.version += 1;
            let saved =
                self.table.relink_environment(by.org, &environment, &former, &record).await?;
            if saved == Saved::Yes {
                return Ok(Refreshed { runner, fallbacks, updated, moves_state_to });
            }
        }
        Err(AppError::contended(env))
    }

    /// Deletes an environment. A destroy run removes its resources first, unless `force` leaves them behind.
    pub(crate) async fn delete_environment(
        &self,
        by: &Principal,
        project: &ProjectId,
        env: &EnvId,
        Deletion { force, only }: Deletion,
    ) -> Result<Removal, AppError> {
        for _ in 0..MAX_TRIES {
            let environment = self.environment(by, Role::Admin, project, env).await?;
            if let Some(only) = only.filter(|only| *only != environment.uuid) {
                return Err(AppError::conflict(format!(
                    "the environment `{env}` of project `{project}` is a new one: its uuid is {}, and the request was to \
                     delete {only}. Nothing was deleted. Check it first: canyon get environment {project} {env}",
                    environment.uuid
                )));
            }
            let is_empty = environment.removal_steps().is_empty() && environment.queue.is_idle();
            if !force
                && environment.module.applied.is_none()
                && let Some(unfinished) = environment.module.unfinished()
            {
                return Err(AppError::conflict(format!(
                    "deployment {unfinished} to environment `{env}` did not report everything that it left, and there is \
                     nothing that a destroy run could find: read its log and its orphans, remove what is left, \
                     and delete the environment with `force=true` (canyon delete environment {project} {env} --force). \
                     Or deploy once more: a deployment that succeeds as a whole ends that doubt"
                )));
            }
            if !force && let Some(resources) = environment.module.unadopted_resources() {
                return Err(AppError::conflict(format!(
                    "the state of environment `{env}` has {}, and no deployment to it is known to have applied, so \
                     there is nothing that a destroy run could undo: deploy the module of what is there once, and \
                     delete the environment then. Or leave it behind: canyon delete environment {project} {env} \
                     --force",
                    Resources(resources)
                )));
            }
            if !force && !is_empty {
                let destroying = self.request_destroy(by, project, env).await?;
                return Ok(Removal::Destroying(Box::new(destroying)));
            }
            refuse_if_busy(&environment)?;
            let mut record = self.record(by, "environment.delete", path(project, env));
            if force {
                record.details = self.left_behind(by, &environment).await?;
                let names = environment.resources.iter().map(|resource| &resource.name);
                record.details.extend(names.map(|name| format!("resource {name}")));
            }
            let deleted = self.table.delete_environment(by.org, &environment, &record).await?;
            if deleted == Deleted::Yes {
                return Ok(Removal::Gone);
            }
        }
        Err(AppError::contended(env))
    }
}

/// The new rule for approvals, for the audit record.
pub(super) fn approval_in_words(change: &Change<ApprovalRule>) -> Option<String> {
    match change {
        Change::Keep => None,
        Change::Remove => Some("no approval is needed".to_owned()),
        Change::Set(rule) => Some(format!(
            "approval required: {}, by {} with {}, within {} s{}{}{}{}",
            rule.required.as_str(),
            rule.count,
            shortened_to(&rule.approvers.to_string(), MAX_APPROVERS),
            rule.expires_seconds,
            if rule.forbid_author { "" } else { "; also by the author" },
            if rule.comment_required { "; with a comment" } else { "" },
            if rule.hold == Some(TurnHold::Release) { "; without the turn" } else { "" },
            checks_in_words(&rule.checks)
        )),
    }
}

/// Such as `; checks: security (mandatory) by https://checks.example.com`.
fn checks_in_words(checks: &[PlanCheckRule]) -> String {
    if checks.is_empty() {
        return String::new();
    }
    let words = checks.iter().map(|check| {
        let kind = if check.mandatory { "mandatory" } else { "advisory" };
        format!("{} ({kind}) by {}", check.id, check.url)
    });
    format!("; checks: {}", words.collect::<Vec<_>>().join(", "))
}

fn protection_in_words(protection: Option<DeletionProtection>) -> String {
    match protection {
        Some(allowed) => {
            format!("a run may delete at most {}", Resources(allowed.max_deletions))
        }
        None => "a run may delete any number of resources".to_owned(),
    }
}

fn path(project: &ProjectId, env: &EnvId) -> String {
    format!("projects/{project}/envs/{env}")
}

fn refuse_if_busy(environment: &Environment) -> Result<(), AppError> {
    match environment.queue.head() {
        None => Ok(()),
        Some(deployment) => Err(AppError::conflict(format!(
            "deployment {deployment} runs or waits in environment `{}`; wait for its end, or cancel \
             it: canyon cancel {deployment}; see those that run and wait: canyon status {} {}",
            environment.id, environment.project_id, environment.id
        ))),
    }
}
