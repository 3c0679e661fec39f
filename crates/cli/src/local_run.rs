//! `canyon deploy --local`: this process is the agent of the deployment's runner, for this deployment alone.
//!
//! It generates a key in memory, registers an agent under a unique name, and adopts it with the caller's token.
//! The agent is reserved: Canyon offers it only the deployment that names it. At the end the command deletes the agent.

mod interrupts;
mod joining;
mod no_agent;
mod own_agent;
mod own_credentials;

pub(crate) use interrupts::Interrupts;
pub(crate) use no_agent::NoAgent;
pub(crate) use own_agent::OwnAgent;

use crate::error::CliError;
use crate::process_variable::variable;
use canyon_agent::kinds::local::{has_executable, protect_this_process, runner_program};
use canyon_api::client::Client;
use canyon_domain::ids::{AgentId, OrgId, RunnerId};
use canyon_domain::runner::RunnerType;
use serde_json::Value;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// What the command finds out before it writes anything.
#[derive(Debug)]
pub(crate) struct LocalRun {
    org: OrgId,
    runner: RunnerId,
    kind: RunnerType,
    is_disabled: bool,
    name: AgentId,
    program: PathBuf,
    state_dir: PathBuf,
}

impl LocalRun {
    /// Protects this process, which has the caller's token, from the modules that run beside it, and checks whether
    /// this machine can run deployments of the environment.
    pub(crate) async fn prepare(
        client: &Client,
        project: &str,
        env: &str,
    ) -> Result<Self, CliError> {
        // Before the first request: jobs of another agent of this user may run already.
        protect_this_process().map_err(|error| {
            CliError::usage(format!(
                "the kernel does not protect your token from the modules of local jobs: {error}"
            ))
        })?;
        let environment = client.get(&["projects", project, "envs", env]).await?;
        let runner = text(&environment, "/runner_id");
        let definition = client.get(&["runners", &runner]).await?;
        let given = text(&definition, "/runner_configuration/type");
        let kind = given.parse().ok().filter(|kind: &RunnerType| kind.may_have_agent());
        let Some(kind) = kind else {
            return Err(CliError::usage_with_hint(
                format!(
                    "runner `{runner}` is of type `{given}`, whose jobs Canyon launches on its own platform; only \
                     runners of agents and of type `local` can run here"
                ),
                "deploy without --local",
            ));
        };
        let program = runner_program().ok_or_else(|| {
            CliError::usage_with_hint(
                "there is no `canyon-runner` in the folder of `canyon` or on the PATH",
                "it is part of Canyon's release: put it into the folder of `canyon`",
            )
        })?;
        if !has_executable() {
            return Err(CliError::usage_with_hint(
                "there is neither OpenTofu (`tofu`) nor Terraform on the PATH",
                "install OpenTofu 1.6 or newer",
            ));
        }
        let name = own_name()?;
        let state_dir = state_dir()?.join(name.as_str());
        let misread = |what: &str| CliError::usage(format!("Canyon's answer has no valid {what}"));
        Ok(Self {
            org: client.org().parse().map_err(|_| misread("organization"))?,
            runner: runner.parse().map_err(|_| misread("runner"))?,
            kind,
            is_disabled: definition["disabled"] == true,
            name,
            program,
            state_dir,
        })
    }

    /// What the command says if an administrator has disabled the runner: for another deployment, Canyon would wait.
    pub(crate) fn disabled_notice(&self) -> Option<String> {
        let runner = &self.runner;
        self.is_disabled.then(|| {
            format!("runner `{runner}` is disabled; with --local, the deployment runs nevertheless")
        })
    }
}

fn text(answer: &Value, pointer: &str) -> String {
    answer.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// `cli-<user>-<random>`.
fn own_name() -> Result<AgentId, CliError> {
    let user = variable("USER").unwrap_or_else(|| "user".to_owned()).to_ascii_lowercase();
    let user: String = user.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
    let random = Uuid::new_v4().simple().to_string();
    let name = format!("cli-{user}-{}", random.get(..10).unwrap_or(&random));
    name.parse().map_err(|_| CliError::usage(format!("`{name}` is not a valid name of an agent")))
}

/// The folder for the files of running jobs.
fn state_dir() -> Result<PathBuf, CliError> {
    let given = variable("XDG_STATE_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    let home = || variable("HOME").map(|home| Path::new(&home).join(".local/state"));
    given.or_else(home).map(|folder| folder.join("canyon/deployments")).ok_or_else(|| {
        CliError::usage_with_hint("this machine has no home folder for jobs", "set HOME")
    })
}
