//! Calls about agents, and calls of agents.

use super::{Client, ClientError};
use crate::agent::{
    AgentQuery, AgentUpdateBody, AgentView, OpenSession, Poll, Reports, ReportsTaken,
    SessionOpened, TakeJobs, TakenJobs, Work,
};
use crate::page::{Page, PageQuery};
use reqwest::{Method, RequestBuilder};
use std::time::Duration;

/// Time limit of an agent's request, in addition to the time that a poll waits.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);

/// Calls of users.
impl Client {
    /// A page of the agents.
    ///
    /// # Errors
    ///
    /// No status of its own; see [`ClientError`].
    pub async fn agents(
        &self,
        page: &PageQuery,
        query: &AgentQuery,
    ) -> Result<Page<AgentView>, ClientError> {
        self.read(self.request(Method::GET, &["agents"]).query(page).query(query)).await
    }

    /// An agent.
    ///
    /// # Errors
    ///
    /// 404 if there is no agent of that name.
    pub async fn agent(&self, id: &str) -> Result<AgentView, ClientError> {
        self.read(self.request(Method::GET, &["agents", id])).await
    }

    /// Changes an agent.
    ///
    /// # Errors
    ///
    /// 404 if there is no agent of that name.
    pub async fn update_agent(
        &self,
        id: &str,
        body: &AgentUpdateBody,
    ) -> Result<AgentView, ClientError> {
        self.write(Method::PATCH, &["agents", id], body).await
    }

    /// Adopts an agent, which may then work.
    ///
    /// # Errors
    ///
    /// 404 if there is no agent of that name.
    pub async fn adopt_agent(&self, id: &str) -> Result<AgentView, ClientError> {
        self.read(self.request(Method::POST, &["agents", id, "actions", "adopt"])).await
    }

    /// Adopts an agent if its key has this fingerprint.
    ///
    /// # Errors
    ///
    /// 404 if there is no agent of that name, 409 if it has another key.
    pub async fn adopt_agent_with_fingerprint(
        &self,
        id: &str,
        fingerprint: &str,
    ) -> Result<AgentView, ClientError> {
        let request = self.request(Method::POST, &["agents", id, "actions", "adopt"]);
        self.read(request.query(&[("fingerprint", fingerprint)])).await
    }

    /// Rejects an agent.
    ///
    /// # Errors
    ///
    /// 404 if there is no agent of that name.
    pub async fn reject_agent(&self, id: &str) -> Result<AgentView, ClientError> {
        self.read(self.request(Method::POST, &["agents", id, "actions", "reject"])).await
    }

    /// Forgets an agent.
    ///
    /// # Errors
    ///
    /// 404 if there is no agent of that name.
    pub async fn forget_agent(&self, id: &str) -> Result<(), ClientError> {
        self.send_for_status(self.request(Method::DELETE, &["agents", id])).await
    }
}

/// Calls of an agent. The client's token has the role `agent`, or is signed by the agent's key.
impl Client {
    /// Opens a session.
    ///
    /// # Errors
    ///
    /// 401 if the token is not valid; the message states whether the clock is wrong. 403 if the
    /// agent was rejected. 409 if another agent has its name.
    pub async fn open_session(
        &self,
        agent: &str,
        body: &OpenSession,
    ) -> Result<SessionOpened, ClientError> {
        self.read(self.session_request(Method::POST, agent, &[]).json(body)).await
    }

    /// Ends a session.
    ///
    /// # Errors
    ///
    /// 409 if the session is over.
    pub async fn close_session(&self, agent: &str, session: u64) -> Result<(), ClientError> {
        let session = session.to_string();
        self.send_for_status(self.session_request(Method::DELETE, agent, &[&session])).await
    }

    /// Polls for work, and waits for it.
    ///
    /// # Errors
    ///
    /// 409 if the agent has a newer session.
    pub async fn poll_work(
        &self,
        agent: &str,
        session: u64,
        body: &Poll,
    ) -> Result<Work, ClientError> {
        let timeout = SESSION_TIMEOUT + Duration::from_secs(body.wait_seconds.into());
        let request = self.session_request(Method::POST, agent, &[&session.to_string(), "poll"]);
        self.read(request.timeout(timeout).json(body)).await
    }

    /// Takes jobs. Idempotent. Until the answer is known, the agent must start none of them.
    ///
    /// # Errors
    ///
    /// 409 if the agent has a newer session.
    pub async fn take_jobs(
        &self,
        agent: &str,
        session: u64,
        body: &TakeJobs,
    ) -> Result<TakenJobs, ClientError> {
        let request = self.session_request(Method::POST, agent, &[&session.to_string(), "take"]);
        self.read(request.json(body)).await
    }

    /// Reports about jobs. Idempotent.
    ///
    /// # Errors
    ///
    /// 409 if the agent has a newer session.
    pub async fn report_jobs(
        &self,
        agent: &str,
        session: u64,
        body: &Reports,
    ) -> Result<ReportsTaken, ClientError> {
        let request = self.session_request(Method::POST, agent, &[&session.to_string(), "reports"]);
        self.read(request.json(body)).await
    }

    fn session_request(&self, method: Method, agent: &str, rest: &[&str]) -> RequestBuilder {
        let path = [&["agents", agent, "sessions"], rest].concat();
        self.request(method, &path).timeout(SESSION_TIMEOUT)
    }
}
