//! Runner profiles.

use crate::items::{Condition, delete, put, to_item};
use crate::outcome::{Created, Deleted, Saved};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys};
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::{OrgUuid, RunnerProfileId};
use canyon_domain::runner::agents::AgentTarget;
use canyon_domain::runner_profile::{ProfileSettings, RunnerProfile};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct ProfileItem {
    id: RunnerProfileId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    agents: Option<AgentTarget>,
    /// As JSON text: an attribute nests at most 32 levels, and a pod template may have more.
    job: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    version: u64,
}

impl From<&RunnerProfile> for ProfileItem {
    fn from(profile: &RunnerProfile) -> Self {
        Self {
            id: profile.id.clone(),
            description: profile.description.clone(),
            agents: profile.settings.agents.clone(),
            job: serde_json::Value::Object(profile.settings.job.clone()).to_string(),
            created_at: profile.created_at,
            updated_at: profile.updated_at,
            version: profile.version,
        }
    }
}

impl ProfileItem {
    fn read(self) -> Result<RunnerProfile, StoreError> {
        let job = serde_json::from_str(&self.job).map_err(|source| {
            StoreError::corrupt("read runner profile", self.id.as_str(), source)
        })?;
        Ok(RunnerProfile {
            id: self.id,
            description: self.description,
            settings: ProfileSettings { agents: self.agents, job },
            created_at: self.created_at,
            updated_at: self.updated_at,
            version: self.version,
        })
    }
}

/// Which agents a profile names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ProfileAgents {
    /// The profile.
    pub id: RunnerProfileId,
    /// Its agents; `None` if it leaves the choice to its runner.
    #[serde(default)]
    pub agents: Option<AgentTarget>,
}

impl Table {
    /// Creates a profile. Keys: the profile, audit; on condition that its id is free. 4 write units
    /// up to 1 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_runner_profile(
        &self,
        org: OrgUuid,
        profile: &RunnerProfile,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        const OPERATION: &str = "create runner profile";
        let key = keys::runner_profile(org, &profile.id);
        let item = to_item(OPERATION, &key, &ProfileItem::from(profile))?;
        let items = vec![put(self, item, Condition::absent()), audit::record(self, org, record)?];
        let done = self.transact(OPERATION, profile.id.as_str(), items).await?;
        Ok(if done.is_ok() { Created::Yes } else { Created::Exists })
    }

    /// A profile. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn runner_profile(
        &self,
        org: OrgUuid,
        id: &RunnerProfileId,
    ) -> Result<Option<RunnerProfile>, StoreError> {
        let key = keys::runner_profile(org, id);
        let item: Option<ProfileItem> = self.read("read runner profile", &key).await?;
        item.map(ProfileItem::read).transpose()
    }

    /// The profiles by name. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn runner_profiles(
        &self,
        org: OrgUuid,
        request: &PageRequest,
    ) -> Result<Page<RunnerProfile>, StoreError> {
        let page = self.page::<ProfileItem>(partition(org), request, |_| true).await?;
        let items = page.items.into_iter().map(ProfileItem::read).collect::<Result<_, _>>()?;
        Ok(Page { items, next: page.next })
    }

    /// Which agents each profile of an organization names. One read unit for each 4 KB of the
    /// profiles.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn agents_of_profiles(&self, org: OrgUuid) -> Result<Vec<ProfileAgents>, StoreError> {
        self.all(partition(org), usize::MAX).await
    }

    /// Writes a changed profile, on condition that it has the version before. Keys and write units
    /// as in [`Table::create_runner_profile`].
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_runner_profile(
        &self,
        org: OrgUuid,
        profile: &RunnerProfile,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "update runner profile";
        let key = keys::runner_profile(org, &profile.id);
        let item = to_item(OPERATION, &key, &ProfileItem::from(profile))?;
        let condition = Condition::unchanged(profile.created_at, profile.version.saturating_sub(1));
        let items = vec![put(self, item, condition), audit::record(self, org, record)?];
        let done = self.transact(OPERATION, profile.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Deletes a profile, on condition that it exists. Later deployments that need it fail with a
    /// message that names it. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_runner_profile(
        &self,
        org: OrgUuid,
        id: &RunnerProfileId,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let key = keys::runner_profile(org, id);
        let items =
            vec![delete(self, &key, Condition::present()), audit::record(self, org, record)?];
        let done = self.transact("delete runner profile", id.as_str(), items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }
}

fn partition(org: OrgUuid) -> Partition<'static> {
    let pk = keys::runner_profiles(org);
    Partition { operation: "list runner profiles", pk, prefix: None, descending: false }
}
