//! Jobs that agents launch: one item for each attempt, in the partition of its runner.
//!
//! A job that needs an action of an agent is in the index `gsi2` too: an unclaimed job in a
//! partition of its runner, a claimed job in a partition of its agent. So a poll without work reads
//! nothing. The index lags behind the table: read the item before a decision.

use crate::conditional::{Item, condition_outcome};
use crate::items::{Condition, from_item, key_item, number, text, to_item};
use crate::keys::Key;
use crate::outcome::{Created, Saved};
use crate::page::{Cursor, Page, Partition};
use crate::table::{GSI2, PK, SK, TTL};
use crate::{StoreError, Table, keys};
use aws_sdk_dynamodb::types::AttributeValue;
use canyon_domain::agent_job::AgentJob;
use canyon_domain::ids::{AgentId, DeploymentId, OrgUuid, RunnerUuid};
use jiff::{SignedDuration, Timestamp};

/// How long the item of a job stays if its agent never returns and never removes it.
const ITEM_LIFETIME: SignedDuration = SignedDuration::from_hours(24 * 30);
/// Most jobs in one page of work: `BatchGetItem` reads at most 100 items.
pub const MAX_WORK: i32 = 100;
/// Most jobs of a runner that are read when an agent opens a session.
const MAX_JOBS: usize = 10_000;

