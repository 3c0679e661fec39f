//! Agents: one item each, which holds its newest session.

use crate::conditional::condition_outcome;
use crate::items::{Condition, delete, put, to_item};
use crate::outcome::{Created, Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys};
use canyon_domain::agent::Agent;
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::{AgentId, OrgUuid};

impl Table {
    /// An agent. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn agent(&self, org: OrgUuid, id: &AgentId) -> Result<Option<Agent>, StoreError> {
        self.read("read agent", &keys::agent(org, id)).await
    }

    /// Creates an agent. Keys: the agent, audit if `record` is given; on condition that the agent
    /// does not exist. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_agent(
        &self,
        org: OrgUuid,
        agent: &Agent,
        record: Option<&AuditRecord>,
    ) -> Result<Created, StoreError> {
        const OPERATION: &str = "create agent";
        let item = to_item(OPERATION, &keys::agent(org, &agent.id), agent)?;
        let record = record.map(|record| audit::record(self, org, record)).transpose()?;
        let items = [put(self, item, Condition::absent())].into_iter().chain(record).collect();
        let done = self.transact(OPERATION, agent.id.as_str(), items).await?;
        Ok(if done.is_ok() { Created::Yes } else { Created::Exists })
    }

    /// Writes a change that a user asked for; `agent` has the next version. Keys: the agent, audit;
    /// on condition that the stored version is the one before. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn change_agent(
        &self,
        org: OrgUuid,
        agent: &Agent,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "change agent";
        let item = to_item(OPERATION, &keys::agent(org, &agent.id), agent)?;
        let condition = Condition::unchanged(agent.created_at, agent.version - 1);
        let items = vec![put(self, item, condition), audit::record(self, org, record)?];
        let done = self.transact(OPERATION, agent.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Stores what an agent reports of itself; `agent` has the next version. On condition that the
    /// stored version is the one before. One write unit for each KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_agent(&self, org: OrgUuid, agent: &Agent) -> Result<Saved, StoreError> {
        const OPERATION: &str = "save agent";
        let condition = Condition::unchanged(agent.created_at, agent.version - 1);
        let put = self
            .client()
            .put_item()
            .table_name(self.name())
            .set_item(Some(to_item(OPERATION, &keys::agent(org, &agent.id), agent)?))
            .condition_expression(condition.expression)
            .set_expression_attribute_values(Some(condition.values));
        if condition_outcome(OPERATION, agent.id.as_str(), put.send().await)?.is_ok() {
            return Ok(Saved::Yes);
        }
        // The SDK retries a write whose answer was lost. The retry can fail on its own first
        // result.
        let found = self.agent(org, &agent.id).await?;
        Ok(if found.as_ref() == Some(agent) { Saved::Yes } else { Saved::Lost })
    }

    /// Deletes an agent. Keys: the agent, audit; on condition that the agent exists. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_agent(
        &self,
        org: OrgUuid,
        id: &AgentId,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        self.remove_agent(org, id, Condition::present(), Some(record)).await
    }

    /// Deletes an agent without a user's request. An agent that was adopted since it was read
    /// stays. Keys: the agent, audit; on condition that the stored version is that of `agent`. 4
    /// write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_agent_as_read(
        &self,
        org: OrgUuid,
        agent: &Agent,
        record: Option<&AuditRecord>,
    ) -> Result<Deleted, StoreError> {
        let as_read = Condition::unchanged(agent.created_at, agent.version);
        self.remove_agent(org, &agent.id, as_read, record).await
    }

    async fn remove_agent(
        &self,
        org: OrgUuid,
        id: &AgentId,
        condition: Condition,
        record: Option<&AuditRecord>,
    ) -> Result<Deleted, StoreError> {
        let record = record.map(|record| audit::record(self, org, record)).transpose()?;
        let deletion = delete(self, &keys::agent(org, id), condition);
        let items = [deletion].into_iter().chain(record).collect();
        let done = self.transact("delete agent", id.as_str(), items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }

    /// A page of an organization's agents, by name. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn agents(
        &self,
        org: OrgUuid,
        request: &PageRequest,
        wanted: impl Fn(&Agent) -> bool,
    ) -> Result<Page<Agent>, StoreError> {
        self.page(partition(org), request, wanted).await
    }
}

/// Most agents of an organization that are considered for one job.
const MAX_AGENTS: usize = 10_000;

impl Table {
    /// Every agent of an organization. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn all_agents(&self, org: OrgUuid) -> Result<Vec<Agent>, StoreError> {
        self.all(partition(org), MAX_AGENTS).await
    }
}

fn partition(org: OrgUuid) -> Partition<'static> {
    Partition { operation: "list agents", pk: keys::agents(org), prefix: None, descending: false }
}
