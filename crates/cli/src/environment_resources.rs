//! The resources of an environment, which container jobs have created.

use crate::error::CliError;
use crate::hint;
use crate::resource::Resource;
use canyon_api::client::Client;
use canyon_api::environment::Environment;
use canyon_api::resource::Resource as ContainerResource;
use canyon_domain::resource_name::ResourceName;

/// The resources, the oldest first.
///
/// # Errors
///
/// If the environment cannot be read.
pub(crate) async fn read(
    client: &Client,
    environment: &Resource,
) -> Result<Vec<ContainerResource>, CliError> {
    let found = match client.get(&environment.path()).await {
        Ok(found) => found,
        Err(error) => return Err(environment.explain(client, error).await),
    };
    let found: Environment = serde_json::from_value(found)
        .map_err(|error| CliError::usage(format!("the answer is not an environment: {error}")))?;
    Ok(found.resources)
}

/// The resource `name`.
///
/// # Errors
///
/// [`CliError::Absent`] with the nearest name; or if the environment cannot be read.
pub(crate) async fn find(
    client: &Client,
    environment: &Resource,
    name: &str,
) -> Result<ContainerResource, CliError> {
    let wanted: ResourceName =
        name.parse().map_err(|error| CliError::usage(format!("--resource `{name}` {error}")))?;
    let wanted = wanted.to_string();
    let mut resources = read(client, environment).await?;
    if let Some(at) = resources.iter().position(|resource| resource.name == wanted) {
        return Ok(resources.swap_remove(at));
    }
    let names: Vec<_> = resources.into_iter().map(|resource| resource.name).collect();
    let message = format!("{} has no resource `{wanted}`", environment.full_name());
    let hint = match (hint::nearest(&wanted, &names), names.as_slice()) {
        (Some(nearest), _) => format!("did you mean `{nearest}`?"),
        (None, []) => {
            "it has none; container jobs create them: canyon deploy --container".to_owned()
        }
        (None, names) => format!("it has: {}", names.join(", ")),
    };
    Err(CliError::Absent { message, hint })
}

/// The deployment whose outputs the resource `name` has now.
///
/// # Errors
///
/// As [`find`]; [`CliError::Absent`] if it has no outputs.
pub(crate) async fn last_success(
    client: &Client,
    environment: &Resource,
    name: &str,
) -> Result<String, CliError> {
    let found = find(client, environment, name).await?;
    found.deployment_id.map(|id| id.to_string()).ok_or_else(|| CliError::Absent {
        message: format!(
            "the resource `{}` of {} has no outputs: no deployment for it has succeeded",
            found.name,
            environment.full_name()
        ),
        hint: "read how the latest one ended: canyon list deployments".to_owned(),
    })
}
