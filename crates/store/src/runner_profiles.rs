//! Profiles of runners.

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
    /// As JSON text: an attribute nests 32 levels at most, a pod template may have more.
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

impl Table {
    /// Makes a profile. Keys: it, audit; on condition that its id is free. 4 write units up to 1 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
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
    /// [`StoreError`] as every read.
    pub async fn runner_profile(
        &self,
        org: OrgUuid,
        id: &RunnerProfileId,
    ) -> Result<Option<RunnerProfile>, StoreError> {
        let key = keys::runner_profile(org, id);
        let item: Option<ProfileItem> = self.read("read runner profile", &key).await?;
        item.map(ProfileItem::read).transpose()
    }

    /// The profiles by their names. One read unit for each 4 KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every read.
    pub async fn runner_profiles(
        &self,
        org: OrgUuid,
        request: &PageRequest,
    ) -> Result<Page<RunnerProfile>, StoreError> {
        let partition = Partition {
            operation: "list runner profiles",
            pk: keys::runner_profiles(org),
            prefix: None,
            descending: false,
        };
        let page = self.page::<ProfileItem>(partition, request, |_| true).await?;
        let items = page.items.into_iter().map(ProfileItem::read).collect::<Result<_, _>>()?;
        Ok(Page { items, next: page.next })
    }

    /// Writes a changed profile, on condition that it has the version before. Keys and write units as
    /// for its making.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
    pub async fn save_runner_profile(
        &self,
        org: OrgUuid,
        profile: &RunnerProfile,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "update runner profile";
        let key = keys::runner_profile(org, &profile.id);
        let item = to_item(OPERATION, &key, &ProfileItem::from(profile))?;
        let condition = Condition::version(profile.version.saturating_sub(1));
        let items = vec![put(self, item, condition), audit::record(self, org, record)?];
        let done = self.transact(OPERATION, profile.id.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Deletes a profile, on condition that it is there. Deployments that need it from then on fail, and
    /// say so. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] as every write.
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
