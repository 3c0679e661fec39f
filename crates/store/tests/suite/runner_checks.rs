//! A runner has one check at a time, one launcher begins it, and it is listed only until its
//! deadline.

use crate::world::{at, count, id, race, record};
use canyon_domain::ids::{OrgUuid, RunnerCheckId};
use canyon_domain::runner_check::{DEADLINE, RunnerCheck};
use canyon_store::Table;
use canyon_store::outcome::Saved;
use canyon_store::runner_checks::OpenCheck;
use uuid::Uuid;

on_each_table!(
    of_16_concurrent_requests_for_a_check_one_wins,
    of_16_launchers_one_begins_a_check_and_then_none_finds_it,
    a_check_that_timed_out_is_not_listed,
);

fn org() -> OrgUuid {
    OrgUuid(Uuid::now_v7())
}

fn check() -> RunnerCheck {
    RunnerCheck::new(RunnerCheckId(Uuid::now_v7()), id("my-runner"), at(0))
}

async fn ask(
    table: &Table,
    org: OrgUuid,
    before: Option<&RunnerCheck>,
    new: &RunnerCheck,
) -> Saved {
    table.request_check(org, before, new, &record()).await.unwrap()
}

async fn of_16_concurrent_requests_for_a_check_one_wins(table: Table) {
    let org = org();
    let first = check();
    assert_eq!(ask(&table, org, None, &first).await, Saved::Yes);
    let saved = race(|_| {
        let (table, first) = (table.clone(), first.clone());
        async move { ask(&table, org, Some(&first), &check()).await }
    })
    .await;
    assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
}

async fn of_16_launchers_one_begins_a_check_and_then_none_finds_it(table: Table) {
    let org = org();
    let asked = check();
    ask(&table, org, None, &asked).await;
    let open = OpenCheck { org, runner: id("my-runner") };
    assert_eq!(table.open_checks(at(1)).await.unwrap(), [open]);
    let saved = race(|n| {
        let (table, mut mine) = (table.clone(), asked.clone());
        async move {
            // Each at a different time, so that no two writes are equal.
            assert!(mine.begin(at(i64::try_from(n).unwrap() + 1)));
            mine.version += 1;
            table.save_check(org, &mine).await.unwrap()
        }
    })
    .await;
    assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
    assert_eq!(table.open_checks(at(1)).await.unwrap(), []);
}

async fn a_check_that_timed_out_is_not_listed(table: Table) {
    let (org, asked) = (org(), check());
    ask(&table, org, None, &asked).await;
    assert_eq!(table.open_checks(at(0) + DEADLINE).await.unwrap(), []);
}
