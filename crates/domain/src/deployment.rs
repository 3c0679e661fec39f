//! A deployment: one request to change, plan or destroy an environment, and its result.
//!
//! Its state machine is in [`crate::lifecycle`].

use crate::approval::{Approval, TurnHold};
use crate::attempt::{ApplyNote, Attempt};
use crate::container::ContainerRun;
use crate::defined_place::DefinedPlace;
use crate::drift::DriftFinding;
use crate::failure::Phase;
use crate::fallback::Fallback;
use crate::fetched_module::FetchedModule;
use crate::hold::Hold;
use crate::ids::{
    AgentId, DeploymentId, EnvId, EnvTypeId, EnvUuid, PrincipalId, ProjectId, RunnerId,
};
use crate::kept_plan::KeptPlan;
use crate::kind::Kind;
use crate::logs_removal::LogsRemoval;
pub use crate::mode::Mode;
use crate::policy::Judgement;
use crate::requested_role::RequestedRole;
use crate::resource_name::ResourceName;
use crate::scoped_role::{ScopedRole, Target};
use crate::source_id::SourceId;
use crate::state_facts::StateReport;
pub use crate::stored_results::StoredResults;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// The launch order when more deployments wait than agents can launch. The names are part of the API.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// After all others, such as a drift check.
    Background,
    /// The default.
    #[default]
    Normal,
    /// Before all others.
    High,
}

impl Priority {
    /// The rank among jobs: higher goes first.
    pub fn rank(self) -> i8 {
        match self {
            Self::Background => -1,
            Self::Normal => 0,
            Self::High => 1,
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    fn is_normal(&self) -> bool {
        *self == Self::Normal
    }
}

/// The status of a deployment. The names are part of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Accepted; waits for its turn in the environment.
    Queued,
    /// Has the turn; an attempt is being started, or will be after a pause.
    Launching,
    /// A runner has claimed the attempt and works.
    Running,
    /// A user has cancelled it; the job is being stopped.
    Cancelling,
    /// Terminal: completed.
    Succeeded,
    /// Terminal: failed, without a further attempt.
    Failed,
    /// Terminal: stopped because a user cancelled it.
    Cancelled,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Launching,
        Self::Running,
        Self::Cancelling,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
    ];

    /// Whether the status is terminal: it never changes.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// The published state graph: whether a deployment may go from `self` to `next` in one step.
    pub fn may_become(self, next: Self) -> bool {
        use Status as S;
        match self {
            S::Queued => matches!(next, S::Launching | S::Failed | S::Cancelled),
            S::Launching => {
                matches!(next, S::Launching | S::Running | S::Cancelling | S::Failed | S::Cancelled)
            }
            S::Running => matches!(next, S::Launching | S::Cancelling) || next.is_terminal(),
            S::Cancelling => next.is_terminal(),
            S::Succeeded | S::Failed | S::Cancelled => false,
        }
    }

    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Launching => "launching",
            Self::Running => "running",
            Self::Cancelling => "cancelling",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Numbers of resources of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceCounts {
    /// In the state at its end; absent if the state could not be read then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<u32>,
    /// Created.
    pub added: u32,
    /// Changed in place.
    pub changed: u32,
    /// Destroyed.
    pub removed: u32,
}

/// A request to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequest {
    /// The principal that requested it.
    pub by: PrincipalId,
    /// When it was accepted.
    pub at: Timestamp,
}

/// One request to change, plan or destroy an environment.
///
/// The complete request (module, inputs, manifest) is in the object store; see [`crate::job::Bundle`]. This
/// record stays near one kilobyte, because every step writes it.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    /// Its id, which sorts by the time of acceptance.
    pub id: DeploymentId,
    /// The project of the environment.
    pub project: ProjectId,
    /// The environment.
    pub env: EnvId,
    /// The environment's uuid, which names the state. An environment that is deleted and created again has
    /// another one.
    pub env_uuid: EnvUuid,
    /// The type of the environment; `None` for deployments that an earlier version accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_type: Option<EnvTypeId>,
    /// The runner that serves it: the environment's own until the launch.
    pub runner: RunnerId,
    /// Why that is a fallback of the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Fallback>,
    /// What it does.
    pub mode: Mode,
    /// Whether it stops after the plan.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plan_only: bool,
    /// With [`Mode::Rollback`]: the deployment whose module and inputs it repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback_to: Option<DeploymentId>,
    /// The deployment whose kept plan it applies, in place of a plan of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_of: Option<DeploymentId>,
    /// The resource that its module makes. Without one, the module is that of the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Box<ResourceName>>,
    /// Its container job. Without one, it runs a module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<Box<ContainerRun>>,
    /// Where its resource definition has its job run, if that is not simply at its runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Box<DefinedPlace>>,
    /// It is one of the destroy runs that end with the deletion of its environment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_removal: bool,
    /// Its launch order.
    #[serde(default, skip_serializing_if = "Priority::is_normal")]
    pub priority: Priority,
    /// The only agent that may launch it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The named role of its runner that it has instead of those of its classes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<RequestedRole>,
    /// An administrator has accepted whatever state is in the runner's storage.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_state: bool,
    /// Maximum number of resources that its plan may delete or replace; the environment may allow fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_deletions: Option<u32>,
    /// Its plan leaves out resources of the module (`-target`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// With [`Mode::Drift`]: drift that it finds leads to a deployment of what was deployed last.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reconciles: bool,
    /// Its source, if a newer deployment of that source may replace it while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersede: Option<SourceId>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// The principal that requested it.
    pub created_by: PrincipalId,
    /// The scopes in which its module may read, if not the whole organization: no more than its requester
    /// may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_in: Option<Vec<ScopedRole>>,
    /// Its status.
    pub status: Status,
    /// A message about the status, if it adds something to it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// With `message`: why the launcher starts no attempt yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
    /// When the launcher must check it again; `None` at the end. The sparse due index contains this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// Its launches, oldest first; only the last can be open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// The request to cancel it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<CancelRequest>,
    /// What the run did, once it has reported that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<ResourceCounts>,
    /// What the run reported of its state at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateReport>,
    /// Number of resources that the plan would have deleted or replaced, if it exceeded the limit and ended
    /// the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_deletions: Option<u32>,
    /// What the run left in the object store.
    #[serde(default, skip_serializing_if = "StoredResults::is_nothing")]
    pub kept: StoredResults,
    /// The approval that its plan needs before it is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<Approval>>,
    /// The plan that Canyon keeps of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<KeptPlan>>,
    /// With [`Mode::Drift`]: what it has found. Of another deployment: that nothing differs any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drift: Option<Box<DriftFinding>>,
    /// What the policy of its environment's type says of its plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Box<Judgement>>,
    /// Its log and its events were removed, although it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs_removed: Option<LogsRemoval>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Timestamp>,
    /// Increases with every write; each write is conditional on the version that was read.
    pub version: u64,
}

