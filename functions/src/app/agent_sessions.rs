//! Agents start and end sessions.

use super::App;
use super::agent_enrollment::{Enrollment, Reservation};
use super::agent_limits::may_make_way;
use super::agent_proofs::{AgentCaller, AgentRequest, another, key_of, key_replaced, rejected};
use super::new_agents::requesting_agent;
use super::session_refusals::{
    holds_a_job, not_as_adopted, other_runner, session_held, session_over, shared_since,
};
use crate::app::error::AppError;
use canyon_api::agent::{OLDEST_PROTOCOL, OpenSession, PROTOCOL, SessionOpened};
use canyon_domain::agent::{
    Adoption, Agent, AgentIdentity, Process, SessionStart, outdated_program_warning,
};
use canyon_domain::inventory::AgentRequests;
use canyon_identity::agent_key::AgentKey;
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::{Created, Saved};
use jiff::Timestamp;

/// The pause in milliseconds before an agent that waits for adoption asks again.
const PENDING_PAUSE: u64 = 5_000;

impl App {
    /// Starts a session for an agent, or notes its request. If no token or runner key authenticates the agent, the
    /// answer is always 202: whether the request is noted, is refused or is one too many, whether another agent has
    /// the name, and whether the organization exists. So an unknown caller learns neither organizations nor agents.
    pub(crate) async fn answer_session_start(
        &self,
        request: &AgentRequest,
        body: &OpenSession,
    ) -> Result<SessionOpened, AppError> {
        match request {
            AgentRequest::Known(caller) => self.open_session(caller, body).await,
            AgentRequest::Unknown(signed) => {
                signed.check(shown_key(body)?)?;
                Ok(pending(body))
            }
        }
    }

    /// Starts a session. If another session of the agent is open, the first request in the new one supersedes it
    /// ([`Agent::confirm`]). The same process may repeat the request, which counts once.
    pub(crate) async fn open_session(
        &self,
        caller: &AgentCaller,
        body: &OpenSession,
    ) -> Result<SessionOpened, AppError> {
        let given = shown_key(body)?;
        if body.reserved && caller.principal().is_some() {
            return Err(AppError::invalid(
                "reserved",
                "is for an agent with a key of its own, which the user of the machine adopts; leave it out, or open the \
                 session with a key",
            ));
        }
        for _ in 0..MAX_TRIES {
            let found = self.table.agent(caller.org, &caller.agent).await?;
            let judged = found.as_ref().filter(|agent| agent.adoption != Adoption::Pending);
            let key = given.or_else(|| judged.and_then(key_of));
            let now = self.now();
            let identity = caller.identity(key)?;
            let enrollment = self.enrollment(caller, body, key).await?;
            let is_known = judged.is_some_and(|agent| agent.identity == identity);
            let reservation = self
                .refusing_reservation(caller, &identity, enrollment.as_ref(), found.as_ref())
                .await?;
            if reservation.is_some() || (enrollment.is_none() && !is_known) {
                let requests = self.note_request(caller, body, identity, found).await?;
                let warnings = reservation.iter().map(|by| name_reserved(caller, by, requests));
                return Ok(SessionOpened { warnings: warnings.collect(), ..pending(body) });
            }
            let known = match found {
                Some(agent) => {
                    self.authenticate_agent(caller, agent, identity, enrollment.as_ref()).await?
                }
                None => self.register_agent(caller, body, identity, now).await?,
            };
            let Some(agent) = known else { continue };
            if agent.adoption == Adoption::Rejected {
                return Err(rejected(&agent.id));
            }
            if body.standby && agent.live_session(now).is_some() {
                return Err(session_held(&agent));
            }
            let warnings = warnings(&agent, body, enrollment.as_ref());
            let begun = self.start_session(caller, agent, body, enrollment).await?;
            let Some((agent, opening)) = begun else { continue };
            return self.started_session(caller, agent, opening, body, warnings).await;
        }
        Err(AppError::contended(&caller.agent))
    }

