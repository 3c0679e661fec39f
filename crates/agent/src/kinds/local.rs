//! Platform `local`: jobs are processes of this machine. Each runner has a folder of its own.

mod authorities;

pub use canyon_dispatch::local::protect_this_process;

use super::{Kind, KindError};
use crate::settings::Settings;
use async_trait::async_trait;
use canyon_api::agent::JobKey;
use canyon_dispatch::local::{LocalDispatcher, LocalSettings, inherited_environment};
use canyon_dispatch::{Dispatcher, Target};
use canyon_domain::ids::RunnerUuid;
use canyon_domain::ports::Clock as _;
use canyon_domain::ports::Entropy as _;
use canyon_domain::runner::{RunnerDefinition, RunnerType};
use canyon_identity::key_file;
use canyon_identity::system::System;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

const PROGRAM: &str = "canyon-runner";

/// The platform `local`.
pub struct LocalKind {
    program: PathBuf,
    state_dir: PathBuf,
    serves: RunnerType,
    /// The variables that jobs get in addition to, or in place of, those that all local jobs inherit.
    passed_on: BTreeMap<OsString, OsString>,
    runners: Mutex<HashMap<RunnerUuid, Arc<LocalDispatcher>>>,
    hint: Arc<Notify>,
}

impl LocalKind {
    /// Jobs have their folders below the agent's state folder.
    ///
    /// # Errors
    ///
    /// [`KindError`] when `canyon-runner` is missing, or the state folder cannot be created.
    pub fn new(settings: &Settings) -> Result<Self, KindError> {
        let program = settings.runner_program.clone().or_else(runner_program);
        let program = program.filter(|program| program.is_file()).ok_or_else(|| {
            let reason = "`canyon-runner` is neither beside the agent nor on the PATH; install it, or set \
                          CANYON_AGENT_RUNNER_PROGRAM to its path";
            KindError(reason.to_owned())
        })?;
        std::fs::create_dir_all(&settings.state_dir).map_err(|error| {
            let folder = settings.state_dir.display();
            KindError(format!("CANYON_AGENT_STATE_DIR: `{folder}` cannot be created: {error}"))
        })?;
        let mut passed_on = BTreeMap::new();
        if let Some(given) = &settings.authorities {
            let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
            let file = authorities::with(given, &settings.state_dir, &variable)?;
            passed_on.insert("SSL_CERT_FILE".into(), file.into());
        }
        let (runners, hint) = (Mutex::default(), Arc::default());
        Ok(Self {
            program,
            state_dir: settings.state_dir.clone(),
            serves: RunnerType::Local,
            passed_on,
            runners,
            hint,
        })
    }

    /// The same for the jobs of another runner type: they run as processes here too, with these variables for their
    /// providers.
    #[must_use]
    pub fn serving(mut self, serves: RunnerType, passed_on: BTreeMap<OsString, OsString>) -> Self {
        self.serves = serves;
        self.passed_on.extend(passed_on);
        self
    }

    fn jobs(&self) -> PathBuf {
        self.state_dir.join("jobs")
    }

    fn of_runner(
        &self,
        runner: RunnerUuid,
        definition: Option<&RunnerDefinition>,
    ) -> Arc<LocalDispatcher> {
        let mut runners = self.runners.lock().unwrap_or_else(PoisonError::into_inner);
        let dispatcher = runners.entry(runner).or_insert_with(|| {
            let mut inherited = inherited_environment();
            inherited.extend(self.passed_on.clone());
            inherited.extend(definition.into_iter().flat_map(of_container));
            let settings = LocalSettings {
                runner: self.program.clone(),
                jobs: self.jobs().join(runner.to_string()),
                path: std::env::var_os("PATH").unwrap_or_default(),
                inherited,
            };
            let hint = self.hint.clone();
            Arc::new(LocalDispatcher::new(settings, move |_| hint.notify_waiters()))
        });
        dispatcher.clone()
    }
}

/// The variables that the definition sets in a container, for a job that is a process here. The variables of a local
/// runner come with the job's claim instead.
fn of_container(definition: &RunnerDefinition) -> BTreeMap<OsString, OsString> {
    let pairs = definition.configuration.container_environment().into_iter().flatten();
    pairs.map(|(name, value)| (name.into(), value.into())).collect()
}

/// The program `canyon-runner`, beside this program or on the PATH.
pub fn runner_program() -> Option<PathBuf> {
    let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name(PROGRAM));
    beside.filter(|program| program.is_file()).or_else(|| on_path(PROGRAM))
}

