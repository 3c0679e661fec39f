//! Lists of deployments with filters, whose cost does not depend on the number of deployments.
//!
//! Failed and cancelled deployments are few among many, so each has an entry in a list of its own. Those that have not ended
//! are due, so the index of due items has them. All others are searched from the newest on, a bounded number for each page.

use crate::StoreError;
use crate::Table;
use crate::conditional::Item;
use crate::deployment_lists::{DeploymentFilter, string};
use crate::items::{Condition, key_item, put, text};
use crate::keys;
use crate::page::{Cursor, Page, PageRequest};
use crate::table::{GSI1, GSI3, Index, PK, SK};
use aws_sdk_dynamodb::types::TransactWriteItem;
use canyon_domain::deployment::{Deployment, Status};
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::resource_name::ResourceName;
use canyon_domain::run_kind::RunKind;
use jiff::Timestamp;

/// Most requests for ids for one page.
const MAX_QUERIES: u32 = 4;
/// Most entries that one request reads where each is a deployment to read.
const MAX_SEARCHED: usize = 100;
/// Most entries that one request reads where DynamoDB filters them.
const MAX_FILTERED: usize = 1_000;
/// Most items that [`Table::batch`] reads.
const MAX_BATCH: usize = 100;

/// Which deployments to list.
#[derive(Clone, Debug)]
pub struct DeploymentSearch {
    /// Where.
    pub scope: DeploymentFilter,
    /// Only those with this status.
    pub status: Option<Status>,
    /// Only those that have ended, or that have not.
    pub ended: Option<bool>,
    /// Only those of this kind.
    pub kind: Option<RunKind>,
    /// Only those for this resource.
    pub resource: Option<ResourceName>,
    /// Only those that were accepted at this time or later.
    pub since: Option<Timestamp>,
    /// Whether the lists of failed and cancelled deployments have all of the organization
    /// ([`canyon_domain::inventory::Organization::lists_ends`]).
    pub lists_ends: bool,
}

impl DeploymentSearch {
    /// All deployments of a scope.
    pub fn of(scope: DeploymentFilter) -> Self {
        Self {
            scope,
            status: None,
            ended: None,
            kind: None,
            resource: None,
            since: None,
            lists_ends: false,
        }
    }

    /// Whether a list of ended deployments may answer it.
    pub fn may_use_ends(&self) -> bool {
        let is_of_checks = matches!(self.scope, DeploymentFilter::Checks(_));
        self.status.is_some_and(is_listed) && !is_of_checks
    }

    /// Whether it finds only deployments that have not ended.
    fn is_of_unended(&self) -> bool {
        self.ended == Some(false) || self.status.is_some_and(|status| !status.is_terminal())
    }

    fn has_filter(&self) -> bool {
        let Self { status, ended, kind, resource, since, .. } = self;
        status.is_some()
            || ended.is_some()
            || kind.is_some()
            || resource.is_some()
            || since.is_some()
    }

    fn matches(&self, deployment: &Deployment) -> bool {
        let is_in_scope = match &self.scope {
            DeploymentFilter::All => true,
            DeploymentFilter::Project(project) => deployment.project == *project,
            DeploymentFilter::Environment(env) | DeploymentFilter::Checks(env) => {
                deployment.env_uuid == *env
            }
        };
        let is_of_checks = matches!(self.scope, DeploymentFilter::Checks(_));
        let is_for = |resource: &ResourceName| deployment.resource() == Some(resource);
        is_in_scope
            && deployment.mode.takes_turn() != is_of_checks
            && self.resource.as_ref().is_none_or(is_for)
            && self.status.is_none_or(|status| deployment.status == status)
            && self.ended.is_none_or(|ended| deployment.status.is_terminal() == ended)
            && self.kind.is_none_or(|kind| RunKind::of(deployment) == kind)
            && self.since.is_none_or(|since| deployment.created_at >= since)
    }
}

/// Whether deployments that end so have a list of their own.
pub(crate) fn is_listed(status: Status) -> bool {
    match status {
        Status::Failed | Status::Cancelled => true,
        Status::Queued
        | Status::Launching
        | Status::Running
        | Status::Cancelling
        | Status::Succeeded => false,
    }
}

