//! Removes what an organization keeps no longer: a bounded part in each call, from the oldest on.
//!
//! A call first writes when the next one continues, so that of several launchers one does the work, and a launcher that
//! stops is replaced. It then removes, and at last writes how far it is. Each removal may be repeated: a call that did not
//! reach its end is done again from where the one before it began.

use crate::{LaunchError, Launcher};
use canyon_domain::audit::AuditRecord;
use canyon_domain::causes::Causes;
use canyon_domain::deployment::Deployment;
use canyon_domain::deployment_expiry::Expiry;
use canyon_domain::ids::{DeploymentId, EnvId, OrgUuid, ProjectId};
use canyon_domain::inventory::Environment;
use canyon_domain::logs_removal::LogsRemoval;
use canyon_domain::retention::{Progress, RemovedCounts, Retention, RetentionSetting};
use canyon_store::StoreError;
use canyon_store::deployment_item::Wake;
use canyon_store::deployment_removal::RunList;
use canyon_store::outcome::{Deleted, Saved};
use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// The pause between two rounds of an organization. A round reads each deployment that is older than its limit.
const ROUND_PAUSE: SignedDuration = SignedDuration::from_hours(24);
/// How long other launchers leave the organization to this one.
const LEASE: SignedDuration = SignedDuration::from_mins(5);
/// How long one call begins new removals. An invocation of the sweep ends after a minute.
const CALL_TIME: Duration = Duration::from_secs(20);
/// Most deployments that one call reads, and most audit records that it removes.
const MAX_PER_CALL: i32 = 500;
/// How many deployments are read at once.
const READS: usize = 16;

/// One call.
struct Call<'a> {
    launcher: &'a Launcher,
    org: OrgUuid,
    retention: Retention,
    now: Timestamp,
    /// From then on it begins no removal.
    until: Instant,
    environments: HashMap<(ProjectId, EnvId), Option<Environment>>,
}

impl Launcher {
    /// Removes the next part of what an organization keeps no longer, if that is due. Does nothing if another launcher
    /// does it.
    pub(crate) async fn apply_retention(&self, org: OrgUuid) -> Result<(), LaunchError> {
        let now = self.clock.now();
        let Some(mut setting) = self.table.retention(org).await? else { return Ok(()) };
        if setting.due_at > now {
            return Ok(());
        }
        setting.due_at = now + LEASE;
        setting.version += 1;
        if self.table.save_retention(org, &setting, None).await? == Saved::Lost {
            return Ok(());
        }
        let mut call = Call {
            launcher: self,
            org,
            retention: setting.retention,
            now,
            until: Instant::now() + CALL_TIME,
            environments: HashMap::new(),
        };
        let mut progress = setting.progress;
        let is_complete = call.deployments(RunList::Deployments, &mut progress).await?
            && call.deployments(RunList::ChecksForDrift, &mut progress).await?
            && call.audit_records(&mut progress).await?;
        self.save_progress(org, setting, progress, is_complete).await
    }

    /// Writes how far the call is; nothing if an administrator has changed the setting meanwhile.
    async fn save_progress(
        &self,
        org: OrgUuid,
        mut setting: RetentionSetting,
        progress: Progress,
        is_complete: bool,
    ) -> Result<(), LaunchError> {
        let now = self.clock.now();
        let has_removed = progress.removed != RemovedCounts::default();
        let record = (is_complete && has_removed)
            .then(|| AuditRecord::of_retention(self.entropy.id(now), now, &progress.removed));
        setting.progress = progress;
        setting.due_at = now;
        if is_complete {
            setting.due_at = now + ROUND_PAUSE;
            setting.progress = Progress { audit_from: progress.audit_from, ..Progress::default() };
        }
        setting.version += 1;
        self.table.save_retention(org, &setting, record.as_ref()).await?;
        Ok(())
    }
}

/// How far the walk of a list is.
fn position(progress: &mut Progress, list: RunList) -> &mut Option<DeploymentId> {
    match list {
        RunList::Deployments => &mut progress.walked_to,
        RunList::ChecksForDrift => &mut progress.checks_walked_to,
    }
}

