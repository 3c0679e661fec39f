//! Runners whose jobs agents launch, over a real table: which agent gets a job, whether one is
//! connected, and what is removed.

use crate::world::{Moved, World, record};
use canyon_dispatch::{
    AgentNeed, CheckReports, ChosenAgent, Dispatcher, JobRef, Launch, Platform, RemovalOutcome,
    Target,
};
use canyon_domain::agent::Agent;
use canyon_domain::agent_job::{AgentJob, DesiredState};
use canyon_domain::deadline::Observation;
use canyon_domain::ids::{AgentId, OrgUuid, PrincipalId, RunnerUuid};
use canyon_domain::ports::Clock;
use canyon_domain::runner::{RunnerDefinition, RunnerType};
use canyon_domain::runner_check::{StepReport, StepResult};
use canyon_launcher::agents::platforms;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;
use uuid::Uuid;

/// A runner whose jobs agents launch.
struct Far {
    world: World,
    org: OrgUuid,
    runner: RunnerUuid,
    /// The agents that were notified of work.
    hinted: Arc<Mutex<Vec<AgentId>>>,
}

impl Far {
    async fn new() -> Self {
        let world = World::new().await;
        let (org, _) = world.organization("acme").await;
        Self { world, org, runner: RunnerUuid(Uuid::now_v7()), hinted: Arc::default() }
    }

    fn clock(&self) -> &Moved {
        &self.world.clock
    }

    fn platform(&self) -> Arc<dyn Platform> {
        let clock: Arc<dyn Clock> = Arc::new(self.clock().clone());
        let hinted = self.hinted.clone();
        let hint =
            Arc::new(move |_: OrgUuid, agent: &AgentId| hinted.lock().unwrap().push(agent.clone()));
        let platforms = platforms(&self.world.table, &clock, hint, None, None);
        platforms[&RunnerType::DockerAgent].clone()
    }

    /// The runner with these settings.
    fn target(&self, settings: &Value) -> Arc<Target> {
        let mut configuration = json!({ "type": "docker-agent" });
        configuration.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        let definition = RunnerDefinition::parse(json!({
            "runner_configuration": configuration,
            "state_storage_configuration": { "type": "s3", "bucket": "states" },
        }));
        Arc::new(Target {
            org: self.org,
            org_id: "acme".parse().unwrap(),
            runner: self.runner,
            runner_id: "far".parse().unwrap(),
            definition: definition.unwrap(),
            agent: None,
        })
    }

    fn dispatcher(&self, settings: &Value) -> Arc<dyn Dispatcher> {
        self.platform().dispatcher(&self.target(settings))
    }

    /// A connected agent.
    async fn agent(&self, id: &str) -> Agent {
        let now = self.clock().now();
        let agent: Agent = serde_json::from_value(json!({
            "id": id, "adoption": "adopted", "created_at": now, "sessions": 1, "version": 1,
            "identity": { "by": "token", "principal": Uuid::nil() },
            "session": {
                "number": 1, "instance": "i", "opened_at": now, "last_seen": now,
                "serves": ["docker-agent"], "place": "p", "program": "1", "protocol": 1,
                "concurrency": 4, "running": 0,
            },
        }))
        .unwrap();
        self.world.table.create_agent(self.org, &agent, Some(&record())).await.unwrap();
        agent
    }

    /// The agent polls.
    async fn polls(&self, agent: &mut Agent) {
        agent.session.as_mut().unwrap().last_seen = self.clock().now();
        agent.version += 1;
        self.world.table.save_agent(self.org, agent).await.unwrap();
    }

    /// Another process replaces the agent's.
    async fn restarts(&self, agent: &mut Agent) {
        agent.sessions += 1;
        let session = agent.session.as_mut().unwrap();
        (session.number, session.opened_at) = (agent.sessions, self.clock().now());
        self.polls(agent).await;
    }

    /// An attempt that is to be launched.
    async fn launch(&self) -> Launch {
        let due = self.world.accept(self.org).await;
        self.world.reconcile(due).await;
        Launch {
            container: None,
            job: JobRef { deployment: due.id, attempt: 1, handle: None },
            environment: BTreeMap::new(),
            project: "shop".parse().unwrap(),
            env: "dev".parse().unwrap(),
            launched_at: self.clock().now(),
        }
    }

