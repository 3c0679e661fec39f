//! Reads deployments from the newest on, page by page, up to a bound.

use crate::error::CliError;
use crate::resource::Resource;
use canyon_api::client::{Client, ClientError};
use canyon_api::deployment::{Deployment, DeploymentQuery};
use canyon_api::page::PageQuery;
use std::collections::VecDeque;

/// How many deployments a command searches. A page has at most 100, so this is at least ten requests.
pub(crate) const MAX_SEARCHED: usize = 1_000;

/// The deployments of an organization, a project or an environment, newest first.
pub(crate) struct DeploymentHistory<'c> {
    client: &'c Client,
    filter: DeploymentQuery,
    per_page: u32,
    /// What a page had beyond the deployment that was returned last.
    read: VecDeque<Deployment>,
    /// The token of the next page.
    next_page: Option<String>,
    is_at_end: bool,
    returned: usize,
}

impl<'c> DeploymentHistory<'c> {
    /// A history that reads `per_page` deployments per request.
    pub(crate) fn new(client: &'c Client, filter: DeploymentQuery, per_page: u32) -> Self {
        let (read, next_page) = (VecDeque::new(), None);
        Self { client, filter, per_page, read, next_page, is_at_end: false, returned: 0 }
    }

    /// The next older deployment; `None` at the end, and after [`MAX_SEARCHED`] deployments.
    ///
    /// # Errors
    ///
    /// The client's error.
    pub(crate) async fn next(&mut self) -> Result<Option<Deployment>, ClientError> {
        // If the caller may read only some deployments, a page may be empty although another one follows.
        while self.read.is_empty() && !self.is_at_end && self.returned < MAX_SEARCHED {
            let page = PageQuery { per_page: Some(self.per_page), page: self.next_page.take() };
            let answer = self.client.deployments(&self.filter, &page).await?;
            self.read = answer.items.into();
            self.next_page = answer.next_page_token;
            self.is_at_end = self.next_page.is_none();
        }
        if self.returned == MAX_SEARCHED {
            return Ok(None);
        }
        let next = self.read.pop_front();
        self.returned += usize::from(next.is_some());
        Ok(next)
    }

    /// Whether the bound has ended the search, so that there may be older deployments.
    pub(crate) fn is_cut(&self) -> bool {
        self.returned == MAX_SEARCHED && !(self.is_at_end && self.read.is_empty())
    }
}

/// The filter for the deployments of `environment`.
pub(crate) fn filter_of(environment: &Resource) -> DeploymentQuery {
    DeploymentQuery {
        project_id: environment.project.clone(),
        env_id: Some(environment.id.clone()),
        ..DeploymentQuery::default()
    }
}

/// The newest deployment of `environment`.
///
/// # Errors
///
/// [`CliError::Explained`] with the nearest name if there is no such environment; [`CliError::Absent`] if it
/// has no deployment.
pub(crate) async fn latest(
    client: &Client,
    environment: &Resource,
) -> Result<Deployment, CliError> {
    match DeploymentHistory::new(client, filter_of(environment), 1).next().await? {
        Some(latest) => Ok(latest),
        None => Err(no_deployment(client, environment).await),
    }
}

/// Why the list of an environment's deployments is empty.
pub(crate) async fn no_deployment(client: &Client, environment: &Resource) -> CliError {
    if let Err(error) = client.get(&environment.path()).await {
        return environment.explain(client, error).await;
    }
    let name = environment.full_name();
    let project = environment.project.as_deref().unwrap_or_default();
    CliError::Absent {
        message: format!("environment {name} has no deployment yet"),
        hint: format!("deploy to it: canyon deploy {project} {} --module ./FOLDER", environment.id),
    }
}
