//! Agents and their jobs: each write is conditional, and work is listed by priority and age.

use crate::world::{at, count, id, race, record};
use canyon_domain::agent::{Adoption, Agent, AgentIdentity, Session};
use canyon_domain::agent_job::{AgentJob, DesiredState, JobSpec};
use canyon_domain::ids::{DeploymentId, OrgUuid, PrincipalId, RunnerUuid};
use canyon_domain::runner::RunnerType;
use canyon_store::Table;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::{Page, PageRequest};
use serde_json::json;
use uuid::Uuid;

on_each_table!(
    of_16_sessions_that_open_at_once_one_is_the_newest,
    an_agent_is_created_and_deleted_once_and_all_others_stay,
    an_agent_that_changed_since_it_was_read_is_not_deleted_without_a_users_request,
    of_16_sessions_that_take_a_job_one_gets_it,
    work_is_listed_by_priority_and_age_while_it_needs_an_action,
    jobs_of_an_absent_agent_hide_no_work_from_other_agents,
    a_withdrawal_and_a_take_exclude_each_other,
);

fn org() -> OrgUuid {
    OrgUuid(Uuid::now_v7())
}

pub(crate) fn agent(name: &str) -> Agent {
    Agent {
        id: id(name),
        identity: AgentIdentity::Token { principal: PrincipalId(Uuid::nil()) },
        adoption: Adoption::Adopted,
        labels: [].into(),
        runner: Some(id("far")),
        disabled: false,
        run_untagged_jobs: None,
        by_runner_key: false,
        by_token: None,
        named_at: None,
        settings_fixed_at: None,
        reserved: false,
        shared: false,
        adopted_by: None,
        created_at: at(0),
        asked_from: None,
        sessions: 0,
        numbers_drawn: 0,
        candidates: Vec::new(),
        session: None,
        version: 1,
    }
}

/// The agent with its next session.
pub(crate) fn opened(mut agent: Agent, instance: &str) -> Agent {
    agent.sessions += 1;
    agent.version += 1;
    agent.session = Some(Session {
        number: agent.sessions,
        instance: instance.to_owned(),
        earlier_instances: Vec::new(),
        opened_at: at(0),
        last_seen: at(0),
        closed_at: None,
        serves: vec![RunnerType::DockerAgent],
        platform_id: "engine".to_owned(),
        program: "0.1.0".to_owned(),
        protocol: 1,
        concurrency: 100,
        running: 0,
        draining: false,
        offered_at: None,
        last_error: None,
        adopts_jobs: None,
    });
    agent
}

fn job(runner: RunnerUuid, deployment: u128, priority: i8) -> AgentJob {
    AgentJob {
        deployment: DeploymentId(Uuid::from_u128(deployment)),
        attempt: 1,
        fence: 7,
        runner,
        spec: JobSpec {
            org_id: id("acme"),
            runner_id: id("far"),
            kind: RunnerType::DockerAgent,
            definition: json!({}),
            project: id("shop"),
            env: id("main"),
            launched_at: at(0),
            container: None,
        },
        target: None,
        only_agent: None,
        only_for: None,
        priority,
        offer: None,
        holder: None,
        desired: DesiredState::Run,
        applied: DesiredState::Run,
        reported: None,
        tail: None,
        manifest: None,
        polled: None,
        version: 1,
    }
}

fn runner() -> RunnerUuid {
    RunnerUuid(Uuid::now_v7())
}

fn numbers(work: &Page<AgentJob>) -> Vec<u128> {
    work.items.iter().map(|job| job.deployment.0.as_u128()).collect()
}

async fn of_16_sessions_that_open_at_once_one_is_the_newest(table: Table) {
    let (org, agent) = (org(), agent("berlin"));
    assert_eq!(table.create_agent(org, &agent, Some(&record())).await.unwrap(), Created::Yes);
    let saved = race(|n| {
        let (table, mine) = (table.clone(), opened(agent.clone(), &n.to_string()));
        async move { table.save_agent(org, &mine).await.unwrap() }
    })
    .await;
    assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
    let stored = table.agent(org, &agent.id).await.unwrap().unwrap();
    assert_eq!((stored.sessions, stored.version), (1, 2));
    // A retry after a lost answer succeeds, although the first write was applied.
    assert_eq!(table.save_agent(org, &stored).await.unwrap(), Saved::Yes);
}

