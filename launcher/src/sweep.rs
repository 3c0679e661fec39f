//! The sweep: finds what is due in the table and reconciles it.

use crate::fair_slots::FairSlots;
use crate::reconcile::ReconcileTrigger;
use crate::{LaunchError, Launcher};
use canyon_dispatch::JobRef;
use canyon_domain::causes::Causes;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::OrgUuid;
use canyon_store::deployment_lists::Due;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

/// The maximum number of deployments that one pass reads from each shard; the next pass reads the
/// rest.
const MAX_DUE: i32 = 1_000;
/// The maximum number of concurrent reconciliations of all organizations; a single organization
/// gets half of them. See [`FairSlots`].
const MAX_AT_ONCE: usize = 64;
/// The minimum interval between two searches for requested checks, after a hint. Users wait for
/// checks, but hints follow every write.
const CHECK_SEARCH_PAUSE: SignedDuration = SignedDuration::from_millis(500);
/// The interval without a hint: where hints do not exist, and for checks requested before this
/// process began. Each invocation of the sweep function searches once.
const CHECK_SEARCH_INTERVAL: SignedDuration = SignedDuration::from_secs(30);

/// The minimum interval between two searches for organizations whose retention is due.
const RETENTION_SEARCH_INTERVAL: SignedDuration = SignedDuration::from_secs(10);

/// What a pass found in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The due deployments, all of which are being reconciled by this pass or an earlier one.
    pub due: Vec<Due>,
    /// How long the deployment that waits longest has been due.
    pub oldest: SignedDuration,
}

/// When the last search for requested checks was.
struct CheckSearches {
    last: Timestamp,
    /// Whether something was written since.
    hinted: bool,
}

/// Reconciles what is due, each deployment in at most one task at a time. Cheap to clone.
#[derive(Clone)]
pub struct Sweeper {
    launcher: Launcher,
    busy: Arc<Mutex<HashSet<Due>>>,
    slots: FairSlots,
    checks: Arc<Mutex<CheckSearches>>,
    last_retention_search: Arc<Mutex<Timestamp>>,
}

impl Sweeper {
    /// Creates a sweeper for `launcher`.
    pub fn new(launcher: Launcher) -> Self {
        Self {
            launcher,
            busy: Arc::default(),
            slots: FairSlots::new(MAX_AT_ONCE),
            checks: Arc::new(Mutex::new(CheckSearches { last: Timestamp::MIN, hinted: false })),
            last_retention_search: Arc::new(Mutex::new(Timestamp::MIN)),
        }
    }

    /// Begins to reconcile everything that is due now, and returns before that is done. Skips
    /// deployments that are already being reconciled.
    ///
    /// # Errors
    ///
    /// [`LaunchError::Store`] if the index cannot be read. What is due stays due.
    pub async fn pass(&self, tasks: &mut JoinSet<()>) -> Result<Pass, LaunchError> {
        let now = self.launcher.clock.now();
        let due = self.launcher.table.due_since(now, MAX_DUE).await?;
        let oldest = due.first().map_or(SignedDuration::ZERO, |(at, _)| now.duration_since(*at));
        let due: Vec<_> = due.into_iter().map(|(_, due)| due).collect();
        for due in &due {
            self.begin(*due, ReconcileTrigger::Due, tasks);
        }
        if self.is_time_for_checks(now) {
            self.begin_checks(now, tasks).await;
        }
        if self.is_time_for_retention(now) {
            self.begin_retention(now, tasks).await;
        }
        while tasks.try_join_next().is_some() {}
        Ok(Pass { due, oldest })
    }

    /// The launcher that it uses.
    pub fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// Reconciles the deployment of a job that its platform reports as gone. Returns `false` if the
    /// deployment has ended already and Canyon has read what its job left, so that it may be removed.
    ///
    /// # Errors
    ///
    /// [`LaunchError::Store`] if the table cannot be read.
    pub async fn job_gone(
        &self,
        org: OrgUuid,
        job: &JobRef,
        tasks: &mut JoinSet<()>,
    ) -> Result<bool, LaunchError> {
        let due = Due { org, id: job.deployment };
        let Some(found) = self.launcher.table.deployment(org, job.deployment).await? else {
            return self.job_of_another_gone(job, tasks).await;
        };
        let is_active = !found.status.is_terminal();
        let is_unread = found.to_salvage().is_some();
        if is_active {
            self.begin(due, ReconcileTrigger::JobGone, tasks);
        } else if is_unread {
            self.clean_up_ended(due, Some(found), tasks);
        }
        Ok(is_active || is_unread)
    }

    /// The same for a job of an organization that is not known: a laptop may have several. Every deployment that has not ended
    /// is in the index of due deployments, at some time.
    async fn job_of_another_gone(
        &self,
        job: &JobRef,
        tasks: &mut JoinSet<()>,
    ) -> Result<bool, LaunchError> {
        let active = self.launcher.table.due(Timestamp::MAX, i32::MAX).await?;
        let found = active.into_iter().find(|due| due.id == job.deployment);
        if let Some(due) = found {
            self.begin(due, ReconcileTrigger::JobGone, tasks);
        }
        Ok(found.is_some())
    }

