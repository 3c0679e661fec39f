//! Agents: one item each, with the newest session in it.

use crate::conditional::settle;
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
    /// [`StoreError`] as every read.
    pub async fn agent(&self, org: OrgUuid, id: &AgentId) -> Result<Option<Agent>, StoreError> {
        self.read("read agent", &keys::agent(org, id)).await
    }

    /// Makes an agent that was not known. Keys: it, audit if there is a record; on condition that it is not there. 4
    /// write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
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

    /// Changes an agent on somebody's word; `agent` has the next version. Keys: it, audit; on
    /// condition that it is as it was read. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn change_agent(
        &self,
        org: OrgUuid,
        agent: &Agent,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "change agent";
        let item = to_item(OPERATION, &keys::agent(org, &agent.id), agent)?;
        let condition = Condition::version(agent.version - 1);
        let items = vec![put(self, item, condition), audit::record(self, org, record)?];
        let done = self.transact(OPERATION, agent.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Stores what an agent says of itself; `agent` has the next version. On condition that it is as
    /// it was read. One write unit for each KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn save_agent(&self, org: OrgUuid, agent: &Agent) -> Result<Saved, StoreError> {
        const OPERATION: &str = "save agent";
        let condition = Condition::version(agent.version - 1);
        let put = self
            .client()
            .put_item()
            .table_name(self.name())
            .set_item(Some(to_item(OPERATION, &keys::agent(org, &agent.id), agent)?))
            .condition_expression(condition.expression)
            .set_expression_attribute_values(Some(condition.values));
        if settle(OPERATION, agent.id.as_str(), put.send().await)?.is_ok() {
            return Ok(Saved::Yes);
        }
        // The SDK repeats a write whose answer was lost: then it stands in its own way.
        let found = self.agent(org, &agent.id).await?;
        Ok(if found.as_ref() == Some(agent) { Saved::Yes } else { Saved::Lost })
    }

    /// Forgets an agent. Keys: it, audit; on condition that it is there. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn delete_agent(
        &self,
        org: OrgUuid,
        id: &AgentId,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        self.remove_agent(org, id, Condition::present(), Some(record)).await
    }

    /// Forgets an agent on nobody's word: one that was adopted since it was read stays. Keys: it, audit; on condition
    /// that it is as it was read. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn delete_agent_as_read(
        &self,
        org: OrgUuid,
        agent: &Agent,
        record: Option<&AuditRecord>,
    ) -> Result<Deleted, StoreError> {
        self.remove_agent(org, &agent.id, Condition::version(agent.version), record).await
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

    /// A page of an organization's agents, by their names. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn agents(
        &self,
        org: OrgUuid,
        request: &PageRequest,
        wanted: impl Fn(&Agent) -> bool,
    ) -> Result<Page<Agent>, StoreError> {
        self.page(partition(org), request, wanted).await
    }
}

/// The most agents of an organization that are looked through for one job.
const MAX_AGENTS: usize = 10_000;

impl Table {
    /// Every agent of an organization. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn all_agents(&self, org: OrgUuid) -> Result<Vec<Agent>, StoreError> {
        self.all(partition(org), MAX_AGENTS).await
    }
}

fn partition(org: OrgUuid) -> Partition<'static> {
    Partition { operation: "list agents", pk: keys::agents(org), prefix: None, descending: false }
}
