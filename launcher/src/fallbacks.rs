//! Chooses the runner that takes a deployment: the environment's own, or the first of its fallbacks that can.
//!
//! The choice is made once, at the launch of the first attempt: later attempts, and what ends a job, need the platform
//! of the first. A deployment that names its agent has none, and neither has one whose resource definition names its place.

use crate::concurrency::SLOT_RETRY_PAUSE;
use crate::resolved_runner::ResolvedRunner;
use crate::{LaunchError, Launcher};
use canyon_dispatch::AgentNeed;
use canyon_domain::deadline::DEFERRED_CHECK_INTERVAL;
use canyon_domain::deployment::Deployment;
use canyon_domain::failure::shortened;
use canyon_domain::fallback::Fallback;
use canyon_domain::ids::OrgUuid;
use canyon_domain::inventory::Environment;
use canyon_domain::slot::LimitScope;
use canyon_domain::waiting::Hold;
use canyon_store::deployment_lists::Due;
use std::time::Duration;

/// The runner that takes a deployment.
pub(crate) enum TakingRunner {
    /// The environment's own.
    Own,
    /// A fallback, which the deployment now names.
    Fallback(Box<ResolvedRunner>),
    /// None of them, now.
    None(Obstacle),
}

/// Why a runner cannot take a deployment now.
pub(crate) struct Obstacle {
    pub(crate) hold: Hold,
    pub(crate) reason: String,
    /// How long to wait before the next try.
    pub(crate) pause: Duration,
}

impl Launcher {
    /// Asks the runners of `environment` in their order. If a fallback takes `deployment`, changes the deployment's
    /// runner.
    pub(crate) async fn taking_runner(
        &self,
        due: Due,
        deployment: &mut Deployment,
        environment: &Environment,
        own: &ResolvedRunner,
    ) -> Result<TakingRunner, LaunchError> {
        let is_chosen = !deployment.attempts.is_empty()
            || deployment.agent.is_some()
            || deployment.place.is_some();
        if environment.fallback_runner_ids.is_empty() || is_chosen {
            return Ok(TakingRunner::Own);
        }
        let Some(first) = self.obstacle(due.org, deployment, own).await? else {
            return Ok(TakingRunner::Own);
        };
        let (mut reasons, mut pause) = (vec![first.reason.clone()], first.pause);
        let instead_of = deployment.runner.clone();
        let is_container = deployment.container.is_some();
        for runner in &environment.fallback_runner_ids {
            let candidate = Deployment { runner: runner.clone(), ..deployment.clone() };
            let resolved = self.resolve_runner(due, &candidate).await?;
            if let Some(reason) = resolved.start_refusal.clone().filter(|_| is_container) {
                reasons.push(reason);
                continue;
            }
            if !is_container && !keeps_states_alike(own, &resolved) {
                reasons.push(format!("fallback `{runner}` keeps states elsewhere"));
                continue;
            }
            match self.obstacle(due.org, &candidate, &resolved).await? {
                None => {
                    let fallback = Fallback { instead_of, reason: shortened(reasons.join("; ")) };
                    *deployment = Deployment { fallback: Some(fallback), ..candidate };
                    return Ok(TakingRunner::Fallback(Box::new(resolved)));
                }
                Some(obstacle) => {
                    pause = pause.min(obstacle.pause);
                    reasons.push(obstacle.reason);
                }
            }
        }
        Ok(TakingRunner::None(Obstacle { hold: first.hold, reason: reasons.join("; "), pause }))
    }

    /// Why the runner of `deployment` cannot take it now. A runner whose definition has a fault has no obstacle: the
    /// launch ends with that fault, so that its owner learns of it.
    async fn obstacle(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        resolved: &ResolvedRunner,
    ) -> Result<Option<Obstacle>, LaunchError> {
        if let Some(reason) = resolved.hold_reason.clone() {
            let pause = DEFERRED_CHECK_INTERVAL;
            return Ok(Some(Obstacle { hold: Hold::Runner, reason, pause }));
        }
        let pause = SLOT_RETRY_PAUSE;
        if let Some(reason) = resolved.no_agent_reason(AgentNeed::Room).await {
            return Ok(Some(Obstacle { hold: Hold::Agent, reason, pause }));
        }
        let full = self.limit_reason(org, &deployment.runner).await?;
        let hold = Hold::Limit(LimitScope::Runner(deployment.runner.clone()));
        Ok(full.map(|reason| Obstacle { hold, reason, pause }))
    }
}

/// Whether a run on `other` finds the state that a run on `own` left.
fn keeps_states_alike(own: &ResolvedRunner, other: &ResolvedRunner) -> bool {
    matches!((&own.state, &other.state), (Some((own, _)), Some((other, _))) if own.is_same_as(other))
}