    /// Cleans up after a deployment whose end the API has written, where no sweep would do it. `image` is the deployment
    /// as a write or a read has left it, if the caller has it.
    pub fn clean_up_ended(&self, ended: Due, image: Option<Deployment>, tasks: &mut JoinSet<()>) {
        let launcher = self.launcher.clone();
        let work = async move { launcher.reconcile_ended(ended, image).await };
        self.spawn(ended, self.mark_busy(ended), work, tasks);
    }

    /// Notes that something was written, perhaps a request for a check. One of the next passes
    /// searches for checks.
    pub fn note_write(&self) {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).hinted = true;
    }

    fn is_time_for_checks(&self, now: Timestamp) -> bool {
        let mut searches = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = if searches.hinted { CHECK_SEARCH_PAUSE } else { CHECK_SEARCH_INTERVAL };
        let is_time = now.duration_since(searches.last) >= pause;
        if is_time {
            *searches = CheckSearches { last: now, hinted: false };
        }
        is_time
    }

    /// Begins the requested checks of runners. If several launchers find one, the first to write
    /// runs it.
    async fn begin_checks(&self, now: Timestamp, tasks: &mut JoinSet<()>) {
        let open = match self.launcher.table.open_checks(now).await {
            Ok(open) => open,
            Err(error) => {
                tracing::warn!(error = %Causes(&error), "cannot search for requested checks of runners");
                return;
            }
        };
        for check in open {
            let sweeper = self.clone();
            tasks.spawn(async move {
                let _slot = sweeper.slots.take(check.org).await;
                if let Err(error) = sweeper.launcher.check(&check).await {
                    let error = Causes(&error);
                    tracing::warn!(%error, runner = %check.runner, "cannot check the runner now");
                }
            });
        }
    }

    fn is_time_for_retention(&self, now: Timestamp) -> bool {
        let mut last = self.last_retention_search.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = now.duration_since(*last) >= RETENTION_SEARCH_INTERVAL;
        if is_time {
            *last = now;
        }
        is_time
    }

    /// Begins to remove what organizations keep no longer. If several launchers find one, the first to write does it.
    async fn begin_retention(&self, now: Timestamp, tasks: &mut JoinSet<()>) {
        let due = match self.launcher.table.due_retentions(now).await {
            Ok(due) => due,
            Err(error) => {
                tracing::warn!(error = %Causes(&error), "cannot search for due retentions");
                return;
            }
        };
        for org in due {
            let sweeper = self.clone();
            tasks.spawn(async move {
                let _slot = sweeper.slots.take(org).await;
                if let Err(error) = sweeper.launcher.apply_retention(org).await {
                    let error = Causes(&error);
                    tracing::warn!(%error, %org, "cannot remove now what the organization keeps no longer");
                }
            });
        }
    }

    /// Begins to reconcile a due deployment that a write has left as `image`, unless that is being done already.
    pub fn begin_written(&self, due: Due, image: Deployment, tasks: &mut JoinSet<()>) {
        let busy = self.mark_busy(due);
        if busy.is_none() {
            return;
        }
        let launcher = self.launcher.clone();
        let work = async move { launcher.reconcile_written(due, image).await };
        self.spawn(due, busy, work, tasks);
    }

    fn begin(&self, due: Due, trigger: ReconcileTrigger, tasks: &mut JoinSet<()>) {
        let busy = self.mark_busy(due);
        if busy.is_none() && trigger == ReconcileTrigger::Due {
            return;
        }
        let launcher = self.launcher.clone();
        let work = async move { launcher.reconcile(due, trigger).await };
        self.spawn(due, busy, work, tasks);
    }

    /// `None` if the deployment is being reconciled already.
    fn mark_busy(&self, due: Due) -> Option<Busy> {
        let is_new = self.busy.lock().unwrap_or_else(PoisonError::into_inner).insert(due);
        is_new.then(|| Busy { due, all: self.busy.clone() })
    }

    /// `busy` was created outside the task, because a task may be dropped before it has run at all.
    fn spawn(
        &self,
        due: Due,
        busy: Option<Busy>,
        work: impl Future<Output = Result<(), LaunchError>> + Send + 'static,
        tasks: &mut JoinSet<()>,
    ) {
        let slots = self.slots.clone();
        tasks.spawn(async move {
            let _busy = busy;
            let _slot = slots.take(due.org).await;
            if let Err(error) = work.await {
                let error = Causes(&error);
                tracing::warn!(%error, deployment = %due.id, "cannot reconcile the deployment now");
            }
        });
    }
}

/// Marks a deployment as being reconciled, until its task ends, panics or is dropped.
struct Busy {
    due: Due,
    all: Arc<Mutex<HashSet<Due>>>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.due);
    }
}
