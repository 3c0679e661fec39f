//! The execution environments of a function: idle ones, and how many may run.

use super::environment::Environment;
use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Busy and idle environments.
pub(super) struct Pool {
    state: Mutex<State>,
}

struct State {
    idle: Vec<Environment>,
    busy: usize,
    limit: usize,
    /// Only processes of this generation may be used again.
    generation: u64,
    variables: Arc<BTreeMap<String, String>>,
    /// Cancelled, it kills the processes that were started since the last kill.
    alive: CancellationToken,
}

/// The right to run one invocation.
pub(super) struct Permit {
    pool: Arc<Pool>,
    generation: u64,
    /// The variables of a new process.
    pub(super) variables: Arc<BTreeMap<String, String>>,
    /// Cancelled, it kills a new process.
    pub(super) alive: CancellationToken,
}

impl Pool {
    pub(super) fn new(limit: usize, variables: BTreeMap<String, String>) -> Arc<Self> {
        let state = State {
            idle: Vec::new(),
            busy: 0,
            limit,
            generation: 0,
            variables: Arc::new(variables),
            alive: CancellationToken::new(),
        };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// A permit and, if one is idle, a process. `None` if too many run already.
    pub(super) fn take(self: &Arc<Self>) -> Option<(Permit, Option<Environment>)> {
        let mut state = self.lock();
        if state.busy >= state.limit {
            return None;
        }
        state.busy += 1;
        let mut warm = state.idle.pop();
        while warm.as_mut().is_some_and(|environment| !environment.is_alive()) {
            warm = state.idle.pop();
        }
        let permit = Permit {
            pool: self.clone(),
            generation: state.generation,
            variables: state.variables.clone(),
            alive: state.alive.clone(),
        };
        Some((permit, warm))
    }

    /// Sets how many may run at once. Running invocations continue.
    pub(super) fn limit(&self, limit: usize) {
        self.lock().limit = limit;
    }

    /// Gives later processes other variables, and returns the idle ones to be ended. Busy ones end
    /// after their work.
    pub(super) fn renew(&self, variables: Option<BTreeMap<String, String>>) -> Vec<Environment> {
        let mut state = self.lock();
        state.generation += 1;
        if let Some(variables) = variables {
            state.variables = Arc::new(variables);
        }
        mem::take(&mut state.idle)
    }

    /// Kills the busy processes, and returns the idle ones to be killed.
    pub(super) fn kill(&self) -> Vec<Environment> {
        mem::take(&mut self.lock().alive).cancel();
        self.renew(None)
    }

    /// How many invocations run.
    pub(super) fn busy(&self) -> usize {
        self.lock().busy
    }

    /// The process ids of the idle environments.
    pub(super) fn idle(&self) -> Vec<i32> {
        self.lock().idle.iter().map(Environment::pid).collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    /// Ends the invocation. The process is kept for the next one if it is still usable.
    pub(super) fn give_back(self, mut environment: Environment) {
        if environment.is_alive() {
            let mut state = self.pool.lock();
            if state.generation == self.generation {
                state.idle.push(environment);
            }
        }
        // Dropping `self` takes the lock again, so the guard above must be dropped first.
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.pool.lock().busy -= 1;
    }
}