/// Ids of deployments that may match, newest first.
struct Candidates {
    ids: Vec<DeploymentId>,
    /// Where the next request continues.
    read_to: Option<Cursor>,
}

/// A partition that has ids of deployments as sort keys.
struct Source {
    /// `None` for the table itself.
    index: Option<Index>,
    pk: String,
    limit: usize,
    /// DynamoDB leaves out entries with another value of this attribute.
    only: Option<(&'static str, String)>,
}

impl Table {
    /// Part of a transaction: adds a deployment that ends to the list of its status, if that has one. 2 write units.
    pub(crate) fn entry_of_end(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
    ) -> Option<TransactWriteItem> {
        if !is_listed(deployment.status) || !deployment.mode.takes_turn() {
            return None;
        }
        let mut item = key_item(&keys::ended_deployment(org, deployment.status, deployment.id));
        item.insert("project".into(), text(deployment.project.as_str()));
        item.insert("env".into(), text(deployment.env_uuid.0.simple().to_string()));
        Some(put(self, item, Condition::absent()))
    }

    /// The deployments that match, newest first. At most 4 requests for ids, of half a read unit for each 4 KB, and one
    /// read unit for each deployment read. With the status `failed` or `cancelled` alone: one request for ids, and one for
    /// the deployments. For those before the end: the due entries of all organizations. A page may be short or empty
    /// although more deployments follow.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot parse the item.
    pub async fn search_deployments(
        &self,
        org: OrgUuid,
        search: &DeploymentSearch,
        request: &PageRequest,
    ) -> Result<Page<Deployment>, StoreError> {
        if !search.has_filter() {
            return self.deployments(org, &search.scope, request).await;
        }
        let wanted = request.limit.clamp(1, 100) as usize;
        let mut items: Vec<Deployment> = Vec::new();
        let mut after = request.after.clone();
        for _ in 0..MAX_QUERIES {
            let part = self.candidates(org, search, after.as_ref(), wanted + 1).await?;
            for ids in part.ids.chunks(MAX_BATCH) {
                let read = self.deployments_by_id(org, ids).await?;
                items.extend(read.into_iter().filter(|found| search.matches(found)));
                // One more than wanted shows that more follow.
                if items.len() > wanted {
                    items.truncate(wanted);
                    let next = items.last().map(|last| Cursor::after(last.id.to_string()));
                    return Ok(Page { items, next });
                }
            }
            after = part.read_to;
            if after.is_none() {
                break;
            }
        }
        Ok(Page { items, next: after })
    }

    async fn candidates(
        &self,
        org: OrgUuid,
        search: &DeploymentSearch,
        after: Option<&Cursor>,
        wanted: usize,
    ) -> Result<Candidates, StoreError> {
        let position = after.and_then(|cursor| cursor.position().parse::<DeploymentId>().ok());
        if search.is_of_unended() {
            let due = self.due(Timestamp::MAX, i32::MAX).await?;
            let ids = due.into_iter().filter(|due| due.org == org).map(|due| due.id);
            let mut ids: Vec<_> =
                ids.filter(|id| position.is_none_or(|position| *id < position)).collect();
            ids.sort_unstable_by(|a, b| b.cmp(a));
            return Ok(Candidates { ids, read_to: None });
        }
        self.entries(org, &source(org, search, wanted), search.since, position).await
    }

