//! Creates, changes and deletes runner profiles.

use super::App;
use crate::app::error::AppError;
use canyon_domain::ids::RunnerProfileId;
use canyon_domain::principal::Principal;
use canyon_domain::runner_profile::{ProfileSettings, RunnerProfile};
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::{Page, PageRequest};
use serde_json::{Map, Value, json};

/// The fields of a profile to change.
#[derive(Clone, Debug)]
pub(crate) struct ProfileChange {
    pub(crate) description: Option<String>,
    pub(crate) agents: Option<Value>,
    pub(crate) job: Option<Map<String, Value>>,
}

impl App {
    /// A page of the runner profiles.
    pub(crate) async fn runner_profiles(
        &self,
        by: &Principal,
        page: &PageRequest,
    ) -> Result<Page<RunnerProfile>, AppError> {
        Ok(self.table.runner_profiles(by.org, page).await?)
    }

    /// Creates a profile.
    pub(crate) async fn create_runner_profile(
        &self,
        by: &Principal,
        id: RunnerProfileId,
        description: Option<String>,
        settings: ProfileSettings,
    ) -> Result<RunnerProfile, AppError> {
        let record = self.record(by, "runner_profile.create", format!("runner-profiles/{id}"));
        let (created_at, updated_at) = (record.at, record.at);
        let profile =
            RunnerProfile { id, description, settings, created_at, updated_at, version: 1 };
        match self.table.create_runner_profile(by.org, &profile, &record).await? {
            Created::Yes => Ok(profile),
            Created::Exists | Created::Missing(_) => Err(AppError::conflict(format!(
                "runner profile `{0}` exists already; change it with: canyon update \
                 runner-profile {0}",
                profile.id
            ))),
        }
    }

    /// A profile. 404 if it does not exist.
    pub(crate) async fn runner_profile(
        &self,
        by: &Principal,
        id: &RunnerProfileId,
    ) -> Result<RunnerProfile, AppError> {
        let found = self.table.runner_profile(by.org, id).await?;
        found.ok_or_else(|| AppError::not_found("runner profile", id))
    }

    /// Changes the fields that `change` gives. Jobs that were launched before do not change.
    pub(crate) async fn update_runner_profile(
        &self,
        by: &Principal,
        id: &RunnerProfileId,
        change: &ProfileChange,
    ) -> Result<RunnerProfile, AppError> {
        for _ in 0..MAX_TRIES {
            let mut profile = self.runner_profile(by, id).await?;
            if change.agents.is_some() || change.job.is_some() {
                let known = || profile.settings.agents.as_ref().map(|agents| json!(agents));
                let none = |agents: &Value| agents.as_object().is_some_and(Map::is_empty);
                let agents = change.agents.clone().or_else(known).filter(|agents| !none(agents));
                let job = change.job.clone().unwrap_or_else(|| profile.settings.job.clone());
                profile.settings = ProfileSettings::parse(agents, job)?;
            }
            if change.description.is_some() {
                profile.description.clone_from(&change.description);
            }
            let record = self.record(by, "runner_profile.update", format!("runner-profiles/{id}"));
            profile.updated_at = record.at;
            profile.version += 1;
            if self.table.save_runner_profile(by.org, &profile, &record).await? == Saved::Yes {
                return Ok(profile);
            }
        }
        Err(AppError::contended(id))
    }

    /// Deletes a profile. Its running jobs continue.
    pub(crate) async fn delete_runner_profile(
        &self,
        by: &Principal,
        id: &RunnerProfileId,
    ) -> Result<(), AppError> {
        let record = self.record(by, "runner_profile.delete", format!("runner-profiles/{id}"));
        match self.table.delete_runner_profile(by.org, id, &record).await? {
            Deleted::Yes => Ok(()),
            Deleted::No => Err(AppError::not_found("runner profile", id)),
        }
    }
}
