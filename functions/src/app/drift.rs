//! Drift of environments: checks are requested, their findings recorded and read.

use super::App;
use super::deploy::DeploymentRequest;
use crate::app::error::AppError;
use canyon_api::drift::{
    DriftCheck, DriftDetails, DriftReportBody, DriftedContainer, DriftedResource,
};
use canyon_domain::deployment::{Deployment, Mode, Priority};
use canyon_domain::drift::{
    DriftFinding, DriftRecord, DriftStatus, IgnoreRule, MAX_ATTRIBUTES, MAX_CHANGES,
};
use canyon_domain::ids::{EnvId, OrgUuid, ProjectId};
use canyon_domain::inventory::Environment;
use canyon_domain::principal::{Principal, Role};
use canyon_identity::bearer::AttemptRef;
use canyon_store::blob_keys::BlobKey;
use canyon_store::deployment_lists::DeploymentFilter;
use canyon_store::page::{Page, PageRequest};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// How many checks a reader sees.
const HISTORY: u32 = 30;

/// What is stored of a check's findings.
#[derive(Default, Serialize, Deserialize)]
struct StoredDrift {
    changes: Vec<DriftedResource>,
    truncated: bool,
}

impl DeploymentRequest {
    /// The request of a check.
    pub(crate) fn drift_check(project: ProjectId, env: EnvId) -> Self {
        let check = Self::new(Mode::Drift, project, env);
        Self { plan_only: true, priority: Priority::Background, ..check }
    }
}

impl App {
    /// Begins a check of an environment, or returns the one that is open.
    ///
    /// # Errors
    ///
    /// 403 and 404 as a deployment; 409 while a deployment runs or waits there, or if nothing was deployed.
    pub(crate) async fn check_drift(
        &self,
        by: &Principal,
        project: ProjectId,
        env: EnvId,
    ) -> Result<Deployment, AppError> {
        let environment = self.environment(by, Role::Deployer, &project, &env).await?;
        if environment.module.applied.is_none() {
            return Err(AppError::conflict(format!(
                "nothing is deployed to environment `{env}`, so there is nothing to compare: deploy to it first"
            )));
        }
        if let Some(open) = environment.drift.and_then(|drift| drift.checking)
            && let Some(check) = self.table.deployment(by.org, open).await?
        {
            return Ok(check);
        }
        self.deploy(by, &DeploymentRequest::drift_check(project, env), None).await
    }

    /// The drift of an environment, with what its last check has found.
    pub(crate) async fn drift(
        &self,
        by: &Principal,
        project: &ProjectId,
        env: &EnvId,
    ) -> Result<DriftDetails, AppError> {
        let environment = self.environment(by, Role::Viewer, project, env).await?;
        let filter = DeploymentFilter::Checks(environment.uuid);
        let newest = PageRequest { limit: HISTORY, after: None };
        let checks = self.table.deployments(by.org, &filter, &newest).await?;
        let StoredDrift { changes, truncated } = match environment.drift.as_deref() {
            Some(known) => self.findings(by.org, known).await?,
            None => StoredDrift::default(),
        };
        Ok(DriftDetails {
            drift: (&environment).into(),
            changes,
            truncated,
            drifted_resources: DriftedContainer::all_of(&environment),
            history: checks.items.iter().map(as_check).collect(),
        })
    }

    /// What the last check has found; nothing if a deployment has put an end to that, or if a retention has removed the check.
    async fn findings(&self, org: OrgUuid, known: &DriftRecord) -> Result<StoredDrift, AppError> {
        let differs = known.found.num_drifted > 0 || known.found.num_ignored > 0;
        let Some(id) = known.check.filter(|_| differs && known.status != DriftStatus::Unknown)
        else {
            return Ok(StoredDrift::default());
        };
        let check = self.table.deployment(org, id).await?;
        let attempt = check.as_ref().and_then(|check| check.attempts.last());
        let Some(attempt) = attempt else { return Ok(StoredDrift::default()) };
        let stored = self.blobs.get(&BlobKey::drift(org, id, attempt.number)).await?;
        let Some(stored) = stored else { return Ok(StoredDrift::default()) };
        serde_json::from_slice(&stored).map_err(|error| {
            tracing::error!(%error, deployment = %id, "its findings cannot be read");
            AppError::internal()
        })
    }

    /// A page of the environments that the caller may read, each with its drift.
    pub(crate) async fn drifts(
        &self,
        by: &Principal,
        project: Option<&ProjectId>,
        status: Option<DriftStatus>,
        page: &PageRequest,
    ) -> Result<Page<Environment>, AppError> {
        let wanted = |env: &Environment| {
            let known = env.drift.as_ref().map(|drift| drift.status).unwrap_or_default();
            status.is_none_or(|status| status == known) && by.role_in(env.into()) >= Role::Viewer
        };
        Ok(self.table.environments(by.org, project, page, wanted).await?)
    }

    /// Stores what a check has found, as far as its environment does not ignore it.
    pub(super) async fn record_drift(
        &self,
        of: AttemptRef,
        deployment: &mut Deployment,
        report: &DriftReportBody,
    ) -> Result<(), AppError> {
        let rules = self.ignore_rules(of.org, deployment).await?;
        let mut changes = report.changes.clone();
        changes.truncate(MAX_CHANGES);
        for change in &mut changes {
            change.ignored =
                rules.iter().any(|rule| rule.covers(&change.address, &change.attributes));
            change.attributes.truncate(MAX_ATTRIBUTES);
        }
        let ignored = changes.iter().filter(|change| change.ignored).count();
        let num_ignored = u32::try_from(ignored).unwrap_or(u32::MAX);
        let counted = u32::try_from(changes.len()).unwrap_or(u32::MAX).max(report.num_drifted);
        let num_drifted = counted.saturating_sub(num_ignored);
        deployment.drift = Some(Box::new(DriftFinding {
            num_resources: report.num_resources,
            num_drifted,
            num_ignored,
            addresses: (num_drifted > 0).then(|| digest_of(&changes, num_drifted)),
            news: None,
        }));
        let truncated = counted as usize > changes.len();
        let key = BlobKey::drift(of.org, of.deployment, of.number);
        self.put_json(&key, &StoredDrift { changes, truncated }).await
    }

    async fn ignore_rules(
        &self,
        org: OrgUuid,
        of: &Deployment,
    ) -> Result<Vec<IgnoreRule>, AppError> {
        let found = self.table.environment(org, &of.project, &of.env).await?;
        let found = found.filter(|found| found.uuid == of.env_uuid).and_then(|found| found.drift);
        Ok(found.map(|drift| drift.ignore).unwrap_or_default())
    }
}

/// A digest of what differs: a check that finds the same has the same.
fn digest_of(changes: &[DriftedResource], num_drifted: u32) -> String {
    let mut lines: Vec<_> = changes
        .iter()
        .filter(|change| !change.ignored)
        .map(|change| format!("{}\t{:?}\n", change.address, change.action))
        .collect();
    lines.sort_unstable();
    // Beyond those that are listed, their number alone is known.
    lines.push(num_drifted.to_string());
    let digest = Sha256::digest(lines.concat());
    hex::encode(digest.get(..16).unwrap_or_default())
}

fn as_check(of: &Deployment) -> DriftCheck {
    DriftCheck {
        deployment_id: of.id.0,
        created_at: of.created_at,
        completed_at: of.completed_at,
        status: of.status.as_str().to_owned(),
        message: of.message.clone(),
        num_drifted: of.drift.as_ref().map(|found| found.num_drifted),
    }
}
