//! A warning about variables in a runner's definition that may be secrets.

use crate::output::Output;
use canyon_domain::secret_name::is_secret_name;
use serde_json::Value;

/// Warns about variables of `job.environment` whose names are those of secrets: every reader of the runner sees them.
pub(super) fn warn(runner: &Value, output: Output) {
    let id = runner["id"].as_str().unwrap_or("RUNNER");
    let environment = runner["runner_configuration"]["job"]["environment"].as_object();
    let names = environment.into_iter().flatten().map(|(name, _)| name.as_str());
    let exposed: Vec<_> = names.filter(|name| is_secret_name(name)).collect();
    let Some(first) = exposed.first() else { return };
    output.notice(&format!(
        "warning: every reader of runner `{id}` sees `{}` of `job.environment`; if that is a secret, move it: \
         canyon set variable --runner {id} --kind environment --secret {first}",
        exposed.join("`, `"),
    ));
}