async fn an_agent_is_created_and_deleted_once_and_all_others_stay(table: Table) {
    let (ours, theirs) = (org(), org());
    for org in [ours, theirs] {
        for name in ["berlin", "boston"] {
            let made = table.create_agent(org, &agent(name), Some(&record())).await.unwrap();
            assert_eq!(made, Created::Yes);
        }
    }
    let again = table.create_agent(ours, &agent("berlin"), Some(&record())).await.unwrap();
    assert_eq!(again, Created::Exists);
    for wanted in [Deleted::Yes, Deleted::No] {
        assert_eq!(table.delete_agent(ours, &id("berlin"), &record()).await.unwrap(), wanted);
    }
    let late = opened(agent("berlin"), "late");
    assert_eq!(table.save_agent(ours, &late).await.unwrap(), Saved::Lost, "it is deleted");
    assert_eq!(table.all_agents(theirs).await.unwrap().len(), 2);
    let request = PageRequest { limit: 10, after: None };
    let left = table.agents(ours, &request, |_| true).await.unwrap();
    assert_eq!(left.items, [agent("boston")]);
}

async fn an_agent_that_changed_since_it_was_read_is_not_deleted_without_a_users_request(
    table: Table,
) {
    let (org, pending) = (org(), Agent { adoption: Adoption::Pending, ..agent("berlin") });
    table.create_agent(org, &pending, Some(&record())).await.unwrap();
    let adopted = Agent { adoption: Adoption::Adopted, version: 2, ..pending.clone() };
    assert_eq!(table.change_agent(org, &adopted, &record()).await.unwrap(), Saved::Yes);
    for (read, wanted) in
        [(&pending, Deleted::No), (&adopted, Deleted::Yes), (&adopted, Deleted::No)]
    {
        let deleted = table.delete_agent_as_read(org, read, Some(&record())).await.unwrap();
        assert_eq!(deleted, wanted, "{read:?}");
    }
}

async fn of_16_sessions_that_take_a_job_one_gets_it(table: Table) {
    let (org, mut job) = (org(), job(runner(), 1, 0));
    let berlin = opened(agent("berlin"), "a");
    assert!(job.offer(&berlin, &[], at(0)));
    assert_eq!(table.create_agent_job(org, &job, at(0)).await.unwrap(), Created::Yes);
    assert_eq!(table.create_agent_job(org, &job, at(0)).await.unwrap(), Created::Exists);
    let saved = race(|n| {
        let (table, mut mine, agent) = (table.clone(), job.clone(), berlin.id.clone());
        async move {
            // Like independent processes of one agent, each with its own place.
            mine.take(&agent, 1, &n.to_string(), at(1)).unwrap();
            mine.version += 1;
            table.save_agent_job(org, &mine, at(1)).await.unwrap()
        }
    })
    .await;
    assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
}

