//! An agent begins and ends a session.

use super::App;
use super::agent_proofs::{AgentCaller, another, key_of, key_replaced, rejected};
use crate::http::error::ApiError;
use canyon_api::agent::{OLDEST_PROTOCOL, OpenSession, PROTOCOL, SessionOpened};
use canyon_domain::agent::{Adoption, Agent, AgentIdentity, Session, old_program};
use canyon_domain::ids::RunnerId;
use canyon_domain::principal::Principal;
use canyon_identity::agent_key::AgentKey;
use canyon_store::outcome::{Created, Saved};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// How often an opening is weighed again when the agent has changed meanwhile.
const MAX_TRIES: u32 = 10;
/// How long an agent waits that nobody has adopted yet, in milliseconds.
const PENDING_PAUSE: u64 = 5_000;

/// What vouches for an agent that nobody has adopted.
struct Vouched {
    runner: Option<RunnerId>,
    labels: BTreeMap<String, String>,
}

impl App {
    /// An agent begins. Whoever opened the newest session speaks for it; the same process may repeat the
    /// opening.
    pub(crate) async fn open_session(
        &self,
        caller: &AgentCaller,
        body: &OpenSession,
    ) -> Result<SessionOpened, ApiError> {
        check_protocol(body.protocol)?;
        if body.reserved && body.runner.is_none() {
            return Err(ApiError::field("runner", "a reserved agent is for one runner; name it"));
        }
        let given = body.public_key.as_deref().map(AgentKey::from_pem).transpose();
        let given = given.map_err(|error| ApiError::field("public_key", error.to_string()))?;
        for _ in 0..MAX_TRIES {
            let found = self.table.agent(caller.org, &caller.agent).await?;
            let key = given.or_else(|| found.as_ref().and_then(key_of));
            let now = self.now();
            let identity = caller.identity(key)?;
            let vouched = self.vouched(caller, body, key).await?;
            let lost_its_key = match &found {
                Some(agent) => self.has_lost_its_key(caller.org, agent).await?,
                None => false,
            };
            let agent = match found {
                Some(agent) if lost_its_key && vouched.is_none() => {
                    return Err(key_replaced(&agent));
                }
                Some(agent) if agent.identity == identity => agent,
                // The same agent, with the new key of its runner: its jobs stay its own.
                Some(agent) if lost_its_key => Agent { identity, ..agent },
                // Whoever was first to use a name has no right to it that anybody vouched for.
                Some(agent) if agent.adoption == Adoption::Pending && vouched.is_some() => {
                    self.forget_agent(None, caller.org, &agent.id).await?;
                    continue;
                }
                Some(agent) => return Err(another(&agent.id)),
                None => match self.meet(caller, body, identity, vouched.as_ref(), now).await? {
                    Some(agent) => agent,
                    None => continue,
                },
            };
            match agent.adoption {
                Adoption::Rejected => return Err(rejected(&agent.id)),
                Adoption::Pending if vouched.is_none() => return Ok(pending(body)),
                Adoption::Pending | Adoption::Adopted => {}
            }
            let warnings = warnings(&agent, body, vouched.is_none() || agent.settled_at.is_some());
            let Some(agent) = self.begin(caller, agent, body, vouched).await? else { continue };
            return self.opened(caller, agent, body, warnings).await;
        }
        Err(ApiError::contended(&caller.agent))
    }

    /// What makes this agent the team's own without anybody's further word: its token, or the key of the
    /// runner that it serves.
    async fn vouched(
        &self,
        caller: &AgentCaller,
        body: &OpenSession,
        key: Option<AgentKey>,
    ) -> Result<Option<Vouched>, ApiError> {
        if let Some(principal) = caller.principal() {
            let runner = bound_runner(principal, body.runner.as_ref())?;
            let mut labels = body.labels.clone();
            labels.extend(self.labels_of_token(caller).await?);
            return Ok(Some(Vouched { runner, labels }));
        }
        let Some(runner) = &body.runner else { return Ok(None) };
        let served = self.served_runners(caller.org, Some(runner)).await?;
        let is_its = served.iter().any(|served| served.key.is_some() && served.key == key);
        let vouched = || Vouched { runner: Some(runner.clone()), labels: body.labels.clone() };
        Ok(is_its.then(vouched))
    }

    /// An agent of whom nobody has heard. `None` if somebody else was faster.
    async fn meet(
        &self,
        caller: &AgentCaller,
        body: &OpenSession,
        identity: AgentIdentity,
        vouched: Option<&Vouched>,
        now: Timestamp,
    ) -> Result<Option<Agent>, ApiError> {
        let adoption = if vouched.is_some() { Adoption::Adopted } else { Adoption::Pending };
        if adoption == Adoption::Pending {
            self.make_room_for_pending(caller.org).await?;
        }
        let agent = Agent {
            id: caller.agent.clone(),
            identity,
            adoption,
            labels: body.labels.clone(),
            runner: body.runner.clone(),
            run_untagged_jobs: body.run_untagged_jobs,
            by_runner_key: vouched.is_some() && caller.principal().is_none(),
            settled_at: None,
            disabled: false,
            reserved: body.reserved,
            created_at: now,
            sessions: 0,
            session: None,
            version: 1,
        };
        let verb = if vouched.is_some() { "agent.join" } else { "agent.ask" };
        let record = self.record_of_agent(caller, verb);
        let created = self.table.create_agent(caller.org, &agent, &record).await?;
        Ok((created == Created::Yes).then_some(agent))
    }

