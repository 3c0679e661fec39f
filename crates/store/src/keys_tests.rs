use super::*;
use canyon_domain::ids::PrincipalId;
use canyon_domain::ids::RunnerUuid;
use canyon_domain::schedule::ScheduleId;
use std::collections::HashSet;

#[test]
fn a_deployment_key_reads_back() {
    let (of, id) = (OrgUuid(Uuid::now_v7()), DeploymentId(Uuid::now_v7()));
    assert_eq!(parse_deployment(&deployment(of, id).pk), Some((of, id)));
    for wrong in ["", "#dep#", "x#dep#y", &environments(of)] {
        assert_eq!(parse_deployment(wrong), None, "{wrong}");
    }
}

#[test]
fn the_key_of_a_check_reads_back() {
    let (of, runner) = (OrgUuid(Uuid::now_v7()), "my-runner".parse::<RunnerId>().unwrap());
    let key = runner_check(of, &runner);
    assert_eq!(parse_runner_check(&key.pk, &key.sk), Some((of, runner)));
    let deployment = deployment(of, DeploymentId(Uuid::now_v7()));
    assert_eq!(parse_runner_check(&deployment.pk, &deployment.sk), None);
}

#[test]
fn the_key_of_a_retention_reads_back() {
    let of = OrgUuid(Uuid::now_v7());
    assert_eq!(parse_organization(&retention(of).pk), Some(of));
    assert_eq!(parse_organization(&environments(of)), None);
}

#[test]
fn the_key_of_a_schedule_reads_back() {
    let (of, env) = (OrgUuid(Uuid::now_v7()), EnvUuid(Uuid::now_v7()));
    let id: ScheduleId = "nightly".parse().unwrap();
    let key = schedule(of, env, &id);
    assert_eq!(parse_schedule(&key.pk, &key.sk), Some((of, env, id)));
    assert_eq!(parse_schedule(&environments(of), &key.sk), None);
    assert_eq!(parse_schedule(&key.pk, "nightly"), None);
}

#[test]
fn two_organizations_share_no_key() {
    let keys = |of: OrgUuid| {
        let id = DeploymentId(Uuid::nil());
        let (project, env): (ProjectId, EnvId) = ("pp".parse().unwrap(), "ee".parse().unwrap());
        let account = "111122223333".parse().unwrap();
        let any_event = event_source::Scope { account, source: None, rule: None, project: None };
        [
            organization(of).pk,
            tokens(of),
            env_types(of),
            projects(of),
            runners(of),
            runner_profiles(of),
            accounts(of),
            variable_sets(of),
            schedules(of),
            limits(of),
            slots(of, &LimitScope::Organization),
            runner_check(of, &"rr".parse().unwrap()).pk,
            agents(of),
            agent_jobs(of, RunnerUuid(Uuid::nil())),
            agent_work(of, RunnerUuid(Uuid::nil())),
            agent_work_of(of, &"aa".parse().unwrap()),
            rules(of),
            rule_scope(of, &Scope::default()).pk,
            event_sources(of),
            event_scope(of, &any_event).pk,
            service_accounts(of),
            identity_providers(of),
            known_principals(of),
            environment(of, &project, &env).pk,
            deployment(of, id).pk,
            deployments(of),
            ended_deployments(of, Status::Failed),
            ended_deployments(of, Status::Cancelled),
            deployments_of_environment(of, EnvUuid(Uuid::nil())),
            idempotency(of, &PrincipalId(Uuid::nil()).into(), "k").pk,
            nonce(of, &PrincipalId(Uuid::nil()).into(), "k").pk,
            audit_month(of, Timestamp::UNIX_EPOCH),
        ]
    };
    let mut all = HashSet::from([wrapped_key().pk, rate_limiter("r").pk, api_rate_limit("r").pk]);
    for n in 0..3_u128 {
        for key in keys(OrgUuid(Uuid::from_u128(n))) {
            assert!(all.insert(key.clone()), "{key}");
        }
    }
}

#[test]
fn work_of_agents_sorts_by_priority_and_then_by_age() {
    let id = |n| DeploymentId(Uuid::from_u128(n));
    let (of, runner) = (OrgUuid(Uuid::now_v7()), RunnerUuid(Uuid::now_v7()));
    let order = |priority, n, attempt| agent_work_order(priority, id(n), attempt, runner);
    let order = [
        order(i8::MAX, 9, 1),
        order(1, 9, 1),
        order(0, 1, 2),
        order(0, 2, 1),
        order(-1, 1, 1),
        order(i8::MIN, 1, 1),
    ];
    assert!(order.is_sorted(), "{order:?}");
    let job = agent_job_in_order(of, &order[2]);
    assert_eq!(job, Some(agent_job(of, runner, id(1), 2)), "it reads back");
}

#[test]
fn due_keys_sort_by_time() {
    let at = |ms| due_at(Timestamp::from_millisecond(ms).unwrap());
    assert!(at(999) < at(1_000) && at(1_700_000_000_000) < at(1_700_000_000_001));
    assert!(at(9_000_000_000_000) < due_at(Timestamp::MAX));
}
