//! Parses a request to deploy. The API and the event bus receive the same form.

use super::container_request;
use super::deploy::DeploymentRequest;
use super::state_command_request;
use canyon_api::deployment::{DeploymentCreateBody, RequestedMode, Supersede};
use canyon_domain::age_recipients::{self, MAX_RECIPIENTS};
use canyon_domain::container::ContainerJob;
use canyon_domain::deployment::Mode;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{DeploymentId, EnvId, InvalidId, ProjectId};
use canyon_domain::job::{NO_VARIABLE_NAME, is_variable_name};
use canyon_domain::json::Json;
use canyon_domain::plan_options::PlanOptions;
use canyon_domain::requested_role::{RequestedRole, reason_fault};
use canyon_domain::run_context;
use canyon_domain::variables::edit::secret_value_fault;
use serde_json::Value;

/// The request in a body, or all of its faults.
pub(crate) fn parse(body: DeploymentCreateBody) -> Result<DeploymentRequest, FieldErrors> {
    let mut faults = FieldErrors::default();
    let project: Result<ProjectId, _> = body.project_id.parse();
    let env: Result<EnvId, _> = body.env_id.parse();
    if let Err(error) = &project {
        faults.add("project_id", error.to_string());
    }
    if let Err(error) = &env {
        faults.add("env_id", error.to_string());
    }
    if !body.manifest.as_ref().is_none_or(is_empty_manifest) {
        faults.add(
            "manifest",
            "only a manifest without workloads and shared resources is accepted; give the code to \
             deploy in `module`",
        );
    }
    for (field, recipient) in [
        ("encrypted_outputs_recipient", &body.encrypted_outputs_recipient),
        ("encrypted_logs_recipient", &body.encrypted_logs_recipient),
    ] {
        if let Some(reason) = recipient.as_ref().and_then(|text| recipients_fault(text)) {
            faults.add(field, reason);
        }
    }
    if body.rollback_to_deployment_id.is_some() && body.mode != RequestedMode::Rollback {
        faults.add("rollback_to_deployment_id", "only `mode: rollback` takes it");
    }
    check_plan_to_apply(&body, &mut faults);
    check_review_and_superseding(&body, &mut faults);
    if body.mode == RequestedMode::PlanOnly && body.plan_only == Some(false) {
        faults.add("plan_only", "`mode: plan_only` contradicts it");
    }
    let state_command = state_command_request::parse(&body, &mut faults);
    if body.mode == RequestedMode::Destroy && !body.replace.is_empty() {
        faults.add("replace", "does not go with `mode: destroy`, which creates nothing");
    }
    for (name, value) in body.module.iter().flat_map(|module| &module.inputs) {
        let shown: String = name.chars().take(60).collect();
        run_context::check(&format!("module.inputs[{shown:?}]"), value, &mut faults);
    }
    let mut resource = container_request::parse(&body, &mut faults);
    check_secret_inputs(&body, &mut faults);
    let of_container = resource.as_mut().and_then(|wanted| wanted.job.as_mut());
    let of_container = of_container.map(ContainerJob::take_secret_values).unwrap_or_default();
    let options = PlanOptions::read(&body.targets, &body.replace, body.parallelism, &mut faults);
    let agent = body.agent.map(|agent| agent.parse()).transpose();
    let agent = agent.unwrap_or_else(|error: InvalidId| {
        faults.add("agent", error.to_string());
        None
    });
    let role = requested_role(body.role.as_deref(), body.reason, &mut faults);
    let (Ok(project), Ok(env)) = (project, env) else { return Err(faults) };
    let order = DeploymentRequest {
        project,
        env,
        mode: match body.mode {
            // The mode of the plan replaces that of `apply`.
            RequestedMode::Deploy | RequestedMode::PlanOnly | RequestedMode::Apply => Mode::Deploy,
            RequestedMode::Destroy => Mode::Destroy,
            RequestedMode::Rollback => Mode::Rollback,
            RequestedMode::State => Mode::State,
        },
        // A command that only reads counts as a plan: it changes nothing.
        plan_only: match &state_command {
            Some(command) => !command.changes_state(),
            None => body.plan_only.unwrap_or(body.mode == RequestedMode::PlanOnly),
        },
        module: body.module,
        resource,
        secret_inputs: body.secret_inputs.into_iter().chain(of_container).collect(),
        priority: body.priority.unwrap_or_default(),
        agent,
        role,
        accept_state: body.accept_state,
        max_deletions: body.max_deletions,
        rollback_to: body.rollback_to_deployment_id.map(DeploymentId),
        plan_of: body.plan_deployment_id.map(DeploymentId),
        encrypted_outputs_recipient: body.encrypted_outputs_recipient,
        encrypted_logs_recipient: body.encrypted_logs_recipient,
        log_level: body.runner_log_level.unwrap_or_default(),
        options,
        state_command,
        asks_approval: body.approval.is_some(),
        supersedes: body.supersede == Some(Supersede::Queued),
        reconciles: false,
    };
    faults.into_result(order)
}

