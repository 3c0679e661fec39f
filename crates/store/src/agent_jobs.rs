//! Jobs that agents launch: one item for each attempt, in the partition of its runner.
//!
//! What an agent has something to do for is in the index `gsi2` too, so that to ask for work costs
//! nothing where there is none: what nobody has taken in a partition of the runner, what an agent has
//! taken in one of its own. The index is behind the table by a moment: it finds, and the item decides.

use crate::conditional::{Item, settle};
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

/// How long an item may stay that nobody clears away: its agent never came back.
const LIFE: SignedDuration = SignedDuration::from_hours(24 * 30);
/// The most of them in one page of work: as many as one request reads by their keys.
pub const MAX_WORK: i32 = 100;
/// The most jobs of a runner that a new session looks through.
const MAX_JOBS: usize = 10_000;

impl Table {
    /// The job of an attempt. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn agent_job(
        &self,
        org: OrgUuid,
        runner: RunnerUuid,
        deployment: DeploymentId,
        attempt: u32,
    ) -> Result<Option<AgentJob>, StoreError> {
        self.read("read agent's job", &keys::agent_job(org, runner, deployment, attempt)).await
    }

    /// Stores a new job, unless it is there. 2 write units and one in the index.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn create_agent_job(
        &self,
        org: OrgUuid,
        job: &AgentJob,
        now: Timestamp,
    ) -> Result<Created, StoreError> {
        let written = self.put_agent_job(org, job, now, Condition::absent()).await?;
        Ok(if written { Created::Yes } else { Created::Exists })
    }

    /// Stores what has become of a job; `job` has the next version. On condition that it is as it
    /// was read. 2 write units and up to two in the index.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
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
        // The SDK repeats a write whose answer was lost: then it stands in its own way.
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
        Ok(settle(OPERATION, job.deployment.to_string(), put.send().await)?.is_ok())
    }

    /// Removes a job, whose agent has cleared it away or never took it; on condition that it is as it
    /// was read. 2 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
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
        let done = settle(OPERATION, &key.sk, delete.send().await)?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Up to [`MAX_WORK`] jobs of a runner that no agent has taken yet, after `after`, in the order in
    /// which they go. Half a read unit when there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn agent_work(
        &self,
        org: OrgUuid,
        runner: RunnerUuid,
        after: Option<&Cursor>,
    ) -> Result<Page<AgentJob>, StoreError> {
        let mut page = self.work_in(org, keys::agent_work(org, runner), after).await?;
        page.items.retain(|job| job.taken.is_none());
        Ok(page)
    }

    /// As [`Table::agent_work`], of the jobs of all runners that `agent` has taken and has something to do for.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn agent_work_of(
        &self,
        org: OrgUuid,
        agent: &AgentId,
        after: Option<&Cursor>,
    ) -> Result<Page<AgentJob>, StoreError> {
        let mut page = self.work_in(org, keys::agent_work_of(org, agent), after).await?;
        page.items.retain(|job| job.taken.as_ref().is_some_and(|taken| taken.agent == *agent));
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

    /// The jobs at `keys`, in that order.
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
    /// [`StoreError`] as every read.
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
    let expires: Timestamp = now + LIFE;
    item.insert(TTL.to_owned(), number(expires.as_second()));
    if job.wants_attention() {
        let order = keys::agent_work_order(job.priority, job.deployment, job.attempt, job.runner);
        let partition = match &job.taken {
            Some(taken) => keys::agent_work_of(org, &taken.agent),
            None => keys::agent_work(org, job.runner),
        };
        item.insert(GSI2.pk.to_owned(), text(partition));
        item.insert(GSI2.sk.to_owned(), text(order));
    }
    Ok(item)
}