async fn work_is_listed_by_priority_and_age_while_it_needs_an_action(table: Table) {
    let (org, runner) = (org(), runner());
    for job in [job(runner, 3, 0), job(runner, 2, -1), job(runner, 1, 5), job(runner, 4, 0)] {
        table.create_agent_job(org, &job, at(0)).await.unwrap();
    }
    table.create_agent_job(org, &job(self::runner(), 9, 9), at(0)).await.unwrap();
    let berlin = opened(agent("berlin"), "a");
    let open = async || numbers(&table.agent_work(org, runner, None).await.unwrap());
    let own = async || numbers(&table.agent_work_of(org, &berlin.id, None).await.unwrap());
    assert_eq!(open().await, [1, 3, 4, 2], "higher first, then older, of this runner");

    let mut taken = table.agent_work(org, runner, None).await.unwrap().items.remove(0);
    assert!(taken.offer(&berlin, &[], at(0)));
    taken.take(&berlin.id, 1, "engine", at(1)).unwrap();
    taken.version += 1;
    table.save_agent_job(org, &taken, at(1)).await.unwrap();
    assert_eq!(open().await, [3, 4, 2]);
    assert_eq!(own().await, [] as [u128; 0], "the job needs no action of its agent");
    assert!(taken.raise_desired_state(DesiredState::Stop));
    taken.version += 1;
    table.save_agent_job(org, &taken, at(2)).await.unwrap();
    assert_eq!((own().await, open().await), (vec![1], vec![3, 4, 2]));
    taken.record_applied(&berlin.id, 1, DesiredState::Stop).unwrap();
    taken.version += 1;
    table.save_agent_job(org, &taken, at(3)).await.unwrap();
    assert_eq!((own().await, open().await), (vec![], vec![3, 4, 2]));
    assert_eq!(table.agent_jobs(org, runner).await.unwrap().len(), 4, "all are kept");
    assert_eq!(table.delete_agent_job(org, &taken).await.unwrap(), Saved::Yes);
    assert_eq!(
        table.delete_agent_job(org, &taken).await.unwrap(),
        Saved::Yes,
        "a repeated deletion"
    );
    assert_eq!(table.agent_jobs(org, runner).await.unwrap().len(), 3);
}

async fn jobs_of_an_absent_agent_hide_no_work_from_other_agents(table: Table) {
    let (org, runner) = (org(), runner());
    let (absent, other) = (opened(agent("berlin"), "a"), opened(agent("boston"), "b"));
    for deployment in 0..150 {
        let mut held = job(runner, deployment, 5);
        assert!(held.offer(&absent, &[], at(0)));
        table.create_agent_job(org, &held, at(0)).await.unwrap();
        held.take(&absent.id, 1, "engine", at(1)).unwrap();
        held.raise_desired_state(DesiredState::Stop);
        held.version += 1;
        assert_eq!(table.save_agent_job(org, &held, at(1)).await.unwrap(), Saved::Yes);
    }
    let new = job(runner, 1_000, 0);
    table.create_agent_job(org, &new, at(2)).await.unwrap();
    let open = table.agent_work(org, runner, None).await.unwrap();
    assert_eq!((open.items, open.next), (vec![new], None));
    let others = table.agent_work_of(org, &other.id, None).await.unwrap();
    assert_eq!((others.items, others.next), (vec![], None));

    let first = table.agent_work_of(org, &absent.id, None).await.unwrap();
    let second = table.agent_work_of(org, &absent.id, first.next.as_ref()).await.unwrap();
    assert_eq!([numbers(&first), numbers(&second)].concat(), (0..150_u128).collect::<Vec<_>>());
    assert_eq!((first.items.len(), second.next), (100, None));
}

async fn a_withdrawal_and_a_take_exclude_each_other(table: Table) {
    let org = org();
    for round in 0..8 {
        let mut offered = job(runner(), round, 0);
        let berlin = opened(agent("berlin"), "a");
        assert!(offered.offer(&berlin, &[], at(0)));
        table.create_agent_job(org, &offered, at(0)).await.unwrap();
        let (mut taken, mut withdrawn) = (offered.clone(), offered.clone());
        taken.take(&berlin.id, 1, "engine", at(1)).unwrap();
        withdrawn.raise_desired_state(DesiredState::Kill);
        for job in [&mut taken, &mut withdrawn] {
            job.version += 1;
        }
        let (one, other) = tokio::join!(
            table.save_agent_job(org, &taken, at(1)),
            table.save_agent_job(org, &withdrawn, at(1)),
        );
        let both = [one.unwrap(), other.unwrap()];
        assert_eq!(count(&both, &Saved::Yes), 1, "{both:?}");
        // A job that changed since it was read is not deleted.
        assert_eq!(table.delete_agent_job(org, &offered).await.unwrap(), Saved::Lost);
    }
}
