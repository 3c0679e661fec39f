//! What a runner calls.

use super::{Client, ClientError};
use crate::attempt::{
    ANSWER_OF, ClaimBody, Claimed, DeploymentResultsUpdateBody, JOB_FORMAT, JudgeLockAnswer,
    JudgeLockBody, RESULT_OF, ReportAnswer, ReportBody, result_of,
};
use crate::job_token::{IssueTokenBody, IssuedToken};
use canyon_domain::job::FORMAT;
use reqwest::{Method, RequestBuilder};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// How long a report may take. On a line that swallows it, the next one is still within the lease.
const REPORT: Duration = Duration::from_secs(30);

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
        let path = ["deployments", deployment, "attempts", &number.to_string(), "claim"];
        let claim = self.request(Method::POST, &path).header(JOB_FORMAT, FORMAT);
        self.answer_of(claim.json(body), deployment, number).await
    }

    /// What is answered to the runner of this attempt. What is for another is [`ClientError::Foreign`].
    async fn answer_of<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        deployment: &str,
        number: u32,
    ) -> Result<T, ClientError> {
        let answer = self.send(request).await?;
        if answer.header(ANSWER_OF) != Some(&result_of(deployment, number)) {
            return Err(answer.foreign(&self.url, "it is not for this attempt"));
        }
        self.parsed(&answer)
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
        let path = ["deployments", deployment, "attempts", &number.to_string(), "report"];
        let request = self.request(Method::POST, &path).timeout(REPORT);
        self.answer_of(request.json(body), deployment, number).await
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
        let of = number.to_string();
        let path = ["deployments", deployment, "attempts", &of, "actions", "judge-lock"];
        let request = self.request(Method::POST, &path).json(body);
        let judged: JudgeLockAnswer = self.answer_of(request, deployment, number).await?;
        if judged.id == body.id {
            return Ok(judged);
        }
        Err(ClientError::foreign(&self.url, 200, "it judges another lock"))
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
        let of = number.to_string();
        let path = ["deployments", deployment, "attempts", &of, "actions", "issue-token"];
        let request = self.request(Method::POST, &path).json(body);
        let issued: IssuedToken = self.answer_of(request, deployment, number).await?;
        if issued.audience == body.audience && issued.phase == body.phase {
            return Ok(issued);
        }
        Err(ClientError::foreign(&self.url, 200, "it is a token for something else"))
    }

    /// Says how attempt `number` ended. Canyon has taken it only if the answer says of which attempt
    /// it took a result: a success of something else on the way is [`ClientError::Foreign`].
    ///
    /// # Errors
    ///
    /// 409 when the attempt was over before.
    pub async fn post_result(
        &self,
        deployment: &str,
        number: u32,
        body: &DeploymentResultsUpdateBody,
    ) -> Result<(), ClientError> {
        let request = self.request(Method::POST, &["deployments", deployment, "results"]);
        let answer = self.send(request.json(body)).await?;
        if answer.header(RESULT_OF) == Some(&result_of(deployment, number)) {
            return Ok(());
        }
        Err(answer.foreign(&self.url, "it does not say that Canyon has taken the result"))
    }
}
