//! What users do with agents: adopt, reject, update, forget.

use super::App;
use super::agent_proofs::{AgentCaller, Proof, key_of};
use crate::app::error::AppError;
use canyon_api::agent::AgentUpdateBody;
use canyon_domain::agent::{Adoption, Agent, AgentIdentity};
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::{AgentId, OrgUuid, PrincipalId};
use canyon_domain::principal::Principal;
use canyon_identity::agent_key::AgentKey;
use canyon_store::contention::MAX_TRIES;
use canyon_store::organizations::TokenRecord;
use canyon_store::outcome::{Deleted, Saved};
use canyon_store::page::{Page, PageRequest};
use uuid::Uuid;

impl App {
    /// A page of the agents that `wanted` selects.
    pub(crate) async fn agents_of(
        &self,
        by: &Principal,
        wanted: impl Fn(&Agent) -> bool,
        page: &PageRequest,
    ) -> Result<Page<Agent>, AppError> {
        Ok(self.table.agents(by.org, page, wanted).await?)
    }

    /// An agent. 404 if it does not exist.
    pub(crate) async fn agent(&self, by: &Principal, id: &AgentId) -> Result<Agent, AppError> {
        let found = self.table.agent(by.org, id).await?;
        found.ok_or_else(|| AppError::not_found("agent", id))
    }

    /// Adopts an agent. With a fingerprint, only if the agent shows that key: another agent may have taken the name.
    pub(crate) async fn adopt_agent(
        &self,
        by: &Principal,
        id: &AgentId,
        fingerprint: Option<&str>,
    ) -> Result<Agent, AppError> {
        self.change_agent(by, id, "agent.adopt", |agent| {
            let shown = key_of(agent).map(AgentKey::fingerprint);
            if fingerprint.is_some_and(|wanted| shown.as_deref() != Some(wanted)) {
                return Err(another_key(&agent.id));
            }
            if agent.adoption != Adoption::Adopted {
                agent.adopted_by = Some(by.id);
            }
            agent.adoption = Adoption::Adopted;
            agent.by_runner_key = false;
            if matches!(agent.identity, AgentIdentity::Token { .. }) {
                agent.named_at.get_or_insert_with(|| self.now());
            }
            Ok(())
        })
        .await
    }

    /// Rejects an agent. Its next request is refused.
    pub(crate) async fn reject_agent(
        &self,
        by: &Principal,
        id: &AgentId,
    ) -> Result<Agent, AppError> {
        self.change_agent(by, id, "agent.reject", |agent| {
            agent.adoption = Adoption::Rejected;
            Ok(())
        })
        .await
    }

    /// Changes the settings that users make for an agent.
    pub(crate) async fn update_agent(
        &self,
        by: &Principal,
        id: &AgentId,
        body: &AgentUpdateBody,
    ) -> Result<Agent, AppError> {
        self.change_agent(by, id, "agent.update", |agent| {
            agent.disabled = body.disabled.unwrap_or(agent.disabled);
            if let Some(labels) = &body.labels {
                agent.labels.clone_from(labels);
            }
            agent.run_untagged_jobs = body.run_untagged_jobs.or(agent.run_untagged_jobs);
            if body.labels.is_some() || body.run_untagged_jobs.is_some() {
                agent.settings_fixed_at = Some(self.now());
            }
            Ok(())
        })
        .await
    }

    async fn change_agent(
        &self,
        by: &Principal,
        id: &AgentId,
        action: &str,
        change: impl Fn(&mut Agent) -> Result<(), AppError>,
    ) -> Result<Agent, AppError> {
        for _ in 0..MAX_TRIES {
            let before = self.agent(by, id).await?;
            let mut agent = before.clone();
            change(&mut agent)?;
            if agent == before {
                return Ok(agent);
            }
            agent.version += 1;
            let record = self.record(by, action, subject(id));
            if self.table.change_agent(by.org, &agent, &record).await? == Saved::Yes {
                self.agents.hints.hint(by.org, id);
                return Ok(agent);
            }
        }
        Err(AppError::contended(id))
    }

    /// Forgets an agent. Its session ends, and it may ask again as an unknown agent.
    pub(crate) async fn forget_agent(
        &self,
        by: &Principal,
        id: &AgentId,
    ) -> Result<Deleted, AppError> {
        let record = self.record(by, "agent.forget", subject(id));
        let deleted = self.table.delete_agent(by.org, id, &record).await?;
        self.agents.hints.hint(by.org, id);
        Ok(deleted)
    }

    /// Forgets an agent on Canyon's own behalf, unless it was changed since it was read: an administrator may have
    /// adopted it in between.
    pub(super) async fn forget_if_unchanged(
        &self,
        org: OrgUuid,
        agent: &Agent,
    ) -> Result<(), AppError> {
        let no_principal = PrincipalId(Uuid::nil());
        let record = self.own_record("agent.forget", &agent.id, no_principal, "canyon");
        self.forget_as_read(org, agent, Some(&record)).await
    }

    pub(super) async fn forget_as_read(
        &self,
        org: OrgUuid,
        agent: &Agent,
        record: Option<&AuditRecord>,
    ) -> Result<(), AppError> {
        self.table.delete_agent_as_read(org, agent, record).await?;
        self.agents.hints.hint(org, &agent.id);
        Ok(())
    }

    /// The audit record of a change that an agent makes by its own right.
    pub(super) fn record_of_agent(&self, caller: &AgentCaller, action: &str) -> AuditRecord {
        let by = caller.principal().map_or(PrincipalId(Uuid::nil()), |principal| principal.id);
        self.own_record(action, &caller.agent, by, "agent")
    }

    pub(super) fn own_record(
        &self,
        action: &str,
        id: &AgentId,
        by: PrincipalId,
        right: &str,
    ) -> AuditRecord {
        let at = self.now();
        AuditRecord {
            id: self.entropy.id(at),
            at,
            by,
            action: action.to_owned(),
            subject: subject(id),
            by_right: right.to_owned(),
            details: Vec::new(),
        }
    }

    /// The token by which an agent signs in. If the token has labels, they replace those that the agent names.
    pub(super) async fn token_of(&self, caller: &AgentCaller) -> Result<TokenRecord, AppError> {
        let Proof::Token(hash, _) = &caller.proof else { return Err(AppError::unauthorized()) };
        let token = self.table.token_by_secret(hash).await?;
        token.ok_or_else(AppError::unauthorized)
    }
}

fn another_key(id: &AgentId) -> AppError {
    let message = format!(
        "agent `{id}` does not show the key with this fingerprint; see what it shows: canyon get agent {id}"
    );
    AppError::conflict(message).with_detail("code", "another_key")
}

fn subject(id: &AgentId) -> String {
    format!("agents/{id}")
}
