//! How an agent is enrolled without an adoption by an administrator: by its token, or by the key of its runner.
//!
//! A token with labels and without a runner is only for jobs that ask for these labels. Its holder chooses the names of
//! its agents, so a name proves nothing about them: see [`Agent::is_confined_to_labels`].

use super::App;
use super::agent_proofs::AgentCaller;
use super::agent_registry::ServedRunner;
use crate::app::error::AppError;
use canyon_api::agent::OpenSession;
use canyon_domain::agent::{Adoption, Agent, AgentIdentity, Description, TokenScope};
use canyon_domain::ids::{OrgUuid, RunnerId, RunnerProfileId};
use canyon_domain::principal::Principal;
use canyon_domain::runner::agents::AgentTarget;
use canyon_identity::agent_key::AgentKey;
use canyon_store::organizations::TokenRecord;
use std::collections::BTreeMap;
use std::fmt;

/// A reservation of an agent's name: an agent with a token for labels alone does not get that name by itself.
pub(super) enum Reservation {
    /// A runner has the name among its agents' ids, or has a key and this name itself.
    Runner(RunnerId),
    /// A runner profile has the name among its agents' ids.
    Profile {
        id: RunnerProfileId,
        /// The runners that may use the profile.
        users: Vec<RunnerId>,
    },
}

impl fmt::Display for Reservation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runner(id) => write!(out, "runner `{id}`"),
            Self::Profile { id, .. } => write!(out, "runner profile `{id}`"),
        }
    }
}

/// What the token of an agent, or the key of its runner, allows the agent to be.
pub(super) struct Enrollment {
    pub(super) runner: Option<RunnerId>,
    /// The only runner that the token or the key is for. An agent may choose another one itself, which proves nothing.
    bound_to: Option<RunnerId>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) run_untagged_jobs: Option<bool>,
    /// The scope of its API token, if it has one.
    token: Option<TokenScope>,
    /// The labels that the token gives its agents.
    token_labels: BTreeMap<String, String>,
}

impl Enrollment {
    /// The description of the agent once the new session is its own.
    pub(super) fn described(self) -> Description {
        Description {
            runner: self.runner,
            by_token: self.token,
            labels: self.labels,
            run_untagged_jobs: self.run_untagged_jobs,
        }
    }

    /// Whether the enrollment is by a token for labels alone.
    pub(super) fn is_for_labels_alone(&self) -> bool {
        self.token.as_ref().is_some_and(|scope| scope.labels_alone == Some(true))
    }

    /// Whether an agent with this enrollment has the name that is reserved so: it may serve the runner.
    pub(super) fn has(&self, reservation: &Reservation) -> bool {
        match (reservation, &self.bound_to) {
            _ if self.is_for_labels_alone() => false,
            (_, None) => true,
            (Reservation::Runner(reserving), Some(own)) => reserving == own,
            (Reservation::Profile { users, .. }, Some(own)) => users.contains(own),
        }
    }

    /// Whether the token may continue as an agent whose token of the same scope has ended. It then inherits the
    /// agent's jobs and the settings that an administrator made for the agent.
    fn may_inherit(&self, agent: &Agent) -> bool {
        if self.is_for_labels_alone() && !agent.has_token_for_labels_alone() {
            return false;
        }
        // An administrator has adopted the agent of one token, and not those of all tokens with these labels.
        if self.is_for_labels_alone() && agent.named_at.is_some() {
            return false;
        }
        let is_of_no_runner = self.token.as_ref().is_some_and(|scope| scope.runner.is_none());
        let by_labels = agent.settings_fixed_at.is_some() || is_of_no_runner;
        // A token without labels lets its agents choose their own. An agent with more labels than the token also
        // takes other jobs.
        !by_labels || self.token_labels.is_empty() || self.token_labels == agent.labels
    }
}

/// The scope that an API token gives its agents; `None` for the token of a service account.
pub(super) fn scope_of(token: &TokenRecord) -> Option<TokenScope> {
    let runner = token.principal.runner.clone();
    let labels_alone = Some(runner.is_none() && !token.labels.is_empty());
    token.grant.is_none().then_some(TokenScope { runner, labels_alone })
}