impl<'a> From<&'a Deployment> for Target<'a> {
    fn from(of: &'a Deployment) -> Self {
        Self::Environment { project: &of.project, env: &of.env, env_type: of.env_type.as_ref() }
    }
}

impl Deployment {
    /// The attempt that has not ended, if there is one.
    pub fn open_attempt(&self) -> Option<&Attempt> {
        self.attempts.last().filter(|attempt| attempt.ended.is_none())
    }

    /// From when on the limits of its duration count: a person's time is not the platform's.
    pub fn counts_from(&self) -> Timestamp {
        let granted = self.approval.as_ref().and_then(|approval| approval.granted_at);
        granted.unwrap_or(self.created_at)
    }

    /// Whether its plan waits for reviews.
    pub fn awaits_approval(&self) -> bool {
        self.approval.as_ref().is_some_and(|approval| approval.is_awaited())
            && !self.status.is_terminal()
    }

    /// Whether its plan waits for reviews without the turn of its environment.
    pub fn waits_without_turn(&self) -> bool {
        self.awaits_approval() && self.releases_turn()
    }

    /// Whether it gives up the turn while its plan waits for reviews.
    pub fn releases_turn(&self) -> bool {
        self.approval.as_ref().is_some_and(|approval| approval.hold == TurnHold::Release)
    }

    /// Whether its next attempt plans and stops, so that people can review the plan.
    pub fn plans_for_review(&self) -> bool {
        let is_open = |approval: &Approval| approval.granted_at.is_none();
        self.plan_of.is_none() && self.approval.as_deref().is_some_and(is_open)
    }

    /// The module that its last attempt with a report of it has fetched. No attempt follows one that began to apply.
    pub fn fetched(&self) -> Option<&FetchedModule> {
        self.attempts.iter().rev().find_map(|attempt| attempt.fetched.as_ref())
    }

    /// Records the module that the open attempt `number` has fetched. The next write stores it, at the latest that of the
    /// apply's beginning: the runner sends it with each report.
    pub fn record_fetched(&mut self, number: u32, fetched: FetchedModule) {
        let open = self.attempts.last_mut().filter(|attempt| attempt.ended.is_none());
        if let Some(attempt) = open.filter(|attempt| attempt.number == number) {
            attempt.fetched = Some(fetched);
        }
    }

    /// Its path below the organization, for audit records.
    pub fn path(&self) -> String {
        format!("projects/{}/envs/{}/deployments/{}", self.project, self.env, self.id)
    }

    /// The resource that it is for, if it is for one.
    pub fn resource(&self) -> Option<&ResourceName> {
        let of_container = self.container.as_ref().map(|run| &run.resource);
        of_container.or(self.resource.as_deref())
    }

    /// What names the state that it works on.
    pub fn state_id(&self) -> EnvUuid {
        self.resource.as_ref().map_or(self.env_uuid, |name| name.state_id(self.env_uuid))
    }

    /// The kind of its job.
    pub fn kind(&self) -> Kind {
        if self.container.is_some() { Kind::Container } else { Kind::Tofu }
    }

    /// Whether it can change the state.
    pub fn changes_state(&self) -> bool {
        !self.plan_only && self.kind().facts().has_state
    }

    /// Whether a run of it that is cut off may leave resources in no state.
    pub fn may_leave_orphans(&self) -> bool {
        self.mode.creates() && self.kind().facts().has_state
    }

    /// How long the job may live on after the end, because its container stays for people after a failure.
    pub fn kept_for(&self) -> SignedDuration {
        let seconds = self.container.as_ref().map_or(0, |run| run.keep_seconds);
        let has_failed = self.status == Status::Failed;
        SignedDuration::from_secs(if has_failed { seconds.into() } else { 0 })
    }

    /// Whether an attempt may follow one that had begun to change resources.
    pub fn is_repeatable(&self) -> bool {
        self.container.as_ref().is_some_and(|run| run.idempotent)
    }

    /// The platform of its last attempt that has begun to apply; see [`Attempt::ran_at`].
    pub fn applied_at(&self) -> Option<&str> {
        let applied = self.attempts.iter().rev().find(|attempt| attempt.phase >= Phase::Apply);
        applied?.ran_at.as_deref()
    }

    /// Whether one of its attempts has begun to change resources.
    pub fn began_to_apply(&self) -> bool {
        let has_begun = |attempt: &Attempt| {
            attempt.phase >= Phase::Apply && attempt.apply != ApplyNote::NotBegun
        };
        self.attempts.iter().any(has_begun)
    }
}