    /// A job with these additional fields.
    async fn job(&self, fields: Value) -> JobRef {
        let Value::Object(fields) = fields else { panic!("an object") };
        let now = self.clock().now();
        let mut job = json!({
            "deployment": Uuid::now_v7(), "attempt": 1, "fence": 1, "runner": self.runner,
            "order": {
                "org_id": "acme", "runner_id": "far", "kind": "docker-agent", "definition": {},
                "project": "shop", "env": "dev", "launched_at": now,
            },
            "version": 1,
        });
        job.as_object_mut().unwrap().extend(fields);
        let job: AgentJob = serde_json::from_value(job).unwrap();
        self.world.table.create_agent_job(self.org, &job, now).await.unwrap();
        JobRef { deployment: job.deployment, attempt: 1, handle: None }
    }

    /// The fields of a job that the agent holds.
    fn taken_by(&self, agent: &Agent) -> Value {
        let now = self.clock().now();
        json!({
            "taken": { "agent": agent.id, "session": 1, "place": "p", "at": now },
            "seen": { "observation": { "state": "alive" }, "at": now },
        })
    }

    async fn stored(&self, job: &JobRef) -> Option<AgentJob> {
        let (org, runner) = (self.org, self.runner);
        self.world.table.agent_job(org, runner, job.deployment, job.attempt).await.unwrap()
    }

    async fn check(&self, settings: &Value) -> StepReport {
        let (sender, mut reports) = unbounded_channel();
        self.dispatcher(settings).check(&CheckReports::new(sender)).await;
        reports.recv().await.unwrap()
    }
}

fn named(id: &str) -> Value {
    among(&[id])
}

fn among(ids: &[&str]) -> Value {
    json!({ "agents": { "ids": ids } })
}

#[tokio::test]
async fn a_job_that_no_agent_has_taken_follows_its_runners_selector_if_that_is_certain() {
    let far = Far::new().await;
    let boston = far.agent("boston").await;
    let job = far.job(json!({ "target": { "ids": ["berlin"] } })).await;
    let before = far.stored(&job).await;

    // The profile is missing, so the runner alone does not determine the selector of this job.
    let watcher = far.platform().watcher(&far.target(&named("boston")));
    assert!(matches!(watcher.observe(&job).await, Observation::Queued(_)));
    assert_eq!(far.stored(&job).await, before);

    let dispatcher = far.dispatcher(&named("boston"));
    let offered = Observation::Queued("offered to agent `boston`".to_owned());
    assert_eq!(dispatcher.observe(&job).await, offered);
    let stored = far.stored(&job).await.unwrap();
    assert!(stored.is_for(&boston) && stored.offer.unwrap().agent == boston.id);
}

#[tokio::test]
async fn a_live_agent_keeps_its_job_when_the_runner_selects_another() {
    let far = Far::new().await;
    let (berlin, mut boston) = (far.agent("berlin").await, far.agent("boston").await);
    let job = far.job(far.taken_by(&berlin)).await;
    let before = far.stored(&job).await;
    assert_eq!(far.dispatcher(&named("boston")).observe(&job).await, Observation::Alive);
    assert_eq!(far.stored(&job).await, before);

    far.clock().by(61);
    far.polls(&mut boston).await;
    far.dispatcher(&named("boston")).observe(&job).await;
    assert_eq!(far.stored(&job).await.unwrap().holder.unwrap().agent, boston.id);
}

#[tokio::test]
async fn a_job_of_a_restarted_agent_is_reassigned_although_the_runner_selects_another() {
    let far = Far::new().await;
    let (mut berlin, boston) = (far.agent("berlin").await, far.agent("boston").await);
    let (first, second) =
        (far.job(far.taken_by(&berlin)).await, far.job(far.taken_by(&berlin)).await);
    far.restarts(&mut berlin).await;
    let holder = async |job: &JobRef| {
        let taken = far.stored(job).await.unwrap().holder.unwrap();
        assert!(taken.reassigned, "its new holder must be notified: {taken:?}");
        (taken.agent, taken.session)
    };
    assert_eq!(far.dispatcher(&named("boston")).observe(&first).await, Observation::Alive);
    assert_eq!(holder(&first).await, (boston.id, 1));
    // No other agent of its place is connected.
    assert_eq!(far.dispatcher(&named("oslo")).observe(&second).await, Observation::Alive);
    assert_eq!(holder(&second).await, (berlin.id, 2));
}

