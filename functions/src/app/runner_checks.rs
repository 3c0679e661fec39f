//! Requests for a check of a runner, and the trust that clouds need for it. Only the launcher calls a platform, so a
//! check is written to the table here, and its results are read from there.

use super::App;
use super::runners::{stored_definition, unusable};
use crate::app::error::AppError;
use canyon_domain::ids::{RunnerCheckId, RunnerId};
use canyon_domain::principal::Principal;
use canyon_domain::runner_check::RunnerCheck;
use canyon_domain::trust::{self, Identity, Trust};
use canyon_identity::issuer::jobs_issuer_url;
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::Saved;
use std::time::Duration;

impl App {
    /// Requests a check. If one is open, returns that one.
    pub(crate) async fn ask_for_check(
        &self,
        by: &Principal,
        id: &RunnerId,
    ) -> Result<RunnerCheck, AppError> {
        self.runner(by, id).await?;
        for _ in 0..MAX_TRIES {
            let last = self.table.runner_check(by.org, id).await?;
            let now = self.now();
            if let Some(open) = last.as_ref().filter(|last| last.is_open(now)) {
                return Ok(open.clone());
            }
            let record = self.record(by, "runner.check", format!("runners/{id}"));
            let check_id = RunnerCheckId(self.entropy.id(now));
            let check = RunnerCheck::new(check_id, id.clone(), now);
            let saved = self.table.request_check(by.org, last.as_ref(), &check, &record).await?;
            if saved == Saved::Yes {
                return Ok(check);
            }
        }
        Err(AppError::contended(id))
    }

    /// A check, as soon as it has more than `after` steps or has ended. After `wait` it is returned in its current
    /// state.
    pub(crate) async fn check(
        &self,
        by: &Principal,
        id: &RunnerId,
        check: RunnerCheckId,
        after: usize,
        wait: Duration,
    ) -> Result<RunnerCheck, AppError> {
        let read = async || -> Result<RunnerCheck, AppError> {
            let found = self.table.runner_check(by.org, id).await?;
            found
                .filter(|found| found.id == check)
                .ok_or_else(|| AppError::not_found("check", format!("{check}` of runner `{id}")))
        };
        let read_change = async || -> Result<Option<RunnerCheck>, AppError> {
            let found = read().await?;
            let is_changed = found.steps.len() > after || !found.is_open(self.now());
            Ok(is_changed.then_some(found))
        };
        let waiting = async |wait| self.changes.until(by, wait, read_change).await;
        match self.bounded_wait(by, wait, waiting).await? {
            Some(found) => Ok(found),
            None => read().await,
        }
    }

    /// The subject that a cloud must trust for a runner, and the configuration for that.
    pub(crate) async fn runner_trust(
        &self,
        by: &Principal,
        id: &RunnerId,
    ) -> Result<Trust, AppError> {
        let runner = self.runner(by, id).await?;
        // Users paste the output into shells.
        let usable = stored_definition(&runner)?.usable();
        let definition = usable.map_err(|faults| AppError::conflict(unusable(id, &faults)))?;
        let organization = self.organization(by).await?;
        let who = Identity {
            issuer: &self.issuer_url,
            jobs_issuer: &jobs_issuer_url(&self.issuer_url),
            org_id: &organization.id,
            org: by.org,
            uuid: runner.uuid,
            id,
        };
        Ok(trust::of_runner(who, &definition))
    }
}