impl Table {
    /// The job of an attempt. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn agent_job(
        &self,
        org: OrgUuid,
        runner: RunnerUuid,
        deployment: DeploymentId,
        attempt: u32,
    ) -> Result<Option<AgentJob>, StoreError> {
        self.read("read agent's job", &keys::agent_job(org, runner, deployment, attempt)).await
    }

    /// Stores a new job, on condition that it does not exist. 2 write units and one in the index.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_agent_job(
        &self,
        org: OrgUuid,
        job: &AgentJob,
        now: Timestamp,
    ) -> Result<Created, StoreError> {
        let written = self.put_agent_job(org, job, now, Condition::absent()).await?;
        Ok(if written { Created::Yes } else { Created::Exists })
    }

    /// Stores a changed job; `job` has the next version. On condition that the stored version is
    /// the one before. 2 write units and up to two in the index.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_agent_job(
        &self,
        org: OrgUuid,
        job: &AgentJob,
        now: Timestamp,
    ) -> Result<Saved, StoreError> {
        let condition = Condition::version(job.version - 1);
        if self.put_agent_job(org, job, now, condition).await? {
            return Ok(Saved::Yes);
        }
        // The SDK retries a write whose answer was lost. The retry can fail on its own first
        // result.
        let found = self.agent_job(org, job.runner, job.deployment, job.attempt).await?;
        Ok(if found.as_ref() == Some(job) { Saved::Yes } else { Saved::Lost })
    }

    async fn put_agent_job(
        &self,
        org: OrgUuid,
        job: &AgentJob,
        now: Timestamp,
        condition: Condition,
    ) -> Result<bool, StoreError> {
        const OPERATION: &str = "store agent's job";
        let mut put = self
            .client()
            .put_item()
            .table_name(self.name())
            .set_item(Some(item(OPERATION, org, job, now)?))
            .condition_expression(condition.expression);
        if !condition.values.is_empty() {
            put = put.set_expression_attribute_values(Some(condition.values));
        }
        Ok(condition_outcome(OPERATION, job.deployment.to_string(), put.send().await)?.is_ok())
    }

    /// Deletes a job that its agent has cleaned up or never took, on condition that the stored
    /// version is that of `job`. 2 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_agent_job(
        &self,
        org: OrgUuid,
        job: &AgentJob,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "delete agent's job";
        let key = keys::agent_job(org, job.runner, job.deployment, job.attempt);
        let delete = self
            .client()
            .delete_item()
            .table_name(self.name())
            .set_key(Some(key_item(&key)))
            .condition_expression(format!("attribute_not_exists({PK}) OR version = :v"))
            .expression_attribute_values(":v", number(job.version));
        let done = condition_outcome(OPERATION, &key.sk, delete.send().await)?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Up to [`MAX_WORK`] jobs of a runner that no agent has taken yet, after `after`, by priority
    /// and age. Half a read unit if there are none.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn agent_work(
        &self,
        org: OrgUuid,
        runner: RunnerUuid,
        after: Option<&Cursor>,
    ) -> Result<Page<AgentJob>, StoreError> {
        let mut page = self.work_in(org, keys::agent_work(org, runner), after).await?;
        page.items.retain(|job| job.holder.is_none());
        Ok(page)
    }

    /// Like [`Table::agent_work`], for jobs of any runner that `agent` has taken and that need an
    /// action of it.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn agent_work_of(
        &self,
        org: OrgUuid,
        agent: &AgentId,
        after: Option<&Cursor>,
    ) -> Result<Page<AgentJob>, StoreError> {
        let mut page = self.work_in(org, keys::agent_work_of(org, agent), after).await?;
        page.items.retain(|job| job.holder.as_ref().is_some_and(|taken| taken.agent == *agent));
        Ok(page)
    }

    async fn work_in(
        &self,
        org: OrgUuid,
        partition: String,
        after: Option<&Cursor>,
    ) -> Result<Page<AgentJob>, StoreError> {
        const OPERATION: &str = "list work of agents";
        let mut query = self
            .client()
            .query()
            .table_name(self.name())
            .index_name(GSI2.name)
            .key_condition_expression(format!("{} = :pk", GSI2.pk))
            .expression_attribute_values(":pk", text(&partition))
            .limit(MAX_WORK);
        let key = |order: &Cursor| keys::agent_job_in_order(org, order.position());
        if let Some((order, key)) = after.and_then(|order| Some((order, key(order)?))) {
            let mut start = key_item(&key);
            start.insert(GSI2.pk.to_owned(), text(&partition));
            start.insert(GSI2.sk.to_owned(), text(order.position()));
            query = query.set_exclusive_start_key(Some(start));
        }
        let found =
            query.send().await.map_err(|error| StoreError::sdk(OPERATION, &partition, error))?;
        let next = found.last_evaluated_key.as_ref().and_then(|key| match key.get(GSI2.sk) {
            Some(AttributeValue::S(order)) => Some(Cursor::after(order)),
            _ => None,
        });
        let keys: Vec<Key> = found.items().iter().filter_map(key_of).collect();
        Ok(Page { items: self.agent_jobs_at(OPERATION, &keys).await?, next })
    }

    /// The jobs at `keys`, in the order of `keys`.
    async fn agent_jobs_at(
        &self,
        operation: &'static str,
        keys: &[Key],
    ) -> Result<Vec<AgentJob>, StoreError> {
        let mut items = self.batch(operation, keys.iter().map(key_item).collect()).await?;
        let place = |item: &Item| {
            let key = key_of(item);
            keys.iter().position(|other| Some(other) == key.as_ref())
        };
        items.sort_by_key(place);
        items.into_iter().map(|item| from_item(operation, item)).collect()
    }

    /// All jobs of a runner that agents launch, up to 10,000. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn agent_jobs(
        &self,
        org: OrgUuid,
        runner: RunnerUuid,
    ) -> Result<Vec<AgentJob>, StoreError> {
        let partition = Partition {
            operation: "list jobs of agents",
            pk: keys::agent_jobs(org, runner),
            prefix: None,
            descending: false,
        };
        self.all(partition, MAX_JOBS).await
    }
}

fn key_of(item: &Item) -> Option<Key> {
    match (item.get(PK), item.get(SK)) {
        (Some(AttributeValue::S(pk)), Some(AttributeValue::S(sk))) => {
            Some(Key { pk: pk.clone(), sk: sk.clone() })
        }
        _ => None,
    }
}

fn item(
    operation: &'static str,
    org: OrgUuid,
    job: &AgentJob,
    now: Timestamp,
) -> Result<Item, StoreError> {
    let key = keys::agent_job(org, job.runner, job.deployment, job.attempt);
    let mut item = to_item(operation, &key, job)?;
    let expires: Timestamp = now + ITEM_LIFETIME;
    item.insert(TTL.to_owned(), number(expires.as_second()));
    if job.needs_agent() {
        let order = keys::agent_work_order(job.priority, job.deployment, job.attempt, job.runner);
        let partition = match &job.holder {
            Some(taken) => keys::agent_work_of(org, &taken.agent),
            None => keys::agent_work(org, job.runner),
        };
        item.insert(GSI2.pk.to_owned(), text(partition));
        item.insert(GSI2.sk.to_owned(), text(order));
    }
    Ok(item)
}