#[tokio::test]
async fn a_job_to_forget_is_reassigned_within_its_place_if_its_holder_is_gone() {
    let far = Far::new().await;
    let (berlin, mut boston) = (far.agent("berlin").await, far.agent("boston").await);
    let job = far.job(far.taken_by(&berlin)).await;
    far.clock().by(61);
    far.polls(&mut boston).await;
    assert_eq!(far.dispatcher(&named("boston")).forget(&job).await, RemovalOutcome::Removed);
    let left = far.stored(&job).await.unwrap();
    assert_eq!((left.holder.unwrap().agent, left.desired), (boston.id, DesiredState::Forget));
}

#[tokio::test]
async fn a_cancelled_silent_job_is_to_be_looked_after_once_its_pod_must_have_ended() {
    let far = Far::new().await;
    let mut berlin = far.agent("berlin").await;
    let mut cancelled = far.taken_by(&berlin);
    cancelled["polled"] =
        json!({ "name": "canyon-1", "namespace": "jobs", "said_at": far.clock().now() });
    (cancelled["wish"], cancelled["done"]) = (json!("forget"), json!("forget"));
    let job = far.job(cancelled).await;
    let is_looked_after = async || {
        far.dispatcher(&named("berlin")).observe(&job).await;
        far.stored(&job).await.unwrap().polled.unwrap().check_pending
    };
    assert!(!is_looked_after().await, "its pod may end by itself");
    far.clock().by(4 * 60);
    far.polls(&mut berlin).await;
    assert!(is_looked_after().await);
}

#[tokio::test]
async fn a_burst_of_jobs_goes_evenly_to_agents_that_have_not_polled_since() {
    let far = Far::new().await;
    let names = ["berlin", "boston", "bremen"];
    for name in names {
        far.agent(name).await;
    }
    let dispatcher = far.dispatcher(&among(&names));
    let mut jobs = Vec::new();
    for each in [1, 3, 4] {
        let mut pass = JoinSet::new();
        while jobs.len() < each * names.len() {
            let (job, dispatcher) = (far.job(json!({})).await, dispatcher.clone());
            jobs.push(job.clone());
            pass.spawn(async move { dispatcher.observe(&job).await });
        }
        pass.join_all().await;
        let mut offered = Vec::new();
        for job in &jobs {
            offered.push(far.stored(job).await.unwrap().offer.unwrap().agent);
        }
        for name in names {
            let count = offered.iter().filter(|agent| agent.as_str() == name).count();
            assert_eq!(count, each, "{name} of {offered:?}");
        }
    }
    let waits = dispatcher.observe(&far.job(json!({})).await).await;
    let Observation::Queued(reason) = waits else { panic!("{waits:?}") };
    assert!(reason.ends_with("all 3 connected agents are busy"), "{reason}");
}

#[tokio::test]
async fn a_job_without_a_free_agent_notifies_agents_that_may_have_room_by_now() {
    let far = Far::new().await;
    let berlin = far.agent("berlin").await;
    let dispatcher = far.dispatcher(&named("berlin"));
    // It runs four jobs at once, and does not poll meanwhile.
    for count in 1..=5 {
        let launch = far.launch().await;
        dispatcher.start(&launch).await.unwrap();
        assert_eq!(*far.hinted.lock().unwrap(), vec![berlin.id.clone(); count]);
        let offer = far.stored(&launch.job).await.unwrap().offer;
        assert_eq!(offer.is_some(), count < 5, "{offer:?}");
    }
}

#[tokio::test]
async fn a_runner_has_no_agent_until_a_selected_one_polls() {
    let far = Far::new().await;
    let mut berlin = far.agent("berlin").await;
    let absence =
        async |id: &str| far.dispatcher(&named(id)).no_agent_reason(AgentNeed::Presence).await;
    assert_eq!(absence("berlin").await, None);
    let never =
        "waiting for an agent of runner `far`: none has ever connected that is called `boston`";
    assert_eq!(absence("boston").await.as_deref(), Some(never));
    far.clock().by(61);
    assert!(absence("berlin").await.unwrap().contains("runner `far`, last seen 20"));
    far.polls(&mut berlin).await;
    assert_eq!(absence("berlin").await, None);
}

