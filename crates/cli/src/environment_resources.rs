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

/// The deployment whose outputs the resource `name` has now.
pub(crate) async fn last_success(
    client: &Client,
    environment: &Resource,
    name: &str,
) -> Result<String, CliError> {
    let wanted: ResourceName =
        name.parse().map_err(|error| CliError::usage(format!("--resource `{name}` {error}")))?;
    let wanted = wanted.to_string();
    let resources = read(client, environment).await?;
    let full_name = environment.full_name();
    let Some(found) = resources.iter().find(|resource| resource.name == wanted) else {
        let names: Vec<_> = resources.into_iter().map(|resource| resource.name).collect();
        let message = format!("{full_name} has no resource `{wanted}`");
        let hint = match (hint::nearest(&wanted, &names), names.as_slice()) {
            (Some(nearest), _) => format!("did you mean `{nearest}`?"),
            (None, []) => {
                "it has none; container jobs create them: canyon deploy --container".to_owned()
            }
            (None, names) => format!("it has: {}", names.join(", ")),
        };
        return Err(CliError::Absent { message, hint });
    };
    found.deployment_id.map(|id| id.to_string()).ok_or_else(|| CliError::Absent {
        message: format!("the resource `{wanted}` of {full_name} has no outputs: no deployment for it has succeeded"),
        hint: "read how the latest one ended: canyon list deployments".to_owned(),
    })
}
