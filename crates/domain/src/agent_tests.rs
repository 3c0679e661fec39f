use super::*;
use crate::agent_job::AgentJob;
use crate::deployment::Priority;
use serde_json::json;

fn agent(id: &str, running: u32, offered_at: Option<&str>) -> Agent {
    serde_json::from_value(json!({
        "id": id, "identity": { "by": "token", "principal": "00000000-0000-0000-0000-000000000001" },
        "adoption": "adopted", "runner": "private", "created_at": "2026-01-01T00:00:00Z",
        "sessions": 1, "version": 1,
        "session": {
            "number": 1, "instance": "i", "opened_at": "2026-01-01T00:00:00Z",
            "last_seen": "2026-01-01T00:00:00Z", "serves": ["kubernetes-agent"], "place": "p",
            "program": "1", "protocol": 1, "concurrency": 4, "running": running,
            "offered_at": offered_at,
        },
    }))
    .unwrap()
}

fn at(second: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap()
        + std::time::Duration::from_secs(second.unsigned_abs())
}

const KIND: RunnerType = RunnerType::KubernetesAgent;

#[test]
fn the_least_loaded_agent_is_chosen_and_then_the_one_with_the_oldest_offer() {
    let id = |agents: &[Agent]| {
        choose_agent(agents, |agent| agent.has_room(KIND, at(1))).map(|agent| agent.id.to_string())
    };
    let busy = agent("a", 1, None);
    let early = agent("b", 0, Some("2026-01-01T00:00:01Z"));
    let late = agent("c", 0, Some("2026-01-01T00:00:02Z"));
    let never = agent("d", 0, None);
    assert_eq!(id(&[busy.clone(), late.clone(), early.clone()]).unwrap(), "b");
    assert_eq!(id(&[busy.clone(), late, early, never]).unwrap(), "d");
    assert_eq!(id(&[agent("full", 4, None), busy]).unwrap(), "a");
    assert_eq!(id(&[agent("full", 4, None)]), None);
    // Its share of a larger concurrency is smaller, although it runs more.
    let mut large = agent("z", 2, None);
    large.session.as_mut().unwrap().concurrency = 100;
    assert_eq!(id(&[agent("a", 1, None), large]).unwrap(), "z");
}

#[test]
fn an_agent_has_at_most_sixteen_labels() {
    let labels = |count| (0..count).map(|n| (format!("l{n}"), "x".to_owned())).collect();
    assert_eq!(invalid_labels_reason(&labels(MAX_LABELS)), None);
    for count in [MAX_LABELS + 1, MAX_LABELS + 2] {
        let reason = invalid_labels_reason(&labels(count)).unwrap();
        assert!(reason.contains("at most 16"), "{reason}");
    }
}

#[test]
fn an_agent_that_is_silent_disabled_draining_or_of_another_kind_gets_nothing() {
    let good = agent("a", 0, None);
    assert!(good.has_room(KIND, at(59)) && !good.has_room(KIND, at(60)));
    assert!(!good.has_room(RunnerType::EcsAgent, at(1)));
    assert!(!Agent { disabled: true, ..good.clone() }.has_room(KIND, at(1)));
    let with = |change: fn(&mut Session)| {
        let mut agent = good.clone();
        change(agent.session.as_mut().unwrap());
        agent
    };
    assert!(!with(|session| session.draining = true).has_room(KIND, at(1)));
    assert!(!with(|session| session.closed_at = Some(at(1))).has_room(KIND, at(1)));
}

#[test]
fn an_agent_serves_the_runner_that_it_names_or_those_that_name_it() {
    let own = agent("a", 0, None);
    let free = Agent { runner: None, ..own.clone() };
    let (private, other) = ("private".parse().unwrap(), "other".parse().unwrap());
    let ids = |id: &str| Some(AgentTarget::Ids(vec![id.parse().unwrap()]));
    assert!(own.may_serve(&private, None) && !own.may_serve(&other, None));
    assert!(!own.may_serve(&other, ids("a").as_ref()), "it serves only its own runner");
    assert!(!own.may_serve(&private, ids("b").as_ref()), "the runner selects another");
    assert!(free.may_serve(&private, ids("a").as_ref()));
    assert!(!free.may_serve(&private, None), "neither names the other");
    let with_untagged =
        |agent: &Agent, run| Agent { run_untagged_jobs: Some(run), ..agent.clone() };
    let (takes_all, only_named) = (with_untagged(&free, true), with_untagged(&own, false));
    assert!(takes_all.may_serve(&private, None) && takes_all.may_serve(&other, None));
    assert!(!takes_all.may_serve(&private, ids("b").as_ref()), "the runner selects another");
    assert!(!only_named.may_serve(&private, None), "the runner selects no agents");
    assert!(only_named.may_serve(&private, ids("a").as_ref()));
    assert!(!with_untagged(&own, true).may_serve(&other, None), "it serves only its own runner");
    for adoption in [Adoption::Pending, Adoption::Rejected] {
        assert!(!Agent { adoption, ..own.clone() }.may_serve(&private, None));
    }
}

