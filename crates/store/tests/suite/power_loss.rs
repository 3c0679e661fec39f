//! A power cut at many moments: each write that was acknowledged before, or that a reader has seen, is in the table after it.
//!
//! The kernel keeps writes in memory until an fsync, and a power cut loses them. A file system that loses them on request cannot
//! be mounted on every machine that runs the tests. So `strace` records what a process writes, and the test builds the files that
//! the disk has at a moment: with the writes that an fsync had confirmed, and with none of the later writes, or some of them.

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
    let table = embedded.table("canyon");
    table.ensure().await.unwrap();
    table
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_cut_at_any_moment_loses_no_write_that_was_acknowledged_or_shown() {
    if let Ok(file) = std::env::var(RECORDED_FILE) {
        return write_all(Path::new(&file)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, record) = (folder.path().join("canyon.db"), folder.path().join("trace"));
    let name =
        "power_loss::a_power_cut_at_any_moment_loses_no_write_that_was_acknowledged_or_shown";
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
    assert!(trace.writer_begins_the_log_again(), "SQLite never copied the log into the database");
    assert!(trace.readers_first() > 0, "no reader saw a write before its writer had the answer");
    let mut behind = 0;
    for (number, moment) in trace.moments().into_iter().enumerate() {
        for unconfirmed in [Unconfirmed::None, Unconfirmed::Some(number)] {
            let disk = trace.disk_at(moment, unconfirmed);
            behind += usize::from(disk.is_behind);
            let after = after_power_cut(&disk).await;
            let shown = trace.shown_before(moment);
            let lost: Vec<_> = shown.difference(&after).collect();
            assert!(lost.is_empty(), "{unconfirmed:?} at event {moment}: lost {lost:?}");
        }
    }
    assert!(behind > 0, "the disk had every write at each moment, which proves nothing");
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
    let readers =
        (0..WRITERS).map(|writer| tokio::spawn(report_what_is_read(table.clone(), writer)));
    let tasks: Vec<_> = writers.chain(readers).collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// Reads the next key of a writer until there is none, and reports each one that is in the table.
#[expect(
    clippy::print_stdout,
    reason = "the recorded process reports its reads on standard output"
)]
async fn report_what_is_read(table: Table, writer: usize) {
    for n in 0..WRITES {
        let key = key(writer, n);
        while get(&table, &key).await.is_none() {}
        println!("shown {key}");
    }
}
