//! Calls about the git credentials that an organization keeps.

use super::{Client, ClientError};
use crate::git_credential::{GitCredentials, GitCredentialsUpdateBody};
use reqwest::Method;

impl Client {
    /// The git credentials of the organization, or of a project or a group of projects.
    ///
    /// # Errors
    ///
    /// 404 if the project does not exist.
    pub async fn git_credentials(
        &self,
        project: Option<&str>,
    ) -> Result<GitCredentials, ClientError> {
        self.read(self.request(Method::GET, &path(project))).await
    }

    /// Changes the git credentials of the organization, or of a project or a group of projects.
    ///
    /// # Errors
    ///
    /// 400 names each faulty credential; 404 if the project does not exist; 409 if there would be too many.
    pub async fn update_git_credentials(
        &self,
        project: Option<&str>,
        body: &GitCredentialsUpdateBody,
    ) -> Result<GitCredentials, ClientError> {
        self.write(Method::PATCH, &path(project), body).await
    }
}

fn path(project: Option<&str>) -> Vec<&str> {
    let project = project.into_iter().flat_map(|project| ["projects", project]);
    project.chain(["git-credentials"]).collect()
}
