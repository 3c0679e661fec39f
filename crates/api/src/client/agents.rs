//! Agents: what people do with them, and what they call themselves.

use super::{Client, ClientError};
use crate::agent::{
    AgentQuery, AgentUpdateBody, AgentView, OpenSession, Poll, Reports, ReportsTaken,
    SessionOpened, TakeJobs, TakenJobs, Work,
};
use crate::page::{Page, PageQuery};
use reqwest::Method;

/// What people do.
impl Client {
    /// A page of the agents.
    ///
    /// # Errors
    ///
    /// As every read.
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
    /// 404 when there is none of that name.
    pub async fn agent(&self, id: &str) -> Result<AgentView, ClientError> {
        self.read(self.request(Method::GET, &["agents", id])).await
    }

    /// Changes an agent.
    ///
    /// # Errors
    ///
    /// 404 when there is none of that name.
    pub async fn update_agent(
        &self,
        id: &str,
        body: &AgentUpdateBody,
    ) -> Result<AgentView, ClientError> {
        self.write(Method::PATCH, &["agents", id], body).await
    }

    /// Lets an agent work.
    ///
    /// # Errors
    ///
    /// 404 when there is none of that name.
    pub async fn adopt_agent(&self, id: &str) -> Result<AgentView, ClientError> {
        self.read(self.request(Method::POST, &["agents", id, "actions", "adopt"])).await
    }

    /// Lets an agent work, if it shows the key with this fingerprint.
    ///
    /// # Errors
    ///
    /// 404 when there is none of that name, 409 when it shows another key.
    pub async fn adopt_key(&self, id: &str, fingerprint: &str) -> Result<AgentView, ClientError> {
        let request = self.request(Method::POST, &["agents", id, "actions", "adopt"]);
        self.read(request.query(&[("fingerprint", fingerprint)])).await
    }

    /// Refuses an agent.
    ///
    /// # Errors
    ///
    /// 404 when there is none of that name.
    pub async fn reject_agent(&self, id: &str) -> Result<AgentView, ClientError> {
        self.read(self.request(Method::POST, &["agents", id, "actions", "reject"])).await
    }

    /// Forgets an agent.
    ///
    /// # Errors
    ///
    /// 404 when there is none of that name.
    pub async fn forget_agent(&self, id: &str) -> Result<(), ClientError> {
        self.done(self.request(Method::DELETE, &["agents", id])).await
    }
}

/// What an agent does. The client's token is one of the role `agent`, or one that its key has signed.
impl Client {
    /// Begins a session.
    ///
    /// # Errors
    ///
    /// 401 when the token is not good; the answer's message says if the clock is off. 403 when the agent
    /// was rejected. 409 when another agent has its name.
    pub async fn open_session(
        &self,
        agent: &str,
        body: &OpenSession,
    ) -> Result<SessionOpened, ClientError> {
        self.write(Method::POST, &["agents", agent, "sessions"], body).await
    }

    /// Ends a session.
    ///
    /// # Errors
    ///
    /// 409 when it is over.
    pub async fn close_session(&self, agent: &str, session: u64) -> Result<(), ClientError> {
        let session = session.to_string();
        let request = self.request(Method::DELETE, &["agents", agent, "sessions", &session]);
        self.done(request).await
    }

    /// Asks for work, and waits for it.
    ///
    /// # Errors
    ///
    /// 409 when a newer session was opened.
    pub async fn poll_work(
        &self,
        agent: &str,
        session: u64,
        body: &Poll,
    ) -> Result<Work, ClientError> {
        let session = session.to_string();
        self.write(Method::POST, &["agents", agent, "sessions", &session, "poll"], body).await
    }

    /// Takes jobs. May be repeated.
    ///
    /// # Errors
    ///
    /// 409 when a newer session was opened.
    pub async fn take_jobs(
        &self,
        agent: &str,
        session: u64,
        body: &TakeJobs,
    ) -> Result<TakenJobs, ClientError> {
        let session = session.to_string();
        self.write(Method::POST, &["agents", agent, "sessions", &session, "take"], body).await
    }

    /// Says what became of jobs. May be repeated.
    ///
    /// # Errors
    ///
    /// 409 when a newer session was opened.
    pub async fn report_jobs(
        &self,
        agent: &str,
        session: u64,
        body: &Reports,
    ) -> Result<ReportsTaken, ClientError> {
        let session = session.to_string();
        self.write(Method::POST, &["agents", agent, "sessions", &session, "reports"], body).await
    }
}
