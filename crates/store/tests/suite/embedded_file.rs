//! The embedded table's file: private, open in one process, and complete after a kill.

use crate::items::{get, item, put};
use crate::schedules::schedule;
use crate::world::{at, record};
use canyon_domain::ids::{EnvUuid, OrgUuid};
use canyon_store::{StoreError, Table, embedded::Embedded};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use uuid::Uuid;

fn open(file: &Path) -> Result<Embedded, StoreError> {
    Embedded::open(file, Arc::new(|| {}))
}

#[tokio::test]
async fn only_the_owner_can_read_files_and_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data/canyon.db");
    let embedded = open(&file).unwrap();
    embedded.table("canyon").ensure().await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(file.parent().unwrap()), 0o700);
    let files: Vec<_> = std::fs::read_dir(file.parent().unwrap()).unwrap().collect();
    assert!(files.len() >= 3, "{files:?}");
    for found in files {
        let path = found.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn a_second_open_is_refused_until_the_first_and_its_clients_are_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("canyon.db");
    let embedded = open(&file).unwrap();
    let client = embedded.client();
    drop(embedded);
    let error = open(&file).unwrap_err();
    assert!(matches!(&error, StoreError::InUse { path } if *path == file), "{error:?}");
    drop(client);
    open(&file).unwrap();
}

#[test]
fn a_file_that_is_no_database_is_refused_and_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("canyon.db");
    std::fs::write(&file, "this is a letter to my grandmother, and rather a long one").unwrap();
    assert!(matches!(open(&file).unwrap_err(), StoreError::Open { .. }));
    assert!(std::fs::read_to_string(&file).unwrap().starts_with("this is a letter"));
}

#[tokio::test]
async fn a_committed_write_calls_the_hook_and_a_refused_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let on_write = Arc::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let embedded = Embedded::open(&folder.path().join("canyon.db"), on_write).unwrap();
    let table = embedded.table("canyon");
    table.ensure().await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    put(&table, item("a/1", &[])).await;
    let again = table.client().put_item().table_name("canyon").set_item(Some(item("a/1", &[])));
    again.condition_expression("attribute_not_exists(pk)").send().await.unwrap_err();
    get(&table, "a/1").await;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn expired_items_are_deleted_and_all_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = open(&folder.path().join("canyon.db")).unwrap();
    let table = embedded.table("canyon");
    table.ensure().await.unwrap();
    for (key, ttl) in [("a/old", "1000"), ("a/new", "99999999999")] {
        let mut with_ttl = item(key, &[]);
        with_ttl.insert("ttl".into(), aws_sdk_dynamodb::types::AttributeValue::N(ttl.into()));
        put(&table, with_ttl).await;
    }
    assert_eq!(embedded.remove_expired().await.unwrap(), 1);
    assert!(get(&table, "a/old").await.is_none() && get(&table, "a/new").await.is_some());
}

#[tokio::test]
async fn an_expired_item_that_was_read_before_is_not_read_after_its_removal() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = open(&folder.path().join("canyon.db")).unwrap();
    let table = embedded.table("canyon");
    table.ensure().await.unwrap();
    let (org, env) = (OrgUuid(Uuid::now_v7()), EnvUuid(Uuid::now_v7()));
    let mut expired = schedule(env, "nightly", 1_000);
    table.create_schedule(org, &expired, &record()).await.unwrap();
    expired.version += 1;
    table.expire_schedule(org, &expired, at(1_000)).await.unwrap();
    let is_there = async || table.schedule(org, env, &expired.id).await.unwrap().is_some();
    assert!(is_there().await && is_there().await);
    assert_eq!(embedded.remove_expired().await.unwrap(), 1);
    assert!(!is_there().await);
}

/// Set in the process that the test kills, which is this test binary again.
const VICTIM_FILE: &str = "CANYON_TEST_VICTIM_FILE";

#[tokio::test]
async fn a_killed_process_has_lost_no_acknowledged_write() {
    if let Ok(file) = std::env::var(VICTIM_FILE) {
        write_until_killed(Path::new(&file)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("canyon.db");
    let name = "embedded_file::a_killed_process_has_lost_no_acknowledged_write";
    let mut acknowledged = 0;
    for round in 0..5 {
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(VICTIM_FILE, &file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
        let enough = acknowledged + 40 + 7 * round;
        for line in lines.by_ref() {
            if let Some(n) = line.unwrap().strip_prefix("acknowledged ") {
                acknowledged = n.parse().unwrap();
                if acknowledged >= enough {
                    break;
                }
            }
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        let rest = lines.map_while(Result::ok);
        let last = rest.filter_map(|line| line.strip_prefix("acknowledged ")?.parse().ok()).last();
        acknowledged = last.unwrap_or(acknowledged);

        let table = Table::new(open(&file).unwrap().client(), "canyon");
        for n in 1..=acknowledged {
            assert!(get(&table, &format!("n/{n:06}")).await.is_some(), "{n} of {acknowledged}");
        }
    }
}

#[expect(clippy::print_stdout, reason = "the killed process reports its writes on standard output")]
async fn write_until_killed(file: &Path) -> ! {
    let table = Table::new(open(file).unwrap().client(), "canyon");
    table.ensure().await.unwrap();
    let mut n = 0_usize;
    while get(&table, &format!("n/{:06}", n + 1)).await.is_some() {
        n += 1;
    }
    loop {
        n += 1;
        put(&table, item(&format!("n/{n:06}"), &[])).await;
        println!("acknowledged {n}");
    }
}
