//! What a runner calls.

use super::{Client, ClientError};
use crate::attempt::{
    ClaimBody, Claimed, DeploymentResultsUpdateBody, JudgeLockAnswer, JudgeLockBody, ReportAnswer,
    ReportBody,
};
use crate::job_token::{IssueTokenBody, IssuedToken};
use reqwest::Method;

impl Client {
    /// Claims attempt `number` of a deployment. The client's token is the claim code.
    ///
    /// # Errors
    ///
    /// 409 when another runner has claimed it or it is over.
    pub async fn claim(
        &self,
        deployment: &str,
        number: u32,
        body: &ClaimBody,
    ) -> Result<Claimed, ClientError> {
        let number = number.to_string();
        self.write(Method::POST, &["deployments", deployment, "attempts", &number, "claim"], body)
            .await
    }

    /// Says that the run lives, and ships what was written.
    ///
    /// # Errors
    ///
    /// 409 when the attempt is over.
    pub async fn report(
        &self,
        deployment: &str,
        number: u32,
        body: &ReportBody,
    ) -> Result<ReportAnswer, ClientError> {
        let number = number.to_string();
        self.write(Method::POST, &["deployments", deployment, "attempts", &number, "report"], body)
            .await
    }

    /// Asks what is to be done about a lock that is in the run's way.
    ///
    /// # Errors
    ///
    /// 409 when the attempt is over.
    pub async fn judge_lock(
        &self,
        deployment: &str,
        number: u32,
        body: &JudgeLockBody,
    ) -> Result<JudgeLockAnswer, ClientError> {
        let number = number.to_string();
        let path = ["deployments", deployment, "attempts", &number, "actions", "judge-lock"];
        self.write(Method::POST, &path, body).await
    }

    /// Gets a token of the job, for a cloud that trusts Canyon's issuer.
    ///
    /// # Errors
    ///
    /// 403 when the runner's definition names no such audience, or the deployment only plans. 409 when
    /// the attempt is over, or has not begun to apply.
    pub async fn issue_token(
        &self,
        deployment: &str,
        number: u32,
        body: &IssueTokenBody,
    ) -> Result<IssuedToken, ClientError> {
        let number = number.to_string();
        let path = ["deployments", deployment, "attempts", &number, "actions", "issue-token"];
        self.write(Method::POST, &path, body).await
    }

    /// Says how the run ended.
    ///
    /// # Errors
    ///
    /// 409 when the attempt was over before.
    pub async fn post_result(
        &self,
        deployment: &str,
        body: &DeploymentResultsUpdateBody,
    ) -> Result<(), ClientError> {
        let request = self.request(Method::POST, &["deployments", deployment, "results"]);
        self.send(request.json(body)).await.map(drop)
    }
}
