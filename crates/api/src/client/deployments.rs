//! Calls about deployments.

use super::{Client, ClientError};
use crate::approval::{ApproveBody, RejectBody};
use crate::attempt::Stream;
use crate::deployment::{
    Deployment, DeploymentCreateBody, DeploymentEncryptedOutputs, DeploymentQuery, IDEMPOTENCY_KEY,
    LOG_COMPLETE, NEXT_OFFSET, Orphan, Output,
};
use crate::page::{Page, PageQuery};
use crate::plan::{Plan, PlanQuery};
use bytes::Bytes;
use reqwest::Method;
use std::collections::BTreeMap;

/// A part of a stream.
#[derive(Clone, Debug)]
pub struct LogPart {
    /// Its bytes.
    pub bytes: Bytes,
    /// Offset of the next part.
    pub next_offset: u64,
    /// Whether this is the last part.
    pub complete: bool,
}

impl Client {
    /// Requests a deployment. The same `key` again returns the same deployment.
    ///
    /// # Errors
    ///
    /// 400 names the faulty field; 409 names the obstacle.
    pub async fn create_deployment(
        &self,
        body: &DeploymentCreateBody,
        key: &str,
    ) -> Result<Deployment, ClientError> {
        let request = self.request(Method::POST, &["deployments"]);
        self.read(request.header(IDEMPOTENCY_KEY, key).json(body)).await
    }

    /// One deployment.
    ///
    /// # Errors
    ///
    /// 404 if there is no such deployment.
    pub async fn deployment(&self, id: &str) -> Result<Deployment, ClientError> {
        let found = self.read(self.request(Method::GET, &["deployments", id])).await?;
        self.check_id(id, found)
    }

    /// Checks that `found` is the requested deployment; otherwise it answers another request.
    fn check_id(&self, id: &str, found: Deployment) -> Result<Deployment, ClientError> {
        if found.id.to_string() == id {
            return Ok(found);
        }
        Err(ClientError::not_canyon(&self.url, 200, "it is about another deployment"))
    }

    /// A page of the plan that Canyon keeps of a deployment.
    ///
    /// # Errors
    ///
    /// 404 if there is no such deployment, or no plan of it is kept.
    pub async fn plan(&self, id: &str, page: u32) -> Result<Plan, ClientError> {
        let request = self.request(Method::GET, &["deployments", id, "plan"]);
        self.read(request.query(&PlanQuery { page: Some(page) })).await
    }

    /// Deployments, newest first.
    ///
    /// # Errors
    ///
    /// No status of its own; see [`ClientError`].
    pub async fn deployments(
        &self,
        filter: &DeploymentQuery,
        page: &PageQuery,
    ) -> Result<Page<Deployment>, ClientError> {
        let request = self.request(Method::GET, &["deployments"]);
        self.read(request.query(filter).query(page)).await
    }

    /// Waits up to `seconds` (at most 25) for the end; `None` if the deployment has not ended.
    ///
    /// # Errors
    ///
    /// 404 if there is no such deployment.
    pub async fn wait(&self, id: &str, seconds: u32) -> Result<Option<Deployment>, ClientError> {
        let path = ["deployments", id, "actions", "wait-for-complete"];
        let request = self.request(Method::GET, &path);
        match self.read(request.query(&[("timeout_in_seconds", seconds)])).await {
            Ok(deployment) => self.check_id(id, deployment).map(Some),
            Err(error) if error.status() == Some(408) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Requests a cancel.
    ///
    /// # Errors
    ///
    /// 409 if the deployment has ended.
    pub async fn cancel(&self, id: &str) -> Result<Deployment, ClientError> {
        let path = ["deployments", id, "actions", "cancel"];
        let found = self.read(self.request(Method::POST, &path)).await?;
        self.check_id(id, found)
    }

    /// Approves the plan that a deployment waits with.
    ///
    /// # Errors
    ///
    /// 403 if the caller may not; 409 if the deployment waits for no approval, or its plan is another.
    pub async fn approve(&self, id: &str, body: &ApproveBody) -> Result<Deployment, ClientError> {
        let path = ["deployments", id, "actions", "approve"];
        self.check_id(id, self.write(Method::POST, &path, body).await?)
    }

    /// Rejects that plan.
    ///
    /// # Errors
    ///
    /// As [`Client::approve`].
    pub async fn reject(&self, id: &str, body: &RejectBody) -> Result<Deployment, ClientError> {
        let path = ["deployments", id, "actions", "reject"];
        self.check_id(id, self.write(Method::POST, &path, body).await?)
    }

    /// Ends a deployment whose plan is not to be applied.
    ///
    /// # Errors
    ///
    /// 409 if the deployment waits for no approval.
    pub async fn discard(&self, id: &str) -> Result<Deployment, ClientError> {
        let path = ["deployments", id, "actions", "discard"];
        let ended = self.read(self.request(Method::POST, &path)).await?;
        self.check_id(id, ended)
    }

    /// The part of a stream from `offset` on; waits up to `wait` seconds for new bytes.
    ///
    /// # Errors
    ///
    /// 404 if there is no such deployment.
    pub async fn log_part(
        &self,
        id: &str,
        stream: Stream,
        offset: u64,
        wait: u32,
    ) -> Result<LogPart, ClientError> {
        let request = self.request(Method::GET, &["deployments", id, "logs"]).query(&[
            ("stream", stream.as_str().to_owned()),
            ("offset", offset.to_string()),
            ("wait_seconds", wait.to_string()),
        ]);
        let answer = self.send(request).await?;
        let Some(next_offset) = answer.header(NEXT_OFFSET).and_then(|text| text.parse().ok())
        else {
            return Err(answer.foreign(&self.url, "it is not part of a log"));
        };
        if next_offset != offset + answer.body.len() as u64 {
            return Err(answer.foreign(&self.url, "it is another part of a log, or incomplete"));
        }
        let complete = answer.header(LOG_COMPLETE) == Some("true");
        let bytes = answer.body;
        Ok(LogPart { bytes, next_offset, complete })
    }

    /// Outputs in plaintext; sensitive ones have no value.
    ///
    /// # Errors
    ///
    /// 404 if there is no such deployment.
    pub async fn outputs(&self, id: &str) -> Result<BTreeMap<String, Output>, ClientError> {
        self.read(self.request(Method::GET, &["deployments", id, "outputs"])).await
    }

    /// All outputs, encrypted.
    ///
    /// # Errors
    ///
    /// 404 if none were stored.
    pub async fn encrypted_outputs(
        &self,
        id: &str,
    ) -> Result<DeploymentEncryptedOutputs, ClientError> {
        self.read(self.request(Method::GET, &["deployments", id, "encrypted-outputs"])).await
    }

    /// Resources that a killed run may have left.
    ///
    /// # Errors
    ///
    /// 404 if there is no such deployment.
    pub async fn orphans(&self, id: &str) -> Result<Vec<Orphan>, ClientError> {
        self.read(self.request(Method::GET, &["deployments", id, "orphans"])).await
    }
}
