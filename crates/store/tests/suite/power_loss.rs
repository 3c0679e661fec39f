//! A power cut at many moments: each write that was acknowledged before, or that a reader has seen, is in the table after it.
//!
//! The kernel keeps writes in memory until an fsync, and a power cut takes them. No file system that does so on request can
//! be mounted on every machine that runs the tests. So `strace` records what a process writes, and the test builds the files as
//! they are on the disk at a moment: what an fsync had confirmed, and of the later writes none, or some in any order.

mod trace;

use crate::items::{get, item, put};
use canyon_store::{Table, embedded::Embedded};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use trace::{Disk, Trace, Unconfirmed};

/// Set in the process that the test records, which is this test binary again.
const RECORDED_FILE: &str = "CANYON_TEST_RECORDED_FILE";
const WRITERS: usize = 8;
const WRITES: usize = 15;

async fn open(file: &Path) -> Table {
    let embedded = Embedded::open(file, Arc::new(|| {})).unwrap();
    let table = Table::new(embedded.client(), "canyon");
    table.ensure().await.unwrap();
    table
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_at_any_moment_takes_no_acknowledged_write() {
    if let Ok(file) = std::env::var(RECORDED_FILE) {
        return write_all(Path::new(&file)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, record) = (folder.path().join("canyon.db"), folder.path().join("trace"));
    let name = "power_loss::a_power_cut_at_any_moment_takes_no_acknowledged_write";
    let status = Command::new("strace")
        .args(["-f", "-qq", "-y", "-xx", "-s", "1000000", "-o"])
        .arg(&record)
        .args(["-e", "trace=pwrite64,write,ftruncate,fsync,fdatasync"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(RECORDED_FILE, &file)
        .stdout(Stdio::null())
        .status()
        .expect("strace starts: apt-get install strace");
    assert!(status.success(), "{status}");

    let trace = Trace::read(&record, &file);
    let moments = trace.acknowledgements();
    assert!(moments.len() > WRITERS * WRITES, "the reader saw nothing");
    assert!(trace.syncs_of("canyon.db") > 0, "the log was never copied into the database");
    let mut lost_unconfirmed = 0;
    for (number, moment) in moments.iter().enumerate() {
        for unconfirmed in [Unconfirmed::None, Unconfirmed::Some(number)] {
            let disk = trace.disk_at(*moment, unconfirmed);
            lost_unconfirmed += usize::from(disk.is_behind);
            let after = after_power_cut(&disk).await;
            let acknowledged = trace.acknowledged_before(*moment);
            let lost: Vec<_> = acknowledged.difference(&after).collect();
            assert!(lost.is_empty(), "{unconfirmed:?} after {number} answers: lost {lost:?}");
        }
    }
    assert!(lost_unconfirmed > 0, "no power cut took anything, which proves nothing");
}

/// The keys that the table has when it is opened from what is on the disk.
async fn after_power_cut(disk: &Disk) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in &disk.files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let table = open(&folder.path().join("canyon.db")).await;
    let mut found = BTreeSet::new();
    for key in (0..WRITERS).flat_map(|writer| (0..WRITES).map(move |n| key(writer, n))) {
        if get(&table, &key).await.is_some() {
            found.insert(key);
        }
    }
    found
}

fn key(writer: usize, n: usize) -> String {
    format!("w{writer}/{n:03}")
}

#[expect(
    clippy::print_stdout,
    reason = "the recorded process reports its writes on standard output"
)]
async fn write_all(file: &Path) {
    let table = open(file).await;
    println!("begins");
    let writers = (0..WRITERS).map(|writer| {
        let table = table.clone();
        tokio::spawn(async move {
            for n in 0..WRITES {
                let key = key(writer, n);
                let mut item = item(&key, &[]);
                let filler = aws_sdk_dynamodb::types::AttributeValue::S("x".repeat(40_000));
                item.insert("filler".into(), filler);
                put(&table, item).await;
                println!("acknowledged {key}");
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    let reader = tokio::spawn(report_what_is_read(table.clone()));
    for writer in writers {
        writer.await.unwrap();
    }
    reader.await.unwrap();
}

/// Looks for the next write of each writer until there is none, and reports each one that it sees.
#[expect(
    clippy::print_stdout,
    reason = "the recorded process reports its reads on standard output"
)]
async fn report_what_is_read(table: Table) {
    let mut next = [0; WRITERS];
    while next.iter().any(|n| *n < WRITES) {
        for (writer, n) in next.iter_mut().enumerate().filter(|(_, n)| **n < WRITES) {
            let key = key(writer, *n);
            if get(&table, &key).await.is_some() {
                println!("acknowledged {key}");
                *n += 1;
            }
        }
    }
}