/// Whether `tofu` or `terraform` is on the PATH.
pub fn has_executable() -> bool {
    ["tofu", "terraform"].into_iter().any(|program| on_path(program).is_some())
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|found| found.is_file())
}

#[async_trait]
impl Kind for LocalKind {
    fn serves(&self) -> RunnerType {
        self.serves
    }

    /// The id in the state folder. The machine's name is not used, because other machines may have the same name.
    async fn platform_id(&self) -> Result<String, KindError> {
        let make = || System.id(System.now()).to_string().into_bytes();
        let id = key_file::load_or_create(&self.state_dir.join("place"), make)
            .map_err(|error| KindError(canyon_domain::causes::Causes(&error).to_string()))?;
        Ok(format!("local:{}", String::from_utf8_lossy(&id).trim()))
    }

    fn dispatcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        self.of_runner(target.runner, Some(&target.definition))
    }

    async fn found(&self) -> Result<Vec<JobKey>, KindError> {
        let failed = |error: std::io::Error| {
            KindError(format!("cannot read `{}`: {error}", self.jobs().display()))
        };
        let entries = match std::fs::read_dir(self.jobs()) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(failed)?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let Some(runner) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            let jobs = self.of_runner(runner, None).adopt().map_err(failed)?;
            found.extend(jobs.into_iter().map(|job| JobKey {
                runner,
                deployment: job.deployment,
                attempt: job.attempt,
            }));
        }
        Ok(found)
    }

    fn cleaner(&self, job: &JobKey) -> Option<Arc<dyn Dispatcher>> {
        Some(self.of_runner(job.runner, None))
    }

    fn hint(&self) -> Arc<Notify> {
        self.hint.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::faults::Faults;
    use crate::settings::identity::Machine;
    use crate::settings::layers::Layer;
    use std::ffi::OsStr;
    use std::path::Path;

    /// The settings of an agent with these variables.
    fn settings(own: &[(&str, &Path)]) -> Settings {
        let always = [
            ("CANYON_API_URL", "https://canyon.example.com"),
            ("CANYON_RUNNER_PATH", "acme/far"),
            ("CANYON_AGENT_NAME", "east-1"),
            ("CANYON_JOB_DISPATCHER_TYPE", "local"),
        ];
        let own = own.iter().map(|(name, value)| (*name, value.to_str().unwrap()));
        let variables = always.into_iter().chain(own);
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut faults = Faults::default();
        let layer = Layer::of_environment(variables, &mut faults);
        let machine = Machine { variable: &|_| None, exists: &|_| false };
        Settings::read(&layer, &machine, faults).unwrap()
    }

    #[test]
    fn jobs_get_the_agents_authorities_and_the_variables_of_their_providers() {
        let folder = tempfile::tempdir().unwrap();
        let ca_file = folder.path().join("own.pem");
        std::fs::write(&ca_file, "OWN").unwrap();
        let settings = settings(&[
            ("CANYON_AGENT_STATE_DIR", folder.path()),
            ("CANYON_AGENT_RUNNER_PROGRAM", &*std::env::current_exe().unwrap()),
            ("CANYON_CA_FILE", &*ca_file),
        ]);
        let region = BTreeMap::from([("AWS_REGION".into(), "eu-west-1".into())]);
        let kind = LocalKind::new(&settings).unwrap().serving(RunnerType::EcsAgent, region);
        let value = |variable: &str| kind.passed_on[OsStr::new(variable)].clone();
        assert_eq!(value("AWS_REGION"), "eu-west-1");
        assert!(std::fs::read_to_string(value("SSL_CERT_FILE")).unwrap().starts_with("OWN"));
    }

    #[test]
    fn jobs_use_the_program_and_the_folder_of_the_settings() {
        let folder = tempfile::tempdir().unwrap();
        let [state, named] = ["state", "runner"].map(|name| folder.path().join(name));
        let settings = settings(&[
            ("CANYON_AGENT_STATE_DIR", &*state),
            ("CANYON_AGENT_RUNNER_PROGRAM", &*named),
        ]);
        let refused = LocalKind::new(&settings).err().unwrap().to_string();
        assert!(refused.contains("set CANYON_AGENT_RUNNER_PROGRAM"), "{refused}");
        std::fs::write(&named, "").unwrap();
        let kind = LocalKind::new(&settings).unwrap();
        assert!(state.is_dir(), "the folder is created");
        assert_eq!(kind.jobs(), state.join("jobs"));
        let LocalKind { program, state_dir, serves, passed_on, runners: _, hint: _ } = kind;
        assert_eq!((program, state_dir, serves), (named, state, RunnerType::Local));
        assert_eq!(passed_on, BTreeMap::new());
    }
}
