//! Lists of deployments: newest first, and by due time.

use crate::conditional::Item;
use crate::deployment_item::from_deployment_item;
use crate::items::{key_item, text};
use crate::keys::{self, DUE_SHARDS};
use crate::page::{Cursor, Page, PageRequest};
use crate::table::{GSI1, GSI2, GSI3, Index, PK};
use crate::{StoreError, Table};
use aws_sdk_dynamodb::types::AttributeValue;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{DeploymentId, EnvUuid, OrgUuid, ProjectId};
use jiff::Timestamp;
use std::collections::HashMap;

/// Most index entries that one request reads when it filters by project.
const MAX_QUERY_ITEMS: i32 = 1_000;

/// Most requests to the index for one page.
const MAX_QUERIES: u32 = 4;

/// A deployment that the launcher must check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Due {
    /// Its organization.
    pub org: OrgUuid,
    /// The deployment.
    pub id: DeploymentId,
}

/// Which deployments to list.
#[derive(Clone, Debug)]
pub enum DeploymentFilter {
    /// All of the organization.
    All,
    /// Those of a project.
    Project(ProjectId),
    /// Those of an environment.
    Environment(EnvUuid),
    /// The checks for drift of an environment, which are in no other list.
    Checks(EnvUuid),
}

impl Page<Deployment> {
    /// Keeps only the items that `wanted` accepts. The cursor then points behind the last kept
    /// item, so that it reveals no other item; if none is kept, it names one that is left out.
    pub fn keep(&mut self, wanted: impl Fn(&Deployment) -> bool) {
        let before = self.items.len();
        self.items.retain(wanted);
        let Some(next) = &mut self.next else { return };
        if self.items.len() == before {
            return;
        }
        *next = match self.items.last() {
            Some(last) => Cursor::after(last.id.to_string()),
            None => Cursor::after_left_out(next.position()),
        };
    }
}

