//! The values that a module gets for its variables: what Canyon keeps for the environment, what a job knows of itself,
//! and the inputs of the deployment, which take precedence.

use crate::declared_variables::{self, DeclaredVariables};
use canyon_domain::job::{Inputs, Job};
use canyon_domain::variable_scope::VariableScope;
use canyon_domain::variables::VariableKind;
use canyon_domain::variables::job::JobVariable;
use std::path::Path;

/// How alike two names are of which one may be a mistyped form of the other.
const ALIKE: f64 = 0.88;

/// The values, and what a module's author should know.
pub struct ModuleVariables {
    /// By name.
    pub values: Inputs,
    /// Warnings for the log.
    pub warnings: Vec<String>,
    /// The inputs of the deployment whose values are secret; `None` if that is not known.
    pub secret_inputs: Option<Vec<String>>,
}

/// The values for the module in `folder`.
pub fn of(folder: &Path, org: &str, job: &Job) -> ModuleVariables {
    let inputs = &job.bundle.module.inputs;
    let kept: Vec<_> =
        job.variables.iter().filter(|one| one.kind == VariableKind::Terraform).collect();
    let Some(declared) = declared_variables::of(folder) else {
        let mut values: Inputs =
            kept.iter().map(|one| (one.name.clone(), one.value.expose().clone())).collect();
        values.extend(inputs.clone());
        return ModuleVariables { values, warnings: Vec::new(), secret_inputs: None };
    };
    let context = context(org, job).into_iter().filter(|(name, _)| declared.contains_key(*name));
    let mut values: Inputs = context.map(|(name, value)| (name.to_owned(), value.into())).collect();
    let (passed, unknown): (Vec<_>, Vec<_>) =
        kept.into_iter().partition(|one| declared.contains_key(&one.name));
    values.extend(passed.into_iter().map(|one| (one.name.clone(), one.value.expose().clone())));
    values.extend(inputs.clone());
    let free: Vec<_> = declared.keys().filter(|name| !values.contains_key(*name)).collect();
    // What the person who deploys gives may be meant to replace a kept value.
    let given = |name: &String| {
        inputs.contains_key(name)
            || job
                .variables
                .iter()
                .any(|one| one.is_input && one.kind == VariableKind::Terraform && one.name == *name)
    };
    let replaceable: Vec<_> = declared.keys().filter(|name| !given(name)).collect();
    let of_kept = unknown.into_iter().filter_map(|variable| {
        undeclared(variable, if variable.is_input { &replaceable } else { &free })
    });
    let mut warnings: Vec<_> = of_kept.collect();
    let of_inputs = inputs.keys();
    warnings.extend(of_inputs.filter_map(|name| undeclared_input(name, &declared, &replaceable)));
    // What the module does not declare may be anything, such as a value for the wrong module.
    let is_secret = |name: &&String| declared.get(*name).is_none_or(|known| known.is_secret);
    let secret_inputs = Some(inputs.keys().filter(is_secret).cloned().collect());
    ModuleVariables { values, warnings, secret_inputs }
}

/// What a module can know of its own run. A module that declares a variable of such a name gets its value.
pub fn context<'a>(org: &'a str, job: &'a Job) -> Vec<(&'static str, String)> {
    let mut context = vec![
        ("canyon_org", org.to_owned()),
        ("canyon_project", job.project_id.to_string()),
        ("canyon_environment", job.env_id.to_string()),
        ("canyon_deployment", job.deployment_id.to_string()),
    ];
    // A Canyon of an earlier version does not name the type.
    context.extend(job.env_type_id.iter().map(|id| ("canyon_env_type", id.to_string())));
    context
}

/// The warning about a kept variable or a secret input that the module does not declare: always if it is for this environment
/// alone, else only if it may be mistyped.
fn undeclared(variable: &JobVariable, free: &[&String]) -> Option<String> {
    let JobVariable { name, from, is_input, .. } = variable;
    let text = if *is_input {
        format!("the module does not declare the variable `{name}`, a secret input")
    } else {
        format!("the module does not declare the variable `{name}` of {from}")
    };
    match (nearest(name, free), from) {
        (Some(near), _) => Some(format!("{text}; did you mean `{near}`?")),
        (None, _) if *is_input => Some(text),
        (None, VariableScope::Environment(..)) => Some(text),
        (None, _) => None,
    }
}

/// The same for an input. OpenTofu warns about it too, without the name that may be meant.
fn undeclared_input(name: &str, declared: &DeclaredVariables, free: &[&String]) -> Option<String> {
    let near = if declared.contains_key(name) { None } else { nearest(name, free) };
    near.map(|near| {
        format!("the module does not declare the variable `{name}`; did you mean `{near}`?")
    })
}

fn nearest<'a>(name: &str, free: &[&'a String]) -> Option<&'a str> {
    let alike = |other: &&'a String| strsim::jaro_winkler(name, other);
    let nearest = free.iter().copied().max_by(|a, b| alike(a).total_cmp(&alike(b)))?;
    (alike(&nearest) >= ALIKE).then_some(nearest.as_str())
}
