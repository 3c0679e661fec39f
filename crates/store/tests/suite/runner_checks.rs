//! One check of a runner at a time, begun by one launcher, found only while somebody waits for it.

use crate::world::{at, count, id, race, record};
use canyon_domain::ids::{OrgUuid, RunnerCheckId};
use canyon_domain::runner_check::{DEADLINE, RunnerCheck};
use canyon_store::Table;
use canyon_store::outcome::Saved;
use canyon_store::runner_checks::OpenCheck;
use uuid::Uuid;

on_each_table!(
    of_16_who_ask_at_once_one_is_first,
    of_16_launchers_one_begins_and_then_none_finds_it,
    nobody_looks_for_a_check_whose_time_is_over,
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
    table.ask_for_check(org, before, new, &record()).await.unwrap()
}

async fn of_16_who_ask_at_once_one_is_first(table: Table) {
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

async fn of_16_launchers_one_begins_and_then_none_finds_it(table: Table) {
    let org = org();
    let asked = check();
    ask(&table, org, None, &asked).await;
    let open = OpenCheck { org, runner: id("my-runner") };
    assert_eq!(table.open_checks(at(1)).await.unwrap(), [open]);
    let saved = race(|n| {
        let (table, mut mine) = (table.clone(), asked.clone());
        async move {
            // Each at its own time, so that no two write the same.
            assert!(mine.begin(at(i64::try_from(n).unwrap() + 1)));
            mine.version += 1;
            table.save_check(org, &mine).await.unwrap()
        }
    })
    .await;
    assert_eq!(count(&saved, &Saved::Yes), 1, "{saved:?}");
    assert_eq!(table.open_checks(at(1)).await.unwrap(), []);
}

async fn nobody_looks_for_a_check_whose_time_is_over(table: Table) {
    let (org, asked) = (org(), check());
    ask(&table, org, None, &asked).await;
    assert_eq!(table.open_checks(at(0) + DEADLINE).await.unwrap(), []);
}
