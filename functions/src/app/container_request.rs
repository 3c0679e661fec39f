//! Parses what a request wants of a resource, and notes its faults by their fields.

use super::container_jobs::ResourceRequest;
use super::deploy::DeploymentRequest;
use canyon_api::deployment::{DeploymentCreateBody, RequestedMode};
use canyon_domain::container::{ContainerJob, MAX_INPUTS};
use canyon_domain::deployment::Mode;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::resource_name::{InvalidResourceName, ResourceName};
use serde_json::Value;

/// The resource of a container job whose request names none.
const DEFAULT_RESOURCE: &str = "container";
/// Why a job cannot check its resource.
pub(super) const NO_CHECK: &str = "is required to plan: a container job has no plan, and only a program that you name can tell whether its resource has changed";

/// What the request wants of a resource; `None` if it is for a module, or faulty.
pub(super) fn parse(
    body: &DeploymentCreateBody,
    faults: &mut FieldErrors,
) -> Option<ResourceRequest> {
    let job = body.container.as_ref().and_then(|given| match ContainerJob::parse(given.clone()) {
        Ok(job) => Some(job),
        Err(found) => {
            faults.add_under("container", found);
            None
        }
    });
    if body.container.is_none() && body.resource.is_none() {
        if body.params.is_some() {
            faults.add("params", "needs `resource`");
        }
        return None;
    }
    let text = body.resource.as_deref().unwrap_or(DEFAULT_RESOURCE);
    let name: Result<ResourceName, InvalidResourceName> = text.parse();
    if let Err(error) = &name {
        faults.add("resource", error.to_string());
    }
    match body.mode {
        RequestedMode::Destroy if body.plan_only == Some(true) => {
            faults.add("plan_only", "does not go with `mode: destroy` of a resource: a container job can check it, and plans nothing");
        }
        RequestedMode::Deploy | RequestedMode::PlanOnly | RequestedMode::Destroy => {}
        RequestedMode::Rollback | RequestedMode::State | RequestedMode::Apply => {
            let field = if body.container.is_some() { "container" } else { "resource" };
            faults.add(field, "goes only with `mode: deploy` and `mode: destroy`");
        }
    }
    let is_plan = body.plan_only == Some(true) && body.mode == RequestedMode::Deploy;
    let is_check = is_plan || body.mode == RequestedMode::PlanOnly;
    if is_check && job.as_ref().is_some_and(|job| job.check.is_none()) {
        faults.add("container.check", NO_CHECK);
    }
    let of_requests =
        [("module", body.module.is_some()), ("secret_inputs", !body.secret_inputs.is_empty())];
    for (field, _) in of_requests.iter().filter(|(_, is_given)| *is_given) {
        faults.add(
            *field,
            "does not go with a resource: its container job, or its definition, says what runs",
        );
    }
    // A resource without a container job may be that of a module: its definition tells.
    if body.container.is_some() {
        let of_modules = [
            ("accept_state", body.accept_state),
            ("max_deletions", body.max_deletions.is_some()),
            ("targets", !body.targets.is_empty()),
            ("replace", !body.replace.is_empty()),
            ("parallelism", body.parallelism.is_some()),
        ];
        refuse_given(&of_modules, faults);
    }
    let is_defined = body.container.is_none() && body.mode == RequestedMode::Deploy && !is_check;
    if body.params.is_some() && !is_defined {
        faults.add(
            "params",
            "goes only with `mode: deploy`, without `plan_only`, and without `container`, which has `inputs` of its own",
        );
    }
    let length =
        body.params.as_ref().map_or(0, |params| Value::from(params.clone()).to_string().len());
    if length > MAX_INPUTS {
        faults.add("params", format!("have {length} bytes; {MAX_INPUTS} are allowed"));
    }
    let params = body.params.clone().unwrap_or_default();
    Some(ResourceRequest { name: name.ok()?, job, params })
}

/// The faults of a request to repeat a container job: only the deployment that a rollback names tells its kind.
pub(super) fn check_repetition(order: &DeploymentRequest) -> Result<(), FieldErrors> {
    let mut faults = FieldErrors::default();
    if order.plan_only && order.mode == Mode::Rollback {
        let reason = "does not go with a rollback of a container job, which has no plan: Canyon cannot know what its program would do";
        faults.add("plan_only", reason);
    }
    let options = &order.options;
    let of_modules = [
        ("accept_state", order.accept_state),
        ("max_deletions", order.max_deletions.is_some()),
        ("targets", !options.targets.is_empty()),
        ("replace", !options.replace.is_empty()),
        ("parallelism", options.parallelism.is_some()),
    ];
    refuse_given(&of_modules, &mut faults);
    faults.into_result(())
}

/// Refuses the fields, if they are given, that only a module has a use for.
fn refuse_given(of_modules: &[(&str, bool)], faults: &mut FieldErrors) {
    for (field, _) in of_modules.iter().filter(|(_, is_given)| *is_given) {
        faults.add(*field, "does not go with a container job, which runs no module");
    }
}