    async fn entries(
        &self,
        org: OrgUuid,
        source: &Source,
        since: Option<Timestamp>,
        position: Option<DeploymentId>,
    ) -> Result<Candidates, StoreError> {
        let (name, pk, sk) =
            source.index.map_or((None, PK, SK), |of| (Some(of.name.to_owned()), of.pk, of.sk));
        let mut query = self
            .client()
            .query()
            .table_name(self.name())
            .set_index_name(name)
            .scan_index_forward(false)
            .key_condition_expression(format!("{pk} = :pk AND {sk} >= :since"))
            .expression_attribute_values(":pk", text(&source.pk))
            .expression_attribute_values(":since", text(first_id_at(since)))
            .limit(i32::try_from(source.limit).unwrap_or(i32::MAX));
        if let Some((attribute, value)) = &source.only {
            query = query
                .filter_expression("#only = :only")
                .expression_attribute_names("#only", *attribute)
                .expression_attribute_values(":only", text(value));
        }
        if let Some(id) = position {
            let mut start = key_item(&keys::deployment(org, id));
            start.insert(pk.into(), text(&source.pk));
            start.insert(sk.into(), text(id.to_string()));
            query = query.set_exclusive_start_key(Some(start));
        }
        let output = query
            .send()
            .await
            .map_err(|error| StoreError::sdk("list deployments in", &source.pk, error))?;
        let id_of = |item: &Item| string(item, sk).and_then(|id| id.parse().ok());
        let read_to = output.last_evaluated_key.as_ref().and_then(|key| string(key, sk));
        // It may be a deployment that does not match.
        let read_to = read_to.map(Cursor::after_left_out);
        Ok(Candidates { ids: output.items().iter().filter_map(id_of).collect(), read_to })
    }
}

/// Where the ids of a search are; `wanted` of them fill a page.
fn source(org: OrgUuid, search: &DeploymentSearch, wanted: usize) -> Source {
    let project = match &search.scope {
        DeploymentFilter::Project(project) => Some(("project", project.to_string())),
        DeploymentFilter::All | DeploymentFilter::Environment(_) | DeploymentFilter::Checks(_) => {
            None
        }
    };
    if let Some(status) = search.status.filter(|status| is_listed(*status) && search.lists_ends) {
        let only = match &search.scope {
            DeploymentFilter::Environment(env) => Some(("env", env.0.simple().to_string())),
            DeploymentFilter::All | DeploymentFilter::Project(_) | DeploymentFilter::Checks(_) => {
                project
            }
        };
        // Each entry matches, if the list alone decides.
        let decides_alone = search.kind.is_none() && search.resource.is_none();
        let limit = match (&only, decides_alone) {
            (Some(_), _) => MAX_FILTERED,
            (None, false) => MAX_SEARCHED,
            (None, true) => wanted,
        };
        return Source { index: None, pk: keys::ended_deployments(org, status), limit, only };
    }
    let (index, pk) = match &search.scope {
        DeploymentFilter::All | DeploymentFilter::Project(_) => (GSI1, keys::deployments(org)),
        DeploymentFilter::Environment(env) => (GSI3, keys::deployments_of_environment(org, *env)),
        DeploymentFilter::Checks(env) => (GSI3, keys::checks_of_environment(org, *env)),
    };
    let limit = if project.is_some() { MAX_FILTERED } else { MAX_SEARCHED };
    Source { index: Some(index), pk, limit, only: project }
}

/// The lowest id of a deployment that was accepted at `since`: its first 48 bits are milliseconds since 1970 (RFC 9562,
/// section 5.7).
fn first_id_at(since: Option<Timestamp>) -> String {
    let milliseconds = since.map_or(0, |since| since.as_millisecond().max(0));
    format!("{:08x}-{:04x}-0000-0000-000000000000", milliseconds >> 16, milliseconds & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn the_first_id_of_a_time_is_not_above_one_made_then_nor_below_one_made_before() {
        for milliseconds in [0, 1, 0xffff, 0x1_0000, 1_700_000_000_000, 253_402_207_200_000] {
            let at = Timestamp::from_millisecond(milliseconds).unwrap();
            let first = first_id_at(Some(at));
            let parts = u64::try_from(milliseconds).unwrap();
            let lowest = uuid::Builder::from_unix_timestamp_millis(parts, &[0; 10]).into_uuid();
            assert!(first <= lowest.to_string(), "{first} {lowest}");
            if let Some(before) = parts.checked_sub(1) {
                let highest = uuid::Builder::from_unix_timestamp_millis(before, &[0xff; 10]);
                assert!(highest.into_uuid().to_string() < first, "{first}");
            }
            assert!(first.parse::<Uuid>().is_ok());
        }
        assert_eq!(first_id_at(None), Uuid::nil().to_string());
    }
}
