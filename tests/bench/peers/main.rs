//! The least that a program could do in Canyon's place, for figures beside Canyon's in the same run.
//!
//! ```text
//! canyon-bench-peer hello                     answers each GET with {"id":"laptop"}, and prints its address
//! canyon-bench-peer commits FILE BYTES COUNT  writes rows of BYTES into a new SQLite file, and prints its times
//! ```

#![expect(clippy::print_stdout, reason = "scripts/bench reads the standard output")]

use rusqlite::Connection;
use serde_json::json;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["hello"] => hello(),
        ["commits", file, bytes, count] => commits(Path::new(file), bytes.parse()?, count.parse()?),
        _ => Err("usage: canyon-bench-peer hello | commits FILE BYTES COUNT".into()),
    }
}

/// A bare axum server on a free port of loopback, until it is killed.
fn hello() -> Result<(), Box<dyn Error>> {
    let answer = axum::routing::get(|| async { axum::Json(json!({ "id": "laptop" })) });
    let router = axum::Router::new().fallback(answer);
    tokio::runtime::Runtime::new()?.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        Ok(axum::serve(listener, router).await?)
    })
}

/// `count` transactions with one row of `bytes` each, one after the other. With `synchronous = FULL` in WAL mode, each commit waits
/// for an fsync.
fn commits(file: &Path, bytes: usize, count: usize) -> Result<(), Box<dyn Error>> {
    let mut database = Connection::open(file)?;
    database.pragma_update(None, "journal_mode", "WAL")?;
    database.pragma_update(None, "synchronous", "FULL")?;
    database.execute_batch("CREATE TABLE rows (key INTEGER PRIMARY KEY, value TEXT)")?;
    let value = "x".repeat(bytes);
    let mut took = Vec::with_capacity(count);
    for _ in 0..count {
        let begun = Instant::now();
        let transaction = database.transaction()?;
        transaction.prepare_cached("INSERT INTO rows (value) VALUES (?1)")?.execute([&value])?;
        transaction.commit()?;
        took.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    took.sort_by(f64::total_cmp);
    let percentile = |of: usize| took.get(took.len() * of / 100).copied().unwrap_or_default();
    println!("{}", json!({ "p50_ms": percentile(50), "p99_ms": percentile(99) }));
    Ok(())
}
