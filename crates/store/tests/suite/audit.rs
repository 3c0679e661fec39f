//! Audit records are listed newest first, also across months without records.

use crate::pages::{check_pages, first};
use crate::world::{World, env_type, record_at, uuid};
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::OrgUuid;
use canyon_store::Table;
use canyon_store::outcome::Created;
use jiff::Timestamp;
use uuid::Uuid;

on_each_table!(records_are_paged_newest_first_across_the_borders_of_months);

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
            let list =
                async |request| table.audit_records(*org, since, now, &request).await.unwrap();
            check_audit(limit, &model, list).await;
        }
    }
    let before_creation =
        table.audit_records(*org, time(TIMES[8]), time(TIMES[0]), &first(5)).await.unwrap();
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
