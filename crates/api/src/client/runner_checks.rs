//! Calls about checks of runners.

use super::{Client, ClientError};
use crate::runner_check::{CheckQuery, RunnerCheck, RunnerTrust};
use reqwest::Method;

impl Client {
    /// What to configure so that clouds trust a runner.
    ///
    /// # Errors
    ///
    /// 404 if there is no such runner.
    pub async fn runner_trust(&self, runner: &str) -> Result<RunnerTrust, ClientError> {
        self.read(self.request(Method::GET, &["runners", runner, "trust"])).await
    }

    /// Requests a check. If the runner has an unfinished check, returns that one.
    ///
    /// # Errors
    ///
    /// 404 if there is no such runner; 409 if an agent launches its jobs.
    pub async fn check_runner(&self, runner: &str) -> Result<RunnerCheck, ClientError> {
        self.read(self.request(Method::POST, &["runners", runner, "actions", "check"])).await
    }

    /// A check, as soon as it has more steps than `query` names.
    ///
    /// # Errors
    ///
    /// 404 if another check has replaced it.
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
