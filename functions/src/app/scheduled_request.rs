//! The request that a schedule makes when it is due.

use super::deploy::DeploymentRequest;
use super::deployment_request;
use super::resource_jobs::nothing_created;
use crate::app::error::AppError;
use crate::json::{self, JsonError};
use canyon_api::deployment::{DeploymentCreateBody, RequestedMode};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{EnvId, ProjectId};
use canyon_domain::inventory::Environment;
use canyon_domain::kind::Kind;
use canyon_domain::resource::Resource;
use canyon_domain::resource_name::ResourceName;
use canyon_domain::schedule::{Schedule, ScheduledWork};
use serde_json::json;

/// The request of `schedule` at this moment.
pub(super) fn of(
    schedule: &Schedule,
    environment: &Environment,
) -> Result<DeploymentRequest, AppError> {
    let (project, env) = (&schedule.project, &schedule.env);
    match &schedule.settings.work {
        ScheduledWork::Drift { reconcile } => {
            let (project, env) = (project.clone(), env.clone());
            let check = DeploymentRequest::drift_check(project, env);
            Ok(DeploymentRequest { reconciles: *reconcile, ..check })
        }
        ScheduledWork::Deploy { spec: Some(spec) } => Ok(of_spec(spec, project, env)?),
        ScheduledWork::Deploy { spec: None } => of_last(project, env, environment),
        ScheduledWork::Destroy => {
            plain(&json!({ "project_id": project, "env_id": env, "mode": "destroy" }))
        }
        ScheduledWork::ContainerCheck { resource } => {
            check_container_made(resource, environment)?;
            plain(&json!({
                "project_id": project, "env_id": env, "mode": "plan_only", "resource": resource,
            }))
        }
    }
}

/// Refuses to check a resource that no container job has created. For one of a module, the same request would plan what its
/// definition says now, which is no check.
fn check_container_made(name: &ResourceName, environment: &Environment) -> Result<(), AppError> {
    match environment.resources.get(name).map(Resource::kind) {
        Some(Kind::Container) => Ok(()),
        None => Err(nothing_created(environment, name, true)),
        Some(Kind::Tofu) => Err(AppError::conflict(format!(
            "resource `{name}` was made by an OpenTofu module, and only one that a container job has made can be checked"
        ))),
    }
}

/// The request to deploy again what was deployed last.
pub(super) fn of_last(
    project: &ProjectId,
    env: &EnvId,
    environment: &Environment,
) -> Result<DeploymentRequest, AppError> {
    let applied = environment.module.applied.ok_or_else(|| {
        AppError::conflict(format!(
            "nothing is deployed to environment `{env}`, so there is nothing to deploy again"
        ))
    })?;
    plain(&json!({
        "project_id": project, "env_id": env, "mode": "rollback", "rollback_to_deployment_id": applied.0,
    }))
}

/// A request that Canyon itself has written.
fn plain(body: &serde_json::Value) -> Result<DeploymentRequest, AppError> {
    let body = json::read(body.to_string().as_bytes()).map_err(JsonError::without_values)?;
    Ok(deployment_request::parse(body)?)
}

/// Parses `spec` of a schedule. The faults have paths below it.
pub(super) fn of_spec(
    spec: &str,
    project: &ProjectId,
    env: &EnvId,
) -> Result<DeploymentRequest, FieldErrors> {
    let parsed = parse_spec(spec, project, env);
    parsed.map_err(|faults| {
        let mut below = FieldErrors::default();
        below.add_under("spec", faults);
        below
    })
}

/// The members that `spec` leaves to the schedule.
const NOT_IN_SPEC: [&str; 2] = ["project_id", "env_id"];

fn parse_spec(
    spec: &str,
    project: &ProjectId,
    env: &EnvId,
) -> Result<DeploymentRequest, FieldErrors> {
    let mut faults = FieldErrors::default();
    let mut members: std::collections::BTreeMap<String, canyon_domain::json::Json> =
        serde_json::from_str(spec).map_err(|_| {
            let mut faults = FieldErrors::default();
            faults.add("", "must be an object");
            faults
        })?;
    for name in NOT_IN_SPEC {
        if members.contains_key(name) {
            faults.add(name, "is that of the schedule; leave it out");
        }
    }
    let text = |text: &str| canyon_domain::json::Json::String(text.to_owned());
    members.insert("project_id".to_owned(), text(project.as_str()));
    members.insert("env_id".to_owned(), text(env.as_str()));
    members.entry("mode".to_owned()).or_insert_with(|| text("deploy"));
    let whole = serde_json::to_vec(&members).unwrap_or_default();
    let body: DeploymentCreateBody = match json::read(&whole) {
        Ok(body) => body,
        Err(JsonError::Field(fault)) => {
            faults.add(fault.path, fault.reason);
            return Err(faults);
        }
        Err(other) => return Err(other.without_values()),
    };
    if !matches!(body.mode, RequestedMode::Deploy | RequestedMode::PlanOnly) {
        faults.add("mode", "is `deploy` or `plan_only` here; to destroy, use `kind: destroy`");
    }
    if body.is_dry_run {
        faults.add("is_dry_run", "is not for schedules; leave it out");
    }
    let has_secrets = !body.secret_inputs.is_empty();
    let parsed = deployment_request::parse(body);
    let has_secrets =
        has_secrets || parsed.as_ref().is_ok_and(|order| !order.secret_inputs.is_empty());
    if has_secrets {
        faults.add(
            "secret_inputs",
            "is not for schedules, which everyone with a role here may read: keep the secret as a variable, or refer to a secret store",
        );
    }
    match parsed {
        Ok(order) => {
            if order.resource.as_ref().is_some_and(|wanted| wanted.job.is_none()) {
                let reason = "needs `container`: a schedule deploys no resource of a definition";
                faults.add("resource", reason);
            }
            faults.into_result(order)
        }
        Err(more) => {
            faults.add_under("", more);
            Err(faults)
        }
    }
}