/// A kept plan determines what its apply does.
fn check_plan_to_apply(body: &DeploymentCreateBody, faults: &mut FieldErrors) {
    if body.mode != RequestedMode::Apply {
        if body.plan_deployment_id.is_some() {
            faults.add("plan_deployment_id", "only `mode: apply` takes it");
        }
        return;
    }
    if body.plan_deployment_id.is_none() {
        faults.add("plan_deployment_id", "is required: the deployment whose plan to apply");
    }
    let given = [
        ("plan_only", body.plan_only == Some(true)),
        ("module", body.module.is_some()),
        ("resource", body.resource.is_some()),
        ("targets", !body.targets.is_empty()),
        ("replace", !body.replace.is_empty()),
        ("parallelism", body.parallelism.is_some()),
    ];
    for (field, _) in given.iter().filter(|(_, is_given)| *is_given) {
        faults.add(*field, "does not go with `mode: apply`: the plan determines it");
    }
}

/// What has no plan that is applied needs no approval; and only a whole deploy makes an earlier one needless.
fn check_review_and_superseding(body: &DeploymentCreateBody, faults: &mut FieldErrors) {
    let plans_only = body.plan_only == Some(true) || body.mode == RequestedMode::PlanOnly;
    if body.approval.is_some() {
        let reason = match body.mode {
            RequestedMode::State => Some("does not go with `mode: state`, which has no plan"),
            _ if plans_only => Some("does not go with a plan: approve its `apply`"),
            _ if body.container.is_some() => {
                Some("does not go with `container`, which has no plan")
            }
            _ => None,
        };
        if let Some(reason) = reason {
            faults.add("approval", reason);
        }
    }
    if body.supersede == Some(Supersede::Queued) {
        let is_partial = !body.targets.is_empty() || !body.replace.is_empty();
        if body.mode != RequestedMode::Deploy || plans_only || is_partial {
            let reason = "`queued` goes only with `mode: deploy`, without `plan_only`, `targets` and `replace`";
            faults.add("supersede", reason);
        }
    }
}

/// The role that a request asks for.
fn requested_role(
    name: Option<&str>,
    reason: Option<String>,
    faults: &mut FieldErrors,
) -> Option<RequestedRole> {
    if let Some(fault) = reason.as_deref().and_then(reason_fault) {
        faults.add("reason", fault);
    }
    let Some(name) = name else {
        if reason.is_some() {
            faults.add("reason", "needs `role`: it says why the run needs that role");
        }
        return None;
    };
    let name = name.parse().map_err(|error: InvalidId| faults.add("role", error.to_string()));
    Some(RequestedRole { name: name.ok()?, reason })
}

/// What is wrong with the `age` public keys in `text`.
fn recipients_fault(text: &str) -> Option<String> {
    let keys: Vec<_> = age_recipients::split(text).collect();
    if keys.len() > MAX_RECIPIENTS {
        return Some(format!("has at most {MAX_RECIPIENTS} `age` public keys"));
    }
    let is_key = |key: &&str| key.parse::<age::x25519::Recipient>().is_ok();
    let wrong = keys.iter().position(|key| !is_key(key));
    wrong.map(|at| match keys.len() {
        1 => "is not an `age` public key (age1...)".to_owned(),
        _ => format!("has no `age` public key (age1...) at position {} between its commas", at + 1),
    })
}

fn check_secret_inputs(body: &DeploymentCreateBody, faults: &mut FieldErrors) {
    let DeploymentCreateBody { secret_inputs, module, .. } = body;
    if module.is_none() && !secret_inputs.is_empty() {
        faults.add(
            "secret_inputs",
            "needs `module`; without one, the run has the inputs of the deployment that it repeats or destroys",
        );
    }
    for (name, value) in secret_inputs {
        let shown: String = name.chars().take(60).collect();
        let path = format!("secret_inputs[{shown:?}]");
        if !is_variable_name(name) {
            faults.add(&path, NO_VARIABLE_NAME);
        }
        if module.as_ref().is_some_and(|module| module.inputs.contains_key(name)) {
            faults.add(&path, "is also in `module.inputs`; give it once");
        }
        let fault = match value.expose() {
            Json::Null => Some("is `null`; leave it out".to_owned()),
            value => secret_value_fault(value),
        };
        if let Some(fault) = fault {
            faults.add(&path, fault);
        }
    }
}

fn is_empty_manifest(manifest: &Value) -> bool {
    let empty = |value: &Value| value.as_object().is_some_and(serde_json::Map::is_empty);
    manifest.as_object().is_some_and(|members| {
        members
            .iter()
            .all(|(name, value)| matches!(name.as_str(), "workloads" | "shared") && empty(value))
    })
}