    /// The agent with this name, if the caller has proved to be it. `None` if an agent without a right to the
    /// name had it and was forgotten for this caller.
    async fn authenticate_agent(
        &self,
        caller: &AgentCaller,
        agent: Agent,
        identity: AgentIdentity,
        enrollment: Option<&Enrollment>,
    ) -> Result<Option<Agent>, AppError> {
        let lost_its_key = self.has_lost_its_key(caller.org, &agent).await?;
        if lost_its_key && enrollment.is_none() {
            return Err(key_replaced(&agent));
        }
        if agent.identity == identity {
            return Ok(Some(agent));
        }
        let Some(enrollment) = enrollment else { return Err(another(&agent.id)) };
        let by_new_key =
            lost_its_key && caller.principal().is_none() && enrollment.runner == agent.runner;
        if by_new_key || self.has_lost_its_token(caller.org, &agent, enrollment).await? {
            // The same agent with the new key or token of its runner: it keeps its jobs.
            return Ok(Some(Agent { identity, ..agent }));
        }
        // A pending agent has no right to its name.
        if enrollment.is_for_labels_alone() {
            return Err(another(&agent.id));
        }
        if agent.adoption != Adoption::Pending {
            // Neither has an agent whose token is for labels alone, if a runner that the caller may serve reserves the name.
            let may_take = agent.is_confined_to_labels() && may_make_way(&agent);
            if !may_take || !self.reservations(caller).await?.iter().any(|of| enrollment.has(of)) {
                return Err(another(&agent.id));
            }
            if self.holds_a_job(caller.org, &agent).await? {
                return Err(holds_a_job(&agent));
            }
        }
        self.forget_if_unchanged(caller.org, &agent).await?;
        Ok(None)
    }

    /// Registers a new agent that a token or a runner key authenticates. `None` if another request was faster.
    async fn register_agent(
        &self,
        caller: &AgentCaller,
        body: &OpenSession,
        identity: AgentIdentity,
        now: Timestamp,
    ) -> Result<Option<Agent>, AppError> {
        self.make_room_for_agent(caller.org, &identity).await?;
        let agent = Agent {
            adoption: Adoption::Adopted,
            by_runner_key: caller.principal().is_none(),
            asked_from: None,
            ..requesting_agent(caller, body, identity, now)
        };
        let record = self.record_of_agent(caller, "agent.join");
        let created = self.table.create_agent(caller.org, &agent, Some(&record)).await?;
        Ok((created == Created::Yes).then_some(agent))
    }

    /// Records the newest session, unless this request has started it before. `None` after a concurrent change of the
    /// agent.
    async fn start_session(
        &self,
        caller: &AgentCaller,
        mut agent: Agent,
        body: &OpenSession,
        enrollment: Option<Enrollment>,
    ) -> Result<Option<(Agent, SessionStart)>, AppError> {
        if body.reserved != agent.reserved {
            return Err(not_as_adopted(&agent));
        }
        // The adoption holds for the runner that the agent named then.
        if enrollment.is_none() && body.runner != agent.runner {
            return Err(other_runner(&agent));
        }
        // So does it for the organization alone, unless the agent said that it serves others too.
        if enrollment.is_none() && body.shared && !agent.shared {
            return Err(shared_since(&agent));
        }
        agent.shared = body.shared;
        if enrollment.is_some() && agent.adoption == Adoption::Pending {
            agent.by_runner_key = matches!(agent.identity, AgentIdentity::Key { .. });
            agent.adoption = Adoption::Adopted;
        }
        let described = enrollment.map(Enrollment::described);
        let opening = agent.open(process(body), described, self.now());
        if opening == SessionStart::Superseded {
            return Err(session_over(&agent));
        }
        agent.version += 1;
        let saved = self.table.save_agent(caller.org, &agent).await?;
        Ok((saved == Saved::Yes).then_some((agent, opening)))
    }

    async fn started_session(
        &self,
        caller: &AgentCaller,
        agent: Agent,
        opening: SessionStart,
        body: &OpenSession,
        warnings: Vec<String>,
    ) -> Result<SessionOpened, AppError> {
        let (agent, held) = match opening {
            // Its jobs are not changed until its process proves that it is alive.
            SessionStart::Candidate(number) => {
                let now = self.now();
                let agent = agent.as_confirmed(number, now);
                let agent = agent.ok_or_else(|| AppError::contended(&caller.agent))?;
                let held = self.jobs_to_adopt(caller.org, &agent).await?;
                (agent, held)
            }
            SessionStart::New | SessionStart::Current | SessionStart::Superseded => {
                let held = self.held_jobs(caller.org, &agent, opening).await?;
                (agent, held)
            }
        };
        let orphaned = self.orphaned_jobs(caller.org, &agent, &body.found, &held).await?;
        Ok(SessionOpened {
            session: Some(agent.sessions),
            state: agent.adoption,
            protocol: body.protocol.min(PROTOCOL),
            warnings,
            pause_ms: 0,
            held: held.described,
            held_later: held.named,
            orphaned,
        })
    }