#[tokio::test]
async fn a_runner_has_no_room_once_its_agents_have_as_many_orders_as_free_places() {
    let far = Far::new().await;
    let busy = async |id: &str| far.dispatcher(&named(id)).no_agent_reason(AgentNeed::Room).await;
    assert!(busy("berlin").await.unwrap().contains("none has ever connected"));
    // It runs four jobs at once.
    let mut berlin = far.agent("berlin").await;
    far.clock().by(61);
    far.polls(&mut berlin).await;
    let dispatcher = far.dispatcher(&named("berlin"));
    for _ in 0..4 {
        assert_eq!(busy("berlin").await, None);
        dispatcher.start(&far.launch().await).await.unwrap();
    }
    let full = busy("berlin").await.unwrap();
    assert!(full.ends_with("all 1 connected agents are busy"), "{full}");
    assert_eq!(dispatcher.no_agent_reason(AgentNeed::Presence).await, None, "it is there");
}

#[tokio::test]
async fn a_check_accepts_every_agent_that_a_profile_may_select_and_names_the_profile() {
    let far = Far::new().await;
    far.agent("berlin").await;
    let alone = far.check(&named("boston")).await;
    assert!(alone.result == StepResult::Failed && !alone.message.contains("profile"), "{alone:?}");
    let mut settings = named("boston");
    settings["profile"] = json!("${environment.type}");
    let by_profile = far.check(&settings).await;
    assert_eq!(by_profile.result, StepResult::Ok, "{by_profile:?}");
    assert!(by_profile.message.contains("its jobs: berlin; the runner's profile chooses"));
    far.clock().by(61);
    let gone = far.check(&settings).await;
    assert!(gone.result == StepResult::Failed && gone.message.contains("profile"), "{gone:?}");
}

#[tokio::test]
async fn a_job_without_anything_left_to_do_is_removed_at_once() {
    let far = Far::new().await;
    let berlin = far.agent("berlin").await;
    let (waiting, held) = (far.job(json!({})).await, far.job(far.taken_by(&berlin)).await);
    let mut never_handed_out = far.taken_by(&berlin);
    never_handed_out["done"] = json!("forget");
    let never_handed_out = far.job(never_handed_out).await;
    let dispatcher = far.dispatcher(&named("berlin"));
    for job in [&waiting, &held, &never_handed_out] {
        assert_eq!(dispatcher.forget(job).await, RemovalOutcome::Removed);
    }
    assert_eq!(far.stored(&waiting).await, None);
    assert_eq!(far.stored(&never_handed_out).await, None);
    assert_eq!(
        far.stored(&held).await.unwrap().desired,
        DesiredState::Forget,
        "its agent removes it"
    );
}

#[tokio::test]
async fn a_users_own_machine_launches_the_deployments_of_that_user_alone() {
    let far = Far::new().await;
    let mut own = far.agent("cli-me").await;
    let principal = |number| PrincipalId(Uuid::from_u128(number));
    (own.reserved, own.adopted_by) = (true, Some(principal(1)));
    own.runner = Some("far".parse().unwrap());
    far.polls(&mut own).await;
    let offered = async |by| {
        let mut target = (*far.target(&json!({}))).clone();
        target.agent = Some(ChosenAgent { id: own.id.clone(), by });
        let dispatcher = far.platform().dispatcher(&Arc::new(target));
        let launch = far.launch().await;
        dispatcher.start(&launch).await.unwrap();
        (far.stored(&launch.job).await.unwrap(), dispatcher.observe(&launch.job).await)
    };
    let (job, seen) = offered(principal(1)).await;
    assert!(job.offer.is_some_and(|offer| offer.agent == own.id), "{seen:?}");
    // The machine that this deployment names was deleted, and another user has its name.
    let (job, seen) = offered(principal(2)).await;
    assert!(job.offer.is_none() && !job.is_for(&own), "{job:?}");
    assert!(matches!(seen, Observation::Gone(Some(_))), "{seen:?}");
}
