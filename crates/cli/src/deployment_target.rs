//! The arguments of commands for one deployment: its id, or an environment whose latest deployment is meant.

use crate::deployment_history;
use crate::deployment_id;
use crate::error::CliError;
use crate::output::Output;
use crate::resource::Resource;
use canyon_api::client::Client;
use canyon_api::deployment::DeploymentQuery;

/// The deployment.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct DeploymentTarget {
    /// The deployment's id, or its first or last characters; or the project of an environment
    #[arg(value_name = "DEPLOYMENT|PROJECT")]
    deployment: String,
    /// The environment: its latest deployment
    #[arg(value_name = "ENVIRONMENT")]
    environment: Option<String>,
}

impl DeploymentTarget {
    /// The environment, if the arguments name one.
    pub(crate) fn environment(&self) -> Option<Resource> {
        let environment = self.environment.as_ref()?;
        Some(Resource::environment(self.deployment.clone(), environment.clone()))
    }

    /// The id of the deployment. If the arguments name an environment, a line on stderr shows the id.
    pub(crate) async fn id(&self, client: &Client, output: Output) -> Result<String, CliError> {
        let Some(environment) = self.environment() else {
            return of_id(client, &self.deployment).await;
        };
        let latest = deployment_history::latest(client, &environment).await?;
        output.notice(&format!("deployment {}", latest.id));
        Ok(latest.id.to_string())
    }
}

/// The whole id of the deployment that `given` names in the organization.
pub(crate) async fn of_id(client: &Client, given: &str) -> Result<String, CliError> {
    let id = deployment_id::resolve(client, given, &DeploymentQuery::default()).await?;
    Ok(id.to_string())
}
