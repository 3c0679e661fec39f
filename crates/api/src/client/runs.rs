//! Calls of a runner.

use super::{Client, ClientError};
use crate::attempt::{
    ANSWER_OF, ClaimBody, Claimed, DeploymentResultsUpdateBody, ENVIRONMENT_OF, JOB_FORMAT,
    JudgeLockAnswer, JudgeLockBody, RESULT_OF, ReportAnswer, ReportBody, result_of,
};
use crate::job_token::{IssueTokenBody, IssuedToken};
use bytes::Bytes;
use canyon_domain::job::FORMAT;
use canyon_domain::plan_task::PlanPiece;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Method, RequestBuilder};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Time limit of a report. If the network loses it, the next report still comes within the lease.
const REPORT_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of a piece of a plan: 4 MiB.
const TRANSFER_TIMEOUT: Duration = Duration::from_mins(2);
const BYTES: &str = "application/octet-stream";

impl Client {
    /// Claims attempt `number` of a deployment. The client's token is the claim code.
    ///
    /// # Errors
    ///
    /// 409 if another runner has claimed it or it is over.
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

    /// The answer to the runner of this attempt. An answer for another attempt is
    /// [`ClientError::NotCanyon`].
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

    /// Sends a heartbeat with new output.
    ///
    /// # Errors
    ///
    /// 409 if the attempt is over.
    pub async fn report(
        &self,
        deployment: &str,
        number: u32,
        body: &ReportBody,
    ) -> Result<ReportAnswer, ClientError> {
        let path = ["deployments", deployment, "attempts", &number.to_string(), "report"];
        let request = self.request(Method::POST, &path).timeout(REPORT_TIMEOUT);
        self.answer_of(request.json(body), deployment, number).await
    }

    /// Requests a decision about a lock that blocks the run.
    ///
    /// # Errors
    ///
    /// 409 if the attempt is over.
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
        Err(ClientError::not_canyon(&self.url, 200, "it is about another lock"))
    }

    /// Requests a token of the job for a cloud that trusts Canyon's issuer.
    ///
    /// # Errors
    ///
    /// 403 if the runner's definition does not name the audience, or the deployment only plans. 409
    /// if the attempt is over or has not started to apply.
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
        Err(ClientError::not_canyon(&self.url, 200, "it is a token with another audience or phase"))
    }

    /// Stores a piece of the plan of attempt `number`, encrypted. Idempotent: a stored piece stays as it is.
    ///
    /// # Errors
    ///
    /// 409 if the attempt is over, or its plan is not kept.
    pub async fn put_plan_piece(
        &self,
        deployment: &str,
        number: u32,
        piece: PlanPiece,
        sealed: Bytes,
    ) -> Result<(), ClientError> {
        let (of, piece) = (number.to_string(), piece.to_string());
        let path = ["deployments", deployment, "attempts", &of, "plan", &piece];
        let request = self.request(Method::PUT, &path).timeout(TRANSFER_TIMEOUT);
        let answer = self.send(request.header(CONTENT_TYPE, BYTES).body(sealed)).await?;
        if answer.header(ANSWER_OF) == Some(&result_of(deployment, number)) {
            return Ok(());
        }
        Err(answer.foreign(&self.url, "it is not for this attempt"))
    }

    /// A piece of the plan that attempt `number` applies, encrypted.
    ///
    /// # Errors
    ///
    /// 409 if the attempt is over, or it applies no kept plan; 404 if the piece is not stored.
    pub async fn plan_piece(
        &self,
        deployment: &str,
        number: u32,
        piece: PlanPiece,
    ) -> Result<Bytes, ClientError> {
        let (of, piece) = (number.to_string(), piece.to_string());
        let path = ["deployments", deployment, "attempts", &of, "plan", &piece];
        let answer = self.send(self.request(Method::GET, &path).timeout(TRANSFER_TIMEOUT)).await?;
        if answer.header(ANSWER_OF) == Some(&result_of(deployment, number)) {
            return Ok(answer.body);
        }
        Err(answer.foreign(&self.url, "it is not for this attempt"))
    }

    /// Sends the result of attempt `number`. Canyon has accepted it only if the answer names the
    /// attempt: a success from a proxy is [`ClientError::NotCanyon`].
    ///
    /// # Errors
    ///
    /// 409 if the attempt was already over.
    pub async fn post_result(
        &self,
        deployment: &str,
        number: u32,
        environment: &str,
        body: &DeploymentResultsUpdateBody,
    ) -> Result<(), ClientError> {
        let request = self.request(Method::POST, &["deployments", deployment, "results"]);
        let request = request.header(ENVIRONMENT_OF, environment);
        let answer = self.send(request.json(body)).await?;
        if answer.header(RESULT_OF) == Some(&result_of(deployment, number)) {
            return Ok(());
        }
        Err(answer.foreign(&self.url, "it does not confirm the result"))
    }
}
