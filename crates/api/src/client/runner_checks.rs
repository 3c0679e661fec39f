//! Checking runners.

use super::{Client, ClientError};
use crate::runner_check::{CheckQuery, RunnerCheck, RunnerTrust};
use reqwest::Method;

impl Client {
    /// What to configure so that clouds trust a runner.
    ///
    /// # Errors
    ///
    /// 404 when there is no such runner.
    pub async fn runner_trust(&self, runner: &str) -> Result<RunnerTrust, ClientError> {
        self.read(self.request(Method::GET, &["runners", runner, "trust"])).await
    }

    /// Asks for a check; while one is open, that is it.
    ///
    /// # Errors
    ///
    /// 404 when there is no such runner; 409 when an agent launches its jobs.
    pub async fn check_runner(&self, runner: &str) -> Result<RunnerCheck, ClientError> {
        self.read(self.request(Method::POST, &["runners", runner, "actions", "check"])).await
    }

    /// A check, as soon as there is more news of it than `query` says is known.
    ///
    /// # Errors
    ///
    /// 404 when another check has taken its place.
    pub async fn runner_check(
        &self,
        runner: &str,
        check: &str,
        query: &CheckQuery,
    ) -> Result<RunnerCheck, ClientError> {
        let request = self.request(Method::GET, &["runners", runner, "checks", check]);
        self.read(request.query(query)).await
    }
}
