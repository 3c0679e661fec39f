//! The environment of the program of a container job.

use super::contract::{Contract, action};
use crate::environment::{
    Variables, add_read_token, of_context, of_identity, remove_identity_overrides, set,
};
use crate::{inherited_variables::is_canyons, settings::Settings, workspace::Workspace};
use canyon_domain::container::ContainerTask;
use canyon_domain::job::Job;
use canyon_domain::job_identity::TokenPhase;
use canyon_domain::variables::job::JobVariable;
use secrecy::SecretString;
use std::ffi::{OsStr, OsString};

/// The variables of the container, then those that are nearer to the job, and last what the runner itself says: of two with
/// the same name, the last one counts.
pub(super) fn of_program(
    settings: &Settings,
    workspace: &Workspace,
    job: &Job,
    task: &ContainerTask,
    contract: &Contract,
    read_token: Option<&SecretString>,
) -> Variables {
    let mut variables = settings.of_container.clone();
    add_read_token(&mut variables, settings, read_token);
    remove_identity_overrides(&mut variables, job);
    let of_definition = job.environment.iter().filter(|(name, _)| !is_canyons(name.as_ref()));
    variables.extend(of_definition.map(|(name, value)| set(name, value.as_ref())));
    let kept = job.variables.iter().filter_map(JobVariable::environment);
    variables.extend(kept.map(|(name, value)| set(name, value.as_ref())));
    let own = task.job.variables.iter().flatten();
    variables.extend(own.map(|(name, value)| set(name, value.as_ref())));
    let secret = task.job.secret_variables.iter().flatten();
    let secret = secret.filter_map(|(name, secret)| Some(set(name, secret.value()?.as_ref())));
    variables.extend(secret);
    let phase = if job.plan_only { TokenPhase::Plan } else { TokenPhase::Apply };
    variables.extend(of_identity(workspace, job, phase));
    variables.extend(contract.variables(action(job), &task.job));
    variables.extend(of_context(settings, job));
    let (attempt, resource) = (job.attempt.to_string(), task.resource.to_string());
    variables.extend([
        set("CANYON_ATTEMPT", attempt.as_ref()),
        set("CANYON_RESOURCE", resource.as_ref()),
    ]);
    variables
}

/// The value of the variable `name`.
pub(super) fn value<'a>(variables: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    let found = variables.iter().rev().find(|(other, _)| other == name);
    found.map(|(_, value)| value.as_os_str())
}
