//! Jobs that agents launch: one item for each attempt, in the partition of its runner.
//!
//! What an agent has something to do for is in the index `gsi2` too, so that to ask for work costs
//! nothing where there is none. The index is behind the table by a moment: it finds, and the item decides.

use crate::conditional::{Item, settle};
use crate::items::{Condition, from_item, key_item, number, text, to_item};
use crate::keys::Key;
use crate::outcome::{Created, Saved};
use crate::page::{PageRequest, Partition};
use crate::table::{GSI2, PK, SK, TTL};
use crate::{StoreError, Table, keys};
use aws_sdk_dynamodb::types::{AttributeValue, KeysAndAttributes};
use canyon_domain::agent_job::AgentJob;
use canyon_domain::ids::{DeploymentId, OrgUuid, RunnerUuid};
use jiff::{SignedDuration, Timestamp};

/// How long an item may stay that nobody clears away: its agent never came back.
const LIFE: SignedDuration = SignedDuration::from_hours(24 * 30);
/// The most of them that one request for work looks at.
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

    /// The jobs of a runner that an agent has something to do for, at most [`MAX_WORK`], in the order
    /// in which they go. Half a read unit when there is none.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn agent_work(
        &self,
        org: OrgUuid,
        runner: RunnerUuid,
    ) -> Result<Vec<AgentJob>, StoreError> {
        const OPERATION: &str = "list work of agents";
        let partition = keys::agent_work(org, runner);
        let query = self
            .client()
            .query()
            .table_name(self.name())
            .index_name(GSI2.name)
            .key_condition_expression(format!("{} = :pk", GSI2.pk))
            .expression_attribute_values(":pk", text(&partition))
            .limit(MAX_WORK);
        let found =
            query.send().await.map_err(|error| StoreError::sdk(OPERATION, &partition, error))?;
        let keys: Vec<Key> = found.items().iter().filter_map(key_of).collect();
        self.agent_jobs_at(OPERATION, &keys).await
    }

    /// The jobs at `keys`, in that order.
    async fn agent_jobs_at(
        &self,
        operation: &'static str,
        keys: &[Key],
    ) -> Result<Vec<AgentJob>, StoreError> {
        let mut items = Vec::<Item>::new();
        let mut wanted: Vec<Item> = keys.iter().map(key_item).collect();
        while !wanted.is_empty() {
            let request = KeysAndAttributes::builder()
                .set_keys(Some(wanted))
                .consistent_read(true)
                .build()
                .map_err(|error| StoreError::corrupt(operation, self.name(), error))?;
            let batch = self.client().batch_get_item().request_items(self.name(), request);
            let output = batch
                .send()
                .await
                .map_err(|error| StoreError::sdk(operation, self.name(), error))?;
            items.extend(
                output.responses.and_then(|mut all| all.remove(self.name())).unwrap_or_default(),
            );
            wanted = output
                .unprocessed_keys
                .and_then(|mut all| all.remove(self.name()))
                .map(|left| left.keys)
                .unwrap_or_default();
        }
        let place = |item: &Item| {
            let key = key_of(item);
            keys.iter().position(|other| Some(other) == key.as_ref())
        };
        items.sort_by_key(place);
        items.into_iter().map(|item| from_item(operation, item)).collect()
    }

    /// All jobs of a runner that agents launch. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn agent_jobs(
        &self,
        org: OrgUuid,
        runner: RunnerUuid,
    ) -> Result<Vec<AgentJob>, StoreError> {
        let mut jobs = Vec::new();
        let mut request = PageRequest { limit: 1000, after: None };
        while jobs.len() < MAX_JOBS {
            let partition = Partition {
                operation: "list jobs of agents",
                pk: keys::agent_jobs(org, runner),
                prefix: None,
                descending: false,
            };
            let page = self.page(partition, &request, |_| true).await?;
            jobs.extend(page.items);
            match page.next {
                Some(next) => request.after = Some(next),
                None => break,
            }
        }
        Ok(jobs)
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
        let order = keys::agent_work_order(job.priority, job.deployment, job.attempt);
        item.insert(GSI2.pk.to_owned(), text(keys::agent_work(org, job.runner)));
        item.insert(GSI2.sk.to_owned(), text(order));
    }
    Ok(item)
}
