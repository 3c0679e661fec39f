//! The processes below the runner: the program of a container job, and what that has started.

use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
use std::fs;
use std::time::Duration;
use tokio::time::sleep;

/// How often the processes are looked for again: one may have started another meanwhile.
const ROUNDS: usize = 200;
/// The time between two rounds.
const PAUSE: Duration = Duration::from_millis(10);

/// Kills every process below this one, also those that have left the program's process group.
pub(super) async fn kill() {
    if getpid() == Pid::INIT {
        // `kill(-1)`: every process of the container but this one, at once (`kill(2)`).
        let _ = kill_process_group(Pid::INIT, Signal::KILL);
        return;
    }
    for _ in 0..ROUNDS {
        let living = living();
        if living.is_empty() {
            return;
        }
        for pid in living {
            // If it has just ended, there is nothing to kill.
            let _ = kill_process(pid, Signal::KILL);
        }
        sleep(PAUSE).await;
    }
}

/// The processes below this one that have not ended.
fn living() -> Vec<Pid> {
    let (mut found, mut parents) = (Vec::new(), vec![getpid()]);
    while let Some(parent) = parents.pop() {
        for child in children(parent) {
            parents.push(child);
            if !has_ended(child) {
                found.push(child);
            }
        }
    }
    found
}

fn children(parent: Pid) -> Vec<Pid> {
    let Ok(threads) = fs::read_dir(format!("/proc/{parent}/task")) else { return Vec::new() };
    let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children"));
    let lists = threads.flatten().filter_map(|thread| of_thread(thread).ok());
    let pids = lists.flat_map(|list| {
        list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
    });
    pids.filter_map(Pid::from_raw).collect()
}

fn has_ended(pid: Pid) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    // The state follows the program's name in parentheses, which may have any character (`proc_pid_stat(5)`).
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    matches!(state, None | Some('Z' | 'X'))
}
