//! `canyon-runner judge`: evaluates a policy against a plan, in a process of its own.
//!
//! A policy may take any time and memory, and may end the process: a function that calls itself overflows the stack. The runner
//! kills this process when its time is up, and the kernel limits its memory. Nothing of the runner is in it: no token, no
//! variable, no open file but three pipes.

use crate::plan_changes::without_warnings;
use canyon_domain::policy::Findings;
use canyon_policy::Fault;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

/// The command-line argument.
pub const ARGUMENT: &str = "judge";

/// The address space of the process, in MiB: a plan of 50 MB needs about 700.
pub const MEMORY: u64 = 1024;

/// The first line of standard input; the plan follows.
#[derive(Debug, Serialize, Deserialize)]
pub struct Question {
    /// The text of each module of the policy, by its name.
    pub modules: BTreeMap<String, String>,
    /// `data.canyon_context`.
    pub context: Value,
    /// Seconds of processor time after which the kernel ends the process, should its runner be gone by then.
    pub seconds: u64,
}

/// Standard output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// What the policy says.
    Judged(Findings),
    /// It cannot be evaluated.
    Failed(Fault),
}

/// Answers the question on standard input.
pub fn execute() -> ExitCode {
    match answer() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the runner reads it")]
            {
                eprintln!("{error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn answer() -> io::Result<()> {
    // If memory runs out in the job's container, this process goes first. A sandbox may have no such file.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let limit = |most| Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::As, limit(MEMORY * 1024 * 1024))?;
    let mut input = Vec::new();
    io::stdin().lock().read_to_end(&mut input)?;
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (question, plan) = input.split_at(end);
    let Question { modules, context, seconds } = serde_json::from_slice(question)?;
    setrlimit(Resource::Cpu, limit(seconds))?;
    let plan = without_warnings(plan.get(1..).unwrap_or_default());
    let plan = str::from_utf8(plan).map_err(io::Error::other)?;
    let answer = match canyon_policy::evaluate(&modules, &context, plan) {
        Ok(findings) => Answer::Judged(findings),
        Err(fault) => Answer::Failed(fault),
    };
    let mut output = io::stdout().lock();
    serde_json::to_writer(&mut output, &answer)?;
    output.flush()
}