impl App {
    /// The enrollment of an agent by its token or by the key of the runner that it serves; `None` if an administrator
    /// must adopt it.
    pub(super) async fn enrollment(
        &self,
        caller: &AgentCaller,
        body: &OpenSession,
        key: Option<AgentKey>,
    ) -> Result<Option<Enrollment>, AppError> {
        if let Some(principal) = caller.principal() {
            let runner = bound_runner(principal, body.runner.as_ref())?;
            let token = self.token_of(caller).await?;
            let scope = scope_of(&token);
            let token_labels = token.labels;
            // The token's labels say which jobs it is for. Labels that the agent adds would open other jobs to it.
            let has_labels = !token_labels.is_empty();
            let labels = if has_labels { &token_labels } else { &body.labels }.clone();
            // A runner that the agent itself names is no restriction.
            let is_for_others = !has_labels || principal.runner.is_some();
            let run_untagged_jobs =
                if is_for_others { body.run_untagged_jobs } else { Some(false) };
            let token = scope;
            return Ok(Some(Enrollment {
                runner,
                bound_to: principal.runner.clone(),
                labels,
                run_untagged_jobs,
                token,
                token_labels,
            }));
        }
        let Some(runner) = &body.runner else { return Ok(None) };
        let served = self.served_runners(caller.org, Some(runner)).await?;
        let is_its = served.iter().any(|served| served.key.is_some() && served.key == key);
        let (runner, labels) = (Some(runner.clone()), body.labels.clone());
        Ok(is_its.then(|| Enrollment {
            bound_to: runner.clone(),
            runner,
            labels,
            run_untagged_jobs: body.run_untagged_jobs,
            token: None,
            token_labels: BTreeMap::new(),
        }))
    }

    /// The runners, or the runner profile, that reserve the caller's name for agents that may serve them.
    pub(super) async fn reservations(
        &self,
        caller: &AgentCaller,
    ) -> Result<Vec<Reservation>, AppError> {
        let names = |target: &Option<AgentTarget>| matches!(target, Some(AgentTarget::Ids(ids)) if ids.contains(&caller.agent));
        let runners = self.served_runners(caller.org, None).await?;
        // The programs that poll for a runner with a key have its id as their name, and cannot choose another. So no
        // other reservation gives a right to it.
        let polls = |runner: &&ServedRunner| {
            runner.key.is_some() && runner.id.as_str() == caller.agent.as_str()
        };
        if let Some(polling) = runners.iter().find(polls) {
            return Ok(vec![Reservation::Runner(polling.id.clone())]);
        }
        let users = |id: &RunnerProfileId| {
            let may_use = |runner: &&ServedRunner| {
                runner.profile.as_ref().is_some_and(|profile| profile.may_be(id))
            };
            runners.iter().filter(may_use).map(|runner| runner.id.clone()).collect()
        };
        let reserving = runners.iter().filter(|runner| names(&runner.target));
        let reserving = reserving.map(|runner| Reservation::Runner(runner.id.clone()));
        let profiles = self.agents_of_profiles(caller.org).await?;
        let by_profile = profiles.iter().filter(|profile| names(&profile.agents));
        let by_profile = by_profile.map(|profile| Reservation::Profile {
            id: profile.id.clone(),
            users: users(&profile.id),
        });
        Ok(reserving.chain(by_profile).collect())
    }

    /// The reservation that keeps the caller from registering by itself, if no other agent has the name. Such a caller
    /// waits until an administrator adopts it.
    pub(super) async fn refusing_reservation(
        &self,
        caller: &AgentCaller,
        identity: &AgentIdentity,
        enrollment: Option<&Enrollment>,
        found: Option<&Agent>,
    ) -> Result<Option<Reservation>, AppError> {
        let Some(enrollment) = enrollment else { return Ok(None) };
        // A token for labels alone takes no name from a pending agent in any case.
        let waits = found.is_none_or(|agent| {
            agent.adoption == Adoption::Pending
                && (agent.identity == *identity || !enrollment.is_for_labels_alone())
        });
        if !waits {
            return Ok(None);
        }
        // A token without labels and without a runner is for every runner.
        if enrollment.bound_to.is_none() && !enrollment.is_for_labels_alone() {
            return Ok(None);
        }
        let found = self.reservations(caller).await?;
        if found.iter().any(|reservation| enrollment.has(reservation)) {
            return Ok(None);
        }
        Ok(found.into_iter().next())
    }

    /// Whether the agent enrolled by an API token that has ended, and `enrollment` has another token of the same scope.
    pub(super) async fn has_lost_its_token(
        &self,
        org: OrgUuid,
        agent: &Agent,
        enrollment: &Enrollment,
    ) -> Result<bool, AppError> {
        let AgentIdentity::Token { principal } = &agent.identity else { return Ok(false) };
        let (Some(former), Some(new)) = (&agent.by_token, &enrollment.token) else {
            return Ok(false);
        };
        if former.runner != new.runner || !enrollment.may_inherit(agent) {
            return Ok(false);
        }
        let token = self.table.token(org, principal.0).await?;
        Ok(token.is_none_or(|token| token.has_expired(self.now())))
    }
}

/// The runner that an agent with this token serves.
fn bound_runner(
    principal: &Principal,
    named: Option<&RunnerId>,
) -> Result<Option<RunnerId>, AppError> {
    match (&principal.runner, named) {
        (Some(bound), Some(named)) if bound != named => Err(AppError::denied(format!(
            "the token is for agents of runner `{bound}`, and this one serves `{named}`"
        ))),
        (Some(runner), _) | (None, Some(runner)) => Ok(Some(runner.clone())),
        (None, None) => Ok(None),
    }
}
