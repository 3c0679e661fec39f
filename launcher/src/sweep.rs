//! Everything that is due.

use crate::places::Places;
use crate::tend::Why;
use crate::{LaunchError, Launcher};
use canyon_dispatch::JobRef;
use canyon_domain::causes::Causes;
use canyon_store::deployment_lists::Due;
use jiff::{SignedDuration, Timestamp};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

/// The most that one pass takes from each shard; the next pass takes the rest.
const MAX_DUE: i32 = 1_000;
/// The most deployments that are tended at once, of all organizations: half of them if there is but
/// one. See [`Places`].
const MAX_AT_ONCE: usize = 64;
/// Between two looks for checks of runners, after a hint. People ask for those; hints follow every
/// write.
const CHECKS_PAUSE: SignedDuration = SignedDuration::from_millis(500);
/// Between two without a hint: where there are none, and for a check that was asked for before this
/// process began. Each invocation of a sweep makes one.
const CHECKS_ANYWAY: SignedDuration = SignedDuration::from_secs(30);

/// What a look at the index found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pass {
    /// What is due, and therefore being tended, because of this look or an earlier one.
    pub due: Vec<Due>,
    /// How long the one that waits longest has been due.
    pub oldest: SignedDuration,
}

/// When checks of runners were last looked for.
struct CheckLooks {
    last: Timestamp,
    /// Something was written since.
    hinted: bool,
}

/// Tends what is due, each deployment once at a time. Cheap to clone.
#[derive(Clone)]
pub struct Sweeper {
    launcher: Launcher,
    busy: Arc<Mutex<HashSet<Due>>>,
    places: Places,
    checks: Arc<Mutex<CheckLooks>>,
}

impl Sweeper {
    /// A sweeper for `launcher`.
    pub fn new(launcher: Launcher) -> Self {
        Self {
            launcher,
            busy: Arc::default(),
            places: Places::new(MAX_AT_ONCE),
            checks: Arc::new(Mutex::new(CheckLooks { last: Timestamp::MIN, hinted: false })),
        }
    }

    /// Begins to tend everything that is due now, and returns before that is done. A deployment
    /// that is being tended is left to it.
    ///
    /// # Errors
    ///
    /// [`LaunchError`] when the table cannot be asked; nothing is lost, since what is due stays so.
    pub async fn pass(&self, tasks: &mut JoinSet<()>) -> Result<Pass, LaunchError> {
        let now = self.launcher.clock.now();
        let due = self.launcher.table.due_since(now, MAX_DUE).await?;
        let oldest = due.first().map_or(SignedDuration::ZERO, |(at, _)| now.duration_since(*at));
        let due: Vec<_> = due.into_iter().map(|(_, due)| due).collect();
        for due in &due {
            self.begin(*due, Why::Due, tasks);
        }
        if self.is_time_for_checks(now) {
            self.begin_checks(now, tasks).await;
        }
        while tasks.try_join_next().is_some() {}
        Ok(Pass { due, oldest })
    }

    /// What it tends with.
    pub fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// The platform says that a job is gone: tends its deployment. `false` if that is at its end, so
    /// that what its job left may go.
    ///
    /// # Errors
    ///
    /// As [`Sweeper::pass`].
    pub async fn job_gone(
        &self,
        job: &JobRef,
        tasks: &mut JoinSet<()>,
    ) -> Result<bool, LaunchError> {
        // A deployment that is not at its end is in the index of what is due, at some time.
        let active = self.launcher.table.due(Timestamp::MAX, i32::MAX).await?;
        let due = active.into_iter().find(|due| due.id == job.deployment);
        if let Some(due) = due {
            self.begin(due, Why::JobGone, tasks);
        }
        Ok(due.is_some())
    }

    /// The API has written the end of a deployment, and nobody comes back for it: what its job left may go.
    pub fn ended(&self, ended: Due, tasks: &mut JoinSet<()>) {
        self.begin(ended, Why::Ended, tasks);
    }

    /// Something was written: perhaps somebody asks for a check. One of the next passes looks.
    pub fn hinted(&self) {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).hinted = true;
    }

    fn is_time_for_checks(&self, now: Timestamp) -> bool {
        let mut looks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = if looks.hinted { CHECKS_PAUSE } else { CHECKS_ANYWAY };
        let is_time = now.duration_since(looks.last) >= pause;
        if is_time {
            *looks = CheckLooks { last: now, hinted: false };
        }
        is_time
    }

    /// Begins the checks of runners that somebody waits for. Whoever is first does one.
    async fn begin_checks(&self, now: Timestamp, tasks: &mut JoinSet<()>) {
        let open = match self.launcher.table.open_checks(now).await {
            Ok(open) => open,
            Err(error) => {
                tracing::warn!(error = %Causes(&error), "cannot look for checks of runners");
                return;
            }
        };
        for check in open {
            let sweeper = self.clone();
            tasks.spawn(async move {
                let _place = sweeper.places.take(check.org).await;
                if let Err(error) = sweeper.launcher.check(&check).await {
                    let error = Causes(&error);
                    tracing::warn!(%error, runner = %check.runner, "cannot check the runner now");
                }
            });
        }
    }

    fn begin(&self, due: Due, why: Why, tasks: &mut JoinSet<()>) {
        let is_new = self.busy.lock().unwrap_or_else(PoisonError::into_inner).insert(due);
        if !is_new && why == Why::Due {
            return;
        }
        let sweeper = self.clone();
        // Made here: a task may be dropped before it has run at all.
        let busy = Busy { due, all: self.busy.clone() };
        tasks.spawn(async move {
            let _busy = busy;
            let _place = sweeper.places.take(due.org).await;
            if let Err(error) = sweeper.launcher.tend(due, why).await {
                let error = Causes(&error);
                tracing::warn!(%error, deployment = %due.id, "cannot tend the deployment now");
            }
        });
    }
}

/// A deployment that is being tended: until its task ends, also by a panic or because it is dropped.
struct Busy {
    due: Due,
    all: Arc<Mutex<HashSet<Due>>>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.due);
    }
}
