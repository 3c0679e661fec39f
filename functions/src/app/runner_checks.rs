//! Asking for a check of a runner, and what clouds must be told to trust it. Only the launcher calls a
//! platform: here a check is written down, and read again.

use super::App;
use super::runners::{stored_definition, unusable};
use crate::app::error::AppError;
use canyon_domain::ids::{RunnerCheckId, RunnerId};
use canyon_domain::principal::Principal;
use canyon_domain::runner_check::RunnerCheck;
use canyon_domain::trust::{self, Identity, Trust};
use canyon_store::outcome::Saved;
use std::time::Duration;

/// How often a request is tried again when others ask at the same time.
const MAX_TRIES: u32 = 10;

impl App {
    /// Asks for a check. While one is open, that is it.
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
            let saved = self.table.ask_for_check(by.org, last.as_ref(), &check, &record).await?;
            if saved == Saved::Yes {
                return Ok(check);
            }
        }
        Err(AppError::contended(id))
    }

    /// A check, as soon as it has more than `after` steps or is over; after `wait` as it is then.
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
        let look = async || -> Result<Option<RunnerCheck>, AppError> {
            let found = read().await?;
            let is_news = found.steps.len() > after || !found.is_open(self.now());
            Ok(is_news.then_some(found))
        };
        let waiting = async |wait| self.changes.until(by, wait, look).await;
        match self.bounded_wait(by, wait, waiting).await? {
            Some(found) => Ok(found),
            None => read().await,
        }
    }

    /// Whom a cloud is to trust for a runner, and what to configure.
    pub(crate) async fn runner_trust(
        &self,
        by: &Principal,
        id: &RunnerId,
    ) -> Result<Trust, AppError> {
        let runner = self.runner(by, id).await?;
        // What is printed is pasted into shells.
        let usable = stored_definition(&runner)?.usable();
        let definition = usable.map_err(|faults| AppError::conflict(unusable(id, &faults)))?;
        let who = Identity { issuer: self.issuer.url(), org: by.org, uuid: runner.uuid, id };
        Ok(trust::of_runner(who, &definition))
    }
}
