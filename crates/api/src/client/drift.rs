//! Calls about the drift of environments.

use super::{Client, ClientError};
use crate::deployment::Deployment;
use crate::drift::DriftDetails;
use reqwest::Method;

impl Client {
    /// The drift of an environment.
    ///
    /// # Errors
    ///
    /// 404 if there is no such environment.
    pub async fn drift(&self, project: &str, env: &str) -> Result<DriftDetails, ClientError> {
        let path = ["projects", project, "envs", env, "drift"];
        self.read(self.request(Method::GET, &path)).await
    }

    /// Begins a check of an environment, or returns the one that is open.
    ///
    /// # Errors
    ///
    /// 404 if there is no such environment; 409 while a deployment runs or waits there, or if nothing was deployed.
    pub async fn check_drift(&self, project: &str, env: &str) -> Result<Deployment, ClientError> {
        let path = ["projects", project, "envs", env, "drift", "actions", "check"];
        self.read(self.request(Method::POST, &path)).await
    }
}