impl Table {
    /// Deployments that are due at `now`, longest due first, at most `limit` (from 1) of each
    /// shard. The index lags behind the table: read the item before a decision. Half a read unit
    /// for each shard if nothing is due.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn due(&self, now: Timestamp, limit: i32) -> Result<Vec<Due>, StoreError> {
        Ok(self.due_since(now, limit).await?.into_iter().map(|(_, due)| due).collect())
    }

    /// Like [`Table::due`], each with the time since which it is due.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn due_since(
        &self,
        now: Timestamp,
        limit: i32,
    ) -> Result<Vec<(Timestamp, Due)>, StoreError> {
        let shards = (0..DUE_SHARDS).map(|shard| self.due_in(shard, now, limit));
        let mut due = futures::future::try_join_all(shards).await?.concat();
        due.sort_by_key(|(at, _)| *at);
        Ok(due)
    }

    /// The due deployments of one shard with their due times, earliest first.
    async fn due_in(
        &self,
        shard: u8,
        now: Timestamp,
        limit: i32,
    ) -> Result<Vec<(Timestamp, Due)>, StoreError> {
        let pk = keys::due_shard(shard);
        let wanted = usize::try_from(limit).unwrap_or(0);
        let mut due = Vec::new();
        let mut start = None;
        loop {
            let query = self
                .client()
                .query()
                .table_name(self.name())
                .index_name(GSI2.name)
                .key_condition_expression(format!("{} = :pk AND {} <= :now", GSI2.pk, GSI2.sk))
                .expression_attribute_values(":pk", text(&pk))
                .expression_attribute_values(":now", text(keys::due_at(now)))
                .set_exclusive_start_key(start)
                .limit(limit);
            let output = query
                .send()
                .await
                .map_err(|error| StoreError::sdk("list what is due in", &pk, error))?;
            due.extend(output.items().iter().filter_map(parse_due));
            // One answer holds at most 1 MB, about 5,000 entries.
            start = output.last_evaluated_key;
            if start.is_none() || due.len() >= wanted {
                due.truncate(wanted);
                return Ok(due);
            }
        }
    }

    /// Deployments, newest first. Keys: `gsi1` (organization) or `gsi3` (environment), then the
    /// items by id. Half a read unit for each 4 KB of index and one for each item. After
    /// four requests to the index the page ends, so it may be short or empty although more items follow.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn deployments(
        &self,
        org: OrgUuid,
        filter: &DeploymentFilter,
        request: &PageRequest,
    ) -> Result<Page<Deployment>, StoreError> {
        let (index, pk) = match filter {
            DeploymentFilter::All | DeploymentFilter::Project(_) => (GSI1, keys::deployments(org)),
            DeploymentFilter::Environment(env) => {
                (GSI3, keys::deployments_of_environment(org, *env))
            }
            DeploymentFilter::Checks(env) => (GSI3, keys::checks_of_environment(org, *env)),
        };
        let wanted = request.limit.clamp(1, 100) as usize;
        let mut ids: Vec<DeploymentId> = Vec::new();
        let mut after = request.after.clone();
        for _ in 0..MAX_QUERIES {
            let part = self.newest(org, index, &pk, filter, after.as_ref(), wanted + 1).await?;
            ids.extend(part.ids);
            after = part.read_to;
            // One more than wanted shows whether more follow.
            if after.is_none() || ids.len() > wanted {
                break;
            }
        }
        let has_more = ids.len() > wanted || after.is_some();
        ids.truncate(wanted);
        let last = ids.last().map(|id| Cursor::after(id.to_string()));
        let next = last.or(after).filter(|_| has_more);
        Ok(Page { items: self.deployments_by_id(org, &ids).await?, next })
    }

    async fn newest(
        &self,
        org: OrgUuid,
        index: Index,
        pk: &str,
        filter: &DeploymentFilter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Newest, StoreError> {
        let mut query = self
            .client()
            .query()
            .table_name(self.name())
            .index_name(index.name)
            .scan_index_forward(false)
            .key_condition_expression(format!("{} = :pk", index.pk))
            .expression_attribute_values(":pk", text(pk))
            .limit(i32::try_from(limit).unwrap_or(MAX_QUERY_ITEMS));
        if let DeploymentFilter::Project(project) = filter {
            query = query
                .filter_expression("#p = :project")
                .expression_attribute_names("#p", "project")
                .expression_attribute_values(":project", text(project.as_str()))
                .limit(MAX_QUERY_ITEMS);
        }
        if let Some(id) = after.and_then(|cursor| cursor.position().parse::<DeploymentId>().ok()) {
            let mut start = key_item(&keys::deployment(org, id));
            start.insert(index.pk.into(), text(pk));
            start.insert(index.sk.into(), text(id.to_string()));
            query = query.set_exclusive_start_key(Some(start));
        }
        let output = query
            .send()
            .await
            .map_err(|error| StoreError::sdk("list deployments in", pk, error))?;
        let id_of = |item: &Item| string(item, index.sk).and_then(|id| id.parse().ok());
        let read_to = output.last_evaluated_key.as_ref().and_then(|key| string(key, index.sk));
        // It may be a deployment of another project.
        let read_to = read_to.map(Cursor::after_left_out);
        Ok(Newest { ids: output.items().iter().filter_map(id_of).collect(), read_to })
    }

    /// The deployments with these ids (at most 100), in the order of `ids`; missing ones are left
    /// out. One read unit for each item up to 4 KB.
    pub(crate) async fn deployments_by_id(
        &self,
        org: OrgUuid,
        ids: &[DeploymentId],
    ) -> Result<Vec<Deployment>, StoreError> {
        const OPERATION: &str = "read deployments";
        let mut found: HashMap<DeploymentId, Deployment> = HashMap::new();
        let keys = ids.iter().map(|id| key_item(&keys::deployment(org, *id))).collect();
        for item in self.batch(OPERATION, keys).await? {
            let deployment = from_deployment_item(OPERATION, item)?;
            found.insert(deployment.id, deployment);
        }
        Ok(ids.iter().filter_map(|id| found.remove(id)).collect())
    }
}

struct Newest {
    ids: Vec<DeploymentId>,
    read_to: Option<Cursor>,
}

pub(crate) fn string(item: &Item, name: &str) -> Option<String> {
    match item.get(name) {
        Some(AttributeValue::S(text)) => Some(text.clone()),
        _ => None,
    }
}

fn parse_due(item: &Item) -> Option<(Timestamp, Due)> {
    let (org, id) = keys::parse_deployment(&string(item, PK)?)?;
    let at = string(item, GSI2.sk)?.parse().ok()?;
    Some((Timestamp::from_millisecond(at).ok()?, Due { org, id }))
}
