//! Audit records are listed newest first, also across months without records.

use crate::pages::{check_pages, first};
use crate::world::{World, env_type, record_at, uuid};
use canyon_domain::audit::AuditRecord;
use canyon_domain::audit_filter::AuditFilter;
use canyon_domain::ids::OrgUuid;
use canyon_store::Table;
use canyon_store::meter::Meter;
use canyon_store::outcome::Created;
use canyon_store::page::PageRequest;
use jiff::Timestamp;
use uuid::Uuid;

on_each_table!(
    records_are_paged_newest_first_across_the_borders_of_months,
    a_period_reads_only_its_records,
    a_filter_that_matches_few_is_searched_in_bounded_pages_without_gaps,
);

const TIMES: [&str; 9] = [
    "2024-02-29T23:59:59.999Z",
    "2024-03-01T00:00:00Z",
    "2025-11-30T23:59:59.999999999Z",
    "2025-12-01T00:00:00Z",
    "2025-12-31T23:59:59.999Z",
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00.001Z",
    "2026-03-31T12:00:00Z", // nothing in February
    "2026-04-01T00:00:00Z",
];

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

async fn records_are_paged_newest_first_across_the_borders_of_months(table: Table) {
    let world = World { table, org: OrgUuid(Uuid::now_v7()) };
    let World { table, org } = &world;
    let mut model: Vec<AuditRecord> = Vec::new();
    for (n, at) in TIMES.iter().enumerate() {
        for twin in 0..[1, 3][n % 2] {
            let record = AuditRecord { id: uuid(time(at)), ..record_at(time(at)) };
            let kind = env_type(&format!("type-{n}-{twin}"));
            assert_eq!(table.create_env_type(*org, &kind, &record).await.unwrap(), Created::Yes);
            model.push(record);
        }
    }
    model.sort_by_key(|record| std::cmp::Reverse(record.id));

    let ranges = [
        ("2024-02-29T00:00:00Z", "2026-04-01T00:00:01Z"), // from its creation on
        ("2024-01-01T00:00:00Z", "2026-09-15T00:00:00Z"), // months without records at both ends
        ("2025-12-05T00:00:00Z", "2026-04-01T00:00:01Z"), // the month of its creation counts completely
    ];
    for (since, now) in ranges {
        let (since, now) = (time(since), time(now));
        let month = |at: Timestamp| at.strftime("%Y-%m").to_string();
        let model: Vec<_> =
            model.iter().filter(|record| month(record.at) >= month(since)).cloned().collect();
        for limit in (1..=7).chain([100]) {
            let list = async |request| {
                table
                    .audit_records(*org, since, now, &AuditFilter::default(), &request)
                    .await
                    .unwrap()
            };
            check_audit(limit, &model, list).await;
        }
    }
    let before_creation = table
        .audit_records(*org, time(TIMES[8]), time(TIMES[0]), &AuditFilter::default(), &first(5))
        .await
        .unwrap();
    assert_eq!((before_creation.items, before_creation.next), (vec![], None));
}

async fn check_audit<F>(
    limit: u32,
    model: &[AuditRecord],
    list: impl Fn(canyon_store::page::PageRequest) -> F,
) where
    F: Future<Output = canyon_store::page::Page<AuditRecord>>,
{
    check_pages(limit, model, AuditRecord::clone, list).await;
}

/// A record for each of [`TIMES`], the kinds in turn, oldest first.
async fn written(world: &World) -> Vec<AuditRecord> {
    let mut records = Vec::new();
    for (n, at) in TIMES.iter().map(|at| time(at)).enumerate() {
        let action = ["runner.create", "project.delete"][n % 2].to_owned();
        let record = AuditRecord { id: uuid(at), action, ..record_at(at) };
        let kind = env_type(&format!("type-{n}"));
        world.table.create_env_type(world.org, &kind, &record).await.unwrap();
        records.push(record);
    }
    records
}

async fn a_period_reads_only_its_records(table: Table) {
    let world = World { table, org: OrgUuid(Uuid::now_v7()) };
    let records = written(&world).await;
    let (created_at, now) = (time("2024-01-01T00:00:00Z"), time("2026-09-15T00:00:00Z"));
    let ends = TIMES.iter().chain(&["2026-02-10T00:00:00Z", "2027-01-01T00:00:00Z"]);
    for since in TIMES.iter().map(|since| Some(time(since))).chain([None]) {
        for until in ends.clone().map(|until| Some(time(until))).chain([None]) {
            if since.zip(until).is_some_and(|(since, until)| until < since) {
                continue;
            }
            let filter = AuditFilter { since, until, ..AuditFilter::default() };
            let model: Vec<_> =
                records.iter().rev().filter(|record| filter.matches(record)).cloned().collect();
            for limit in [1, 2, 100] {
                let list = async |request: PageRequest| {
                    let (table, org) = (&world.table, world.org);
                    table.audit_records(org, created_at, now, &filter, &request).await.unwrap()
                };
                check_audit(limit, &model, list).await;
            }
        }
    }
    // Records before the period are not read.
    let meter = Meter::default();
    let watched = meter.watch(&world.table);
    let since = Some(time("2026-08-01T00:00:00Z"));
    let filter = AuditFilter { since, ..AuditFilter::default() };
    let found =
        watched.audit_records(world.org, created_at, now, &filter, &first(5)).await.unwrap();
    assert_eq!((found.items.len(), meter.take().requests()), (0, 2));
}

async fn a_filter_that_matches_few_is_searched_in_bounded_pages_without_gaps(table: Table) {
    let world = World { table, org: OrgUuid(Uuid::now_v7()) };
    let records = written(&world).await;
    let meter = Meter::default();
    let watched = meter.watch(&world.table);
    let (created_at, now) = (time("2024-01-01T00:00:00Z"), time("2026-09-15T00:00:00Z"));
    for (action, pages) in [("runner", 3), ("project.delete", 3), ("absent.*", 3)] {
        let action = Some(action.parse().unwrap());
        let filter = AuditFilter { action, ..AuditFilter::default() };
        let (mut found, mut sizes, mut request) = (Vec::new(), Vec::new(), first(50));
        loop {
            let page = watched.audit_records(world.org, created_at, now, &filter, &request).await;
            let page = page.unwrap();
            let requests = meter.take().requests();
            assert!(requests <= 12, "{requests}");
            sizes.push(page.items.len());
            found.extend(page.items);
            request.after = page.next;
            if request.after.is_none() {
                break;
            }
        }
        let model: Vec<_> =
            records.iter().rev().filter(|record| filter.matches(record)).cloned().collect();
        assert_eq!(found, model);
        assert_eq!(sizes.len(), pages, "{sizes:?}");
    }
}