    /// Ends a session. Its offers go to other agents at once; the agent keeps the jobs that it holds. A process that
    /// has sent no other request in its session supersedes no other session by this one.
    pub(crate) async fn close_session(
        &self,
        caller: &AgentCaller,
        number: u64,
    ) -> Result<(), AppError> {
        for _ in 0..MAX_TRIES {
            let mut agent = self.proved_agent(caller).await?;
            let now = self.now();
            if !agent.withdraw(number) {
                agent = self.agent_in_session(caller, number).await?;
                if let Some(session) = &mut agent.session {
                    session.last_seen = now;
                    session.closed_at = Some(now);
                }
            }
            agent.version += 1;
            if self.table.save_agent(caller.org, &agent).await? == Saved::Yes {
                return Ok(());
            }
        }
        Err(AppError::contended(&caller.agent))
    }
}

/// The key in the body, after the checks that need only the body.
fn shown_key(body: &OpenSession) -> Result<Option<AgentKey>, AppError> {
    check_protocol(body.protocol)?;
    if body.reserved && body.runner.is_none() {
        return Err(AppError::invalid("runner", "a reserved agent is for one runner; name it"));
    }
    let key = body.public_key.as_deref().map(AgentKey::from_pem).transpose();
    key.map_err(|error| AppError::invalid("public_key", error.to_string()))
}

fn check_protocol(spoken: u32) -> Result<(), AppError> {
    if spoken >= OLDEST_PROTOCOL {
        return Ok(());
    }
    let reason = format!(
        "this Canyon speaks versions {OLDEST_PROTOCOL} to {PROTOCOL} of the protocol, and the agent {spoken}; \
         install canyon-agent {} there",
        env!("CARGO_PKG_VERSION")
    );
    Err(AppError::invalid("protocol", reason))
}

fn process(body: &OpenSession) -> Process {
    Process {
        instance: body.instance.clone(),
        serves: body.serves.clone(),
        platform_id: body.platform_id.clone(),
        program: body.version.clone(),
        protocol: body.protocol.min(PROTOCOL),
        concurrency: body.concurrency,
    }
}

fn name_reserved(caller: &AgentCaller, by: &Reservation, requests: AgentRequests) -> String {
    let id = &caller.agent;
    let ways = match requests {
        AgentRequests::Allowed => format!(
            "an administrator adopts the agent (canyon adopt agent {id}), or it takes another name"
        ),
        AgentRequests::Refused => {
            "the organization refuses requests for adoption, so give the agent another name"
                .to_owned()
        }
    };
    format!("{by} reserves the name `{id}`, and this agent may not serve it: {ways}")
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
        orphaned: Vec::new(),
    }
}

fn warnings(agent: &Agent, body: &OpenSession, enrollment: Option<&Enrollment>) -> Vec<String> {
    let mut warnings: Vec<_> =
        outdated_program_warning(&body.version, env!("CARGO_PKG_VERSION")).into_iter().collect();
    let by_token = enrollment.filter(|_| agent.settings_fixed_at.is_none());
    let (differs, why) = if let Some(enrollment) = by_token {
        // What the agent leaves to its token is no contradiction.
        let contradicts =
            |(name, value): (&String, &String)| enrollment.labels.get(name) != Some(value);
        let labels = body.labels.iter().any(contradicts);
        // By default, an agent that names its own runner also takes that runner's jobs without labels.
        let wanted = body.run_untagged_jobs.or(body.runner.is_some().then_some(true));
        let given = enrollment.run_untagged_jobs.unwrap_or(enrollment.runner.is_some());
        let untagged = wanted.is_some_and(|wanted| wanted != given);
        let way = "canyon create token --role agent makes another token";
        ([labels, untagged], format!("its token, which takes precedence: {way}"))
    } else {
        let labels = agent.labels != body.labels;
        let untagged = agent.run_untagged_jobs != body.run_untagged_jobs;
        let way = format!("to change it: canyon update agent {}", agent.id);
        (
            [labels, untagged],
            format!(
                "the value that an administrator has reviewed or set, which takes precedence; {way}"
            ),
        )
    };
    for (what, _) in
        ["labels", "run_untagged_jobs"].iter().zip(differs).filter(|(_, differs)| *differs)
    {
        warnings.push(format!("the agent's `{what}` differs from {why}"));
    }
    warnings
}
