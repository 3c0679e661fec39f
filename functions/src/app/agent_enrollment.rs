//! What vouches for an agent that no administrator has adopted: its token, or the key of its runner.
//!
//! A token with labels and without a runner is for jobs that ask for these labels. Its holder chooses the names of its
//! agents, so a name proves nothing of them: see [`Agent::is_confined_to_labels`].

use super::App;
use super::agent_desk::ServedRunner;
use super::agent_proofs::AgentCaller;
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

/// What reserves the name of an agent: an agent with a token for labels alone does not get that name by itself.
pub(super) enum Reservation {
    /// A runner has the name among its agents' ids, or has a key and this name itself.
    Runner(RunnerId),
    /// A runner profile has the name among its agents' ids.
    Profile(RunnerProfileId),
}

impl fmt::Display for Reservation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runner(id) => write!(out, "runner `{id}`"),
            Self::Profile(id) => write!(out, "runner profile `{id}`"),
        }
    }
}

/// What vouches for an agent that no administrator has adopted.
pub(super) struct Vouched {
    pub(super) runner: Option<RunnerId>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) run_untagged_jobs: Option<bool>,
    /// What its API token is for, if it has one.
    token: Option<TokenScope>,
    /// The labels that the token gives its agents.
    token_labels: BTreeMap<String, String>,
}

impl Vouched {
    /// What the agent is once the session that is opened is its own.
    pub(super) fn described(self) -> Description {
        Description {
            runner: self.runner,
            by_token: self.token,
            labels: self.labels,
            run_untagged_jobs: self.run_untagged_jobs,
        }
    }

    /// Whether it is a token for labels alone.
    pub(super) fn is_for_labels_alone(&self) -> bool {
        self.token.as_ref().is_some_and(|scope| scope.labels_alone == Some(true))
    }

    /// Whether the token may go on as an agent that another token of the same scope has left: it inherits the agent's
    /// jobs, and what an administrator has said of the agent.
    fn may_inherit(&self, agent: &Agent) -> bool {
        if self.is_for_labels_alone() && !agent.has_token_for_labels_alone() {
            return false;
        }
        // An administrator has adopted the agent of one token, and not those of all tokens with its labels.
        if self.is_for_labels_alone() && agent.named_at.is_some() {
            return false;
        }
        let is_of_no_runner = self.token.as_ref().is_some_and(|scope| scope.runner.is_none());
        let by_labels = agent.settled_at.is_some() || is_of_no_runner;
        // A token without labels lets its agents choose their own. What has more labels than the token is for other jobs too.
        !by_labels || self.token_labels.is_empty() || self.token_labels == agent.labels
    }
}

/// What an API token lets its agents be; `None` for the token of a service account.
pub(super) fn scope_of(token: &TokenRecord) -> Option<TokenScope> {
    let runner = token.principal.runner.clone();
    let labels_alone = Some(runner.is_none() && !token.labels.is_empty());
    token.grant.is_none().then_some(TokenScope { runner, labels_alone })
}

impl App {
    /// What makes this agent the team's own without an administrator's word: its token, or the key of the runner that
    /// it serves.
    pub(super) async fn vouched(
        &self,
        caller: &AgentCaller,
        body: &OpenSession,
        key: Option<AgentKey>,
    ) -> Result<Option<Vouched>, AppError> {
        if let Some(principal) = caller.principal() {
            let runner = bound_runner(principal, body.runner.as_ref())?;
            let token = self.token_of(caller).await?;
            let scope = scope_of(&token);
            let token_labels = token.labels;
            // The labels say which jobs the token is for: what an agent adds to them would make it one for others.
            let has_labels = !token_labels.is_empty();
            let labels = if has_labels { &token_labels } else { &body.labels }.clone();
            // A runner that the agent names itself confines nothing.
            let is_for_others = !has_labels || principal.runner.is_some();
            let run_untagged_jobs =
                if is_for_others { body.run_untagged_jobs } else { Some(false) };
            let token = scope;
            return Ok(Some(Vouched { runner, labels, run_untagged_jobs, token, token_labels }));
        }
        let Some(runner) = &body.runner else { return Ok(None) };
        let served = self.served_runners(caller.org, Some(runner)).await?;
        let is_its = served.iter().any(|served| served.key.is_some() && served.key == key);
        let (runner, labels) = (Some(runner.clone()), body.labels.clone());
        Ok(is_its.then(|| Vouched {
            runner,
            labels,
            run_untagged_jobs: body.run_untagged_jobs,
            token: None,
            token_labels: BTreeMap::new(),
        }))
    }

    /// What reserves the caller's name, if what vouches for the caller is a token for labels alone, and no other agent has
    /// the name. Such a caller waits until an administrator adopts it.
    pub(super) async fn reservation(
        &self,
        caller: &AgentCaller,
        identity: &AgentIdentity,
        vouched: Option<&Vouched>,
        found: Option<&Agent>,
    ) -> Result<Option<Reservation>, AppError> {
        let waits = found
            .is_none_or(|agent| agent.adoption == Adoption::Pending && agent.identity == *identity);
        if !waits || !vouched.is_some_and(Vouched::is_for_labels_alone) {
            return Ok(None);
        }
        let names = |target: &Option<AgentTarget>| matches!(target, Some(AgentTarget::Ids(ids)) if ids.contains(&caller.agent));
        let is_reserved_by = |runner: &ServedRunner| {
            // The programs that poll for a runner with a key have its id as their name, and cannot choose another.
            let polls = runner.key.is_some() && runner.id.as_str() == caller.agent.as_str();
            polls || names(&runner.target)
        };
        let runners = self.served_runners(caller.org, None).await?;
        if let Some(runner) = runners.iter().find(|runner| is_reserved_by(runner)) {
            return Ok(Some(Reservation::Runner(runner.id.clone())));
        }
        let profiles = self.agents_of_profiles(caller.org).await?;
        let profile = profiles.iter().find(|profile| names(&profile.agents));
        Ok(profile.map(|profile| Reservation::Profile(profile.id.clone())))
    }

    /// Whether the agent came with an API token that has ended, and `vouched` has another one for the same.
    pub(super) async fn has_lost_its_token(
        &self,
        org: OrgUuid,
        agent: &Agent,
        vouched: &Vouched,
    ) -> Result<bool, AppError> {
        let AgentIdentity::Token { principal } = &agent.identity else { return Ok(false) };
        let (Some(former), Some(new)) = (&agent.by_token, &vouched.token) else {
            return Ok(false);
        };
        if former.runner != new.runner || !vouched.may_inherit(agent) {
            return Ok(false);
        }
        let token = self.table.token(org, principal.0).await?;
        Ok(token.is_none_or(|token| token.has_expired(self.now())))
    }
}

/// The runner that an agent with this token serves.
fn bound_runner(
    principal: &Principal,
    said: Option<&RunnerId>,
) -> Result<Option<RunnerId>, AppError> {
    match (&principal.runner, said) {
        (Some(bound), Some(said)) if bound != said => Err(AppError::denied(format!(
            "the token is for agents of runner `{bound}`, and this one serves `{said}`"
        ))),
        (Some(runner), _) | (None, Some(runner)) => Ok(Some(runner.clone())),
        (None, None) => Ok(None),
    }
}