impl Call<'_> {
    fn has_time(&self) -> bool {
        Instant::now() < self.until
    }

    /// Walks on from the last deployment that this round has looked at. Returns whether the round has looked at all.
    async fn deployments(
        &mut self,
        list: RunList,
        progress: &mut Progress,
    ) -> Result<bool, LaunchError> {
        let Some(before) = self.retention.logs_before(self.now) else { return Ok(true) };
        let table = &self.launcher.table;
        let walked_to = *position(progress, list);
        let ids = table.oldest_deployments(self.org, list, walked_to, before, MAX_PER_CALL).await?;
        let is_last = ids.len() < usize::try_from(MAX_PER_CALL).unwrap_or(usize::MAX);
        let org = self.org;
        let read = |id: DeploymentId| async move { (id, table.deployment(org, id).await) };
        let mut found = futures::stream::iter(ids).map(read).buffered(READS);
        while let Some((id, deployment)) = found.next().await {
            if !self.has_time() {
                return Ok(false);
            }
            let done = match deployment {
                Ok(Some(deployment)) => self.remove(deployment, progress).await,
                Ok(None) => Ok(true),
                Err(error) => Err(error.into()),
            };
            match done {
                Ok(true) => *position(progress, list) = Some(id),
                // The next call continues with it.
                Ok(false) => return Ok(false),
                Err(LaunchError::Store(error @ StoreError::Corrupt { .. })) => {
                    let error = Causes(&error);
                    tracing::warn!(%error, deployment = %id, "keeps a deployment that it cannot read");
                    *position(progress, list) = Some(id);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(is_last)
    }

    /// Removes what is to be removed of a deployment. Returns whether nothing is left of that.
    async fn remove(
        &mut self,
        mut deployment: Deployment,
        progress: &mut Progress,
    ) -> Result<bool, LaunchError> {
        let now = self.now;
        // Most are too young, or are done: they need no environment.
        if self.retention.expiry(&deployment, None, now) == Expiry::Nothing {
            return Ok(true);
        }
        let environment = self.environment(&deployment).await?;
        let expiry = self.retention.expiry(&deployment, environment.as_ref(), now);
        let (Expiry::Logs { days } | Expiry::Deployment { days }) = expiry else { return Ok(true) };
        // First of all, so that readers learn why parts of the log are missing.
        if deployment.logs_removed.is_none() {
            let removal = LogsRemoval { at: now, days, pending: true };
            if !self.mark(&mut deployment, removal).await? {
                return Ok(true);
            }
        }
        let (blobs, table, id) = (&self.launcher.blobs, &self.launcher.table, deployment.id);
        let is_whole = matches!(expiry, Expiry::Deployment { .. });
        loop {
            let is_empty = if is_whole {
                blobs.remove_of_deployment(self.org, id).await?
            } else {
                blobs.remove_streams(self.org, id).await?
            };
            if is_empty {
                break;
            }
            if !self.has_time() {
                return Ok(false);
            }
        }
        if is_whole {
            let removed = table.remove_deployment(self.org, &deployment).await? == Deleted::Yes;
            progress.removed.deployments += u64::from(removed);
        } else if let Some(removal) = deployment.logs_removed {
            let done = LogsRemoval { pending: false, ..removal };
            let marked = self.mark(&mut deployment, done).await?;
            progress.removed.logs += u64::from(marked);
        }
        Ok(true)
    }

    /// Returns `false` if another process has changed the deployment: the next round looks at it again.
    async fn mark(
        &self,
        deployment: &mut Deployment,
        removal: LogsRemoval,
    ) -> Result<bool, LaunchError> {
        deployment.logs_removed = Some(removal);
        deployment.version += 1;
        let saved = self.launcher.table.save_deployment(self.org, deployment, Wake::None).await?;
        Ok(saved == Saved::Yes)
    }

    /// The environment of the deployment's project and name. An environment never begins to need a deployment that ended
    /// long ago, so one read for all its deployments is enough.
    async fn environment(&mut self, of: &Deployment) -> Result<Option<Environment>, LaunchError> {
        let name = (of.project.clone(), of.env.clone());
        if let Some(known) = self.environments.get(&name) {
            return Ok(known.clone());
        }
        let found = self.launcher.table.environment(self.org, &of.project, &of.env).await?;
        self.environments.insert(name, found.clone());
        Ok(found)
    }

    /// Removes audit records, and returns whether none is left to remove.
    async fn audit_records(&self, progress: &mut Progress) -> Result<bool, LaunchError> {
        let Some(before) = self.retention.audit_before(self.now) else { return Ok(true) };
        if !self.has_time() {
            return Ok(false);
        }
        let table = &self.launcher.table;
        let from = match progress.audit_from {
            Some(from) => from,
            None => match table.organization(self.org).await? {
                Some(organization) => organization.created_at,
                None => return Ok(true),
            },
        };
        let most = usize::try_from(MAX_PER_CALL).unwrap_or(1);
        let done = table.remove_audit_records(self.org, from, before, most).await?;
        progress.removed.audit_records += done.removed as u64;
        progress.audit_from = Some(done.from);
        Ok(done.is_complete)
    }
}