    /// Writes the newest session. `None` if the agent has changed meanwhile.
    async fn begin(
        &self,
        caller: &AgentCaller,
        mut agent: Agent,
        body: &OpenSession,
        vouched: Option<Vouched>,
    ) -> Result<Option<Agent>, ApiError> {
        if body.reserved != agent.reserved {
            return Err(not_as_adopted(&agent));
        }
        match vouched {
            Some(vouched) => {
                if agent.adoption == Adoption::Pending {
                    agent.by_runner_key = caller.principal().is_none();
                }
                agent.adoption = Adoption::Adopted;
                agent.runner = vouched.runner;
                if agent.settled_at.is_none() {
                    agent.labels = vouched.labels;
                    agent.run_untagged_jobs = body.run_untagged_jobs;
                }
            }
            // It was adopted as what it said it was then.
            None if body.runner != agent.runner => return Err(other_runner(&agent)),
            None => {}
        }
        let now = self.now();
        let repeated = agent
            .session
            .as_ref()
            .filter(|session| session.instance == body.instance && session.closed_at.is_none());
        let (number, opened_at) = match repeated {
            Some(session) => (session.number, session.opened_at),
            None => (agent.sessions + 1, now),
        };
        agent.sessions = number;
        agent.session = Some(Session {
            number,
            instance: body.instance.clone(),
            opened_at,
            last_seen: now,
            closed_at: None,
            serves: body.serves.clone(),
            place: body.place.clone(),
            program: body.version.clone(),
            protocol: body.protocol.min(PROTOCOL),
            concurrency: body.concurrency,
            running: 0,
            draining: false,
            offered_at: None,
            last_error: None,
        });
        agent.version += 1;
        let saved = self.table.save_agent(caller.org, &agent).await?;
        Ok((saved == Saved::Yes).then_some(agent))
    }

    async fn opened(
        &self,
        caller: &AgentCaller,
        agent: Agent,
        body: &OpenSession,
        warnings: Vec<String>,
    ) -> Result<SessionOpened, ApiError> {
        let held = self.held_jobs(caller.org, &agent).await?;
        let strays = self.strays(caller.org, &agent, &body.found, &held).await?;
        Ok(SessionOpened {
            session: Some(agent.sessions),
            state: agent.adoption,
            protocol: body.protocol.min(PROTOCOL),
            warnings,
            pause_ms: 0,
            held: held.told,
            held_later: held.later,
            strays,
        })
    }

    /// An agent takes its leave. What it was offered goes to others at once; what it holds stays its own.
    pub(crate) async fn close_session(
        &self,
        caller: &AgentCaller,
        number: u64,
    ) -> Result<(), ApiError> {
        for _ in 0..MAX_TRIES {
            let mut agent = self.agent_in_session(caller, number).await?;
            let now = self.now();
            if let Some(session) = &mut agent.session {
                session.last_seen = now;
                session.closed_at = Some(now);
            }
            agent.version += 1;
            if self.table.save_agent(caller.org, &agent).await? == Saved::Yes {
                return Ok(());
            }
        }
        Err(ApiError::contended(&caller.agent))
    }
}

fn check_protocol(spoken: u32) -> Result<(), ApiError> {
    if spoken >= OLDEST_PROTOCOL {
        return Ok(());
    }
    let reason = format!(
        "this Canyon speaks versions {OLDEST_PROTOCOL} to {PROTOCOL} of the protocol, and the agent {spoken}; \
         install canyon-agent {} there",
        env!("CARGO_PKG_VERSION")
    );
    Err(ApiError::field("protocol", reason))
}

/// The runner that an agent with this token serves.
fn bound_runner(
    principal: &Principal,
    said: Option<&RunnerId>,
) -> Result<Option<RunnerId>, ApiError> {
    match (&principal.runner, said) {
        (Some(bound), Some(said)) if bound != said => Err(ApiError::new(
            axum::http::StatusCode::FORBIDDEN,
            format!("the token is for agents of runner `{bound}`, and this one serves `{said}`"),
        )),
        (Some(runner), _) | (None, Some(runner)) => Ok(Some(runner.clone())),
        (None, None) => Ok(None),
    }
}

fn pending(body: &OpenSession) -> SessionOpened {
    SessionOpened {
        session: None,
        state: Adoption::Pending,
        protocol: body.protocol.min(PROTOCOL),
        warnings: Vec::new(),
        pause_ms: PENDING_PAUSE,
        held: Vec::new(),
        held_later: Vec::new(),
        strays: Vec::new(),
    }
}

fn not_as_adopted(agent: &Agent) -> ApiError {
    let id = &agent.id;
    let was =
        if agent.reserved { "for one deployment alone" } else { "for all work of its runner" };
    let message =
        format!("agent `{id}` was taken up {was}, and now says otherwise; give it another name");
    ApiError::conflict(message).with_detail("code", "another_agent")
}

fn other_runner(agent: &Agent) -> ApiError {
    let id = &agent.id;
    let was = match &agent.runner {
        Some(runner) => format!("as one of runner `{runner}`"),
        None => "as one of no runner of its own".to_owned(),
    };
    let message = format!(
        "agent `{id}` was adopted {was}; start it as that, or forget it and adopt it again: canyon forget agent {id}"
    );
    ApiError::conflict(message).with_detail("code", "another_runner")
}

fn warnings(agent: &Agent, body: &OpenSession, is_settled: bool) -> Vec<String> {
    let mut warnings: Vec<_> =
        old_program(&body.version, env!("CARGO_PKG_VERSION")).into_iter().collect();
    let differs = [
        ("labels", agent.labels != body.labels),
        ("run_untagged_jobs", agent.run_untagged_jobs != body.run_untagged_jobs),
    ];
    for (what, _) in differs.iter().filter(|(_, differs)| is_settled && *differs) {
        warnings.push(format!(
            "what the agent says of `{what}` is not what an administrator has seen or set, which counts; to change it: \
             canyon update agent {}",
            agent.id
        ));
    }
    warnings
}