#[test]
fn a_check_for_drift_leaves_a_place_of_its_agent_for_a_deployment() {
    let job = |of: Priority| -> AgentJob {
        let id = "01890000-0000-7000-8000-000000000001";
        let order = json!({
            "org_id": "acme", "runner_id": "private", "kind": KIND, "definition": {},
            "project": "shop", "env": "dev", "launched_at": at(0),
        });
        let job = json!({
            "deployment": id, "attempt": 1, "fence": 1, "runner": id, "priority": of.rank(),
            "order": order, "version": 1,
        });
        serde_json::from_value(job).unwrap()
    };
    let (check, deployment) = (job(Priority::Background), job(Priority::Normal));
    let has_room = |places, running, job: &AgentJob| {
        let mut agent = agent("a", running, None);
        agent.session.as_mut().unwrap().concurrency = places;
        agent.has_room_for(job, at(1))
    };
    for (places, running, of_check, of_deployment) in [
        (2, 0, true, true),
        (2, 1, false, true),
        (2, 2, false, false),
        (4, 2, true, true),
        (4, 3, false, true),
        // There is no place to leave.
        (1, 0, true, true),
        (1, 1, false, false),
    ] {
        let found = (has_room(places, running, &check), has_room(places, running, &deployment));
        assert_eq!(found, (of_check, of_deployment), "{running} of {places}");
    }
}

#[test]
fn a_token_for_labels_alone_makes_no_agent_one_that_a_runner_names_by_id() {
    let private = "private".parse().unwrap();
    let ids = AgentTarget::Ids(vec!["a".parse().unwrap()]);
    let labels: BTreeMap<_, _> = [("team".to_owned(), "blue".to_owned())].into();
    let wanted = AgentTarget::Labels(labels.clone());
    let with = |labels_alone, runner: Option<&str>| Agent {
        labels: labels.clone(),
        run_untagged_jobs: Some(false),
        by_token: Some(TokenScope { runner: runner.map(|id| id.parse().unwrap()), labels_alone }),
        ..agent("a", 0, None)
    };
    let serves = |agent: &Agent| [&ids, &wanted].map(|it| agent.may_serve(&private, Some(it)));
    let confined = with(Some(true), None);
    assert_eq!(serves(&confined), [false, true]);
    let adopted = Agent { named_at: Some(at(0)), ..confined.clone() };
    assert_eq!(serves(&adopted), [true, true], "an administrator has adopted it by its name");
    let settled =
        Agent { settings_fixed_at: Some(at(0)), run_untagged_jobs: Some(true), ..confined };
    assert_eq!(serves(&settled), [false, true], "its name is as free as before");
    assert_eq!(serves(&with(Some(false), None)), [true, true], "the token has no labels");
    // As earlier versions stored it.
    assert_eq!(serves(&with(None, None)), [false, true]);
    assert_eq!(serves(&with(None, Some("private"))), [true, true], "the token is the runner's");
    let free = Agent { run_untagged_jobs: None, ..with(None, None) };
    assert_eq!(serves(&free), [true, true]);
    let read: Agent = serde_json::from_value(serde_json::to_value(&adopted).unwrap()).unwrap();
    assert_eq!(read, adopted);
}

#[test]
fn the_reason_to_wait_names_what_is_missing() {
    let runner = "private".parse().unwrap();
    let why = |agents: &[Agent], second| waiting_reason(agents, &runner, None, KIND, at(second));
    let labels = AgentTarget::Labels([("region".to_owned(), "eu".to_owned())].into());
    let ids = AgentTarget::Ids(["a", "b"].map(|id| id.parse().unwrap()).into());
    let idle = agent("a", 0, None);
    let full = agent("a", 4, None);
    let disabled = Agent { disabled: true, ..idle.clone() };
    let reasons = [
        why(&[], 0),
        why(std::slice::from_ref(&idle), 100),
        why(&[full], 1),
        why(&[disabled], 1),
        waiting_reason(&[idle], &runner, None, RunnerType::DockerAgent, at(1)),
        waiting_reason(&[], &runner, Some(&labels), KIND, at(0)),
        waiting_reason(&[], &runner, Some(&ids), KIND, at(0)),
    ];
    insta::assert_snapshot!(reasons.join("\n"), @r"
    waiting for an agent of runner `private`: none has ever connected
    waiting for an agent of runner `private`, last seen 2026-01-01T00:00:00Z
    waiting for an agent of runner `private`: all 1 connected agents are busy
    waiting for an agent of runner `private`: all are disabled
    waiting for an agent of runner `private`: the connected agents launch no jobs of type `docker-agent`
    waiting for an agent of runner `private`: none has ever connected that has the labels `region=eu`
    waiting for an agent of runner `private`: none has ever connected that is called `a` or `b`
    ");
}
