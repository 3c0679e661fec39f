//! The function that does what its event says.

use canyon_cloud::runtime::{Function, FunctionConfig, InvokeError};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) struct Puppet {
    pub(crate) function: Function,
    _logs: TempDir,
}

/// A puppet whose configuration `change` has changed.
pub(crate) fn puppet(change: impl FnOnce(&mut FunctionConfig)) -> Puppet {
    program(env!("CARGO_BIN_EXE_puppet"), change)
}

/// The same with another program.
pub(crate) fn program(program: &str, change: impl FnOnce(&mut FunctionConfig)) -> Puppet {
    let logs = tempfile::tempdir().unwrap();
    let mut config = FunctionConfig::new("puppet", program, logs.path());
    // Only a test of timeouts uses a short one.
    config.timeout = Duration::from_secs(20);
    change(&mut config);
    Puppet { function: Function::new(config), _logs: logs }
}

impl Puppet {
    /// Its answer to these instructions.
    pub(crate) async fn play(&self, orders: Value) -> Result<Value, InvokeError> {
        let answer = self.function.invoke(orders.to_string()).await?;
        Ok(serde_json::from_slice(&answer).unwrap())
    }

    /// The id of the process that serves now.
    pub(crate) async fn pid(&self) -> u64 {
        self.play(json!({})).await.unwrap()["pid"].as_u64().unwrap()
    }
}

/// Whether the process lives and is no zombie.
pub(crate) fn lives(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Waits until `holds` returns true, at most 10 seconds.
pub(crate) async fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
