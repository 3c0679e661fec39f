//! A container job: runs the program of the job's image in place of OpenTofu.
//!
//! The main container of such a job is the image of its author, of which nothing is asked. The runner is its first process,
//! from a volume, and starts the program as its child. The program gets its task by variables and files, and answers by files
//! (`contract`). The log is never read for data.

mod checkout;
mod contract;
mod descendants;
mod directory;
mod drift;
mod environment;
mod inspection;
mod log_end;
mod pre_checks;
mod program;
mod supervision;
mod verdict;

use crate::applying::Applying;
use crate::git_access::GitAccess;
use crate::records::{Further, Records, log_troubles, unusable};
use crate::{
    environment_size, exit::Exit, oom, outputs, outputs::Outputs, outputs::Receivers, reaper,
    result, result::Outcome, secret_stores, session::ApiConnection, session::Session,
    settings::Settings, stop::Stop, workspace::Workspace,
};
use canyon_api::attempt::FetchedModuleBody;
use canyon_api::deployment::Output;
use canyon_domain::commit::Commit;
use canyon_domain::container::results::Results;
use canyon_domain::container::{ContainerJob, ContainerTask, JobCheck};
use canyon_domain::failure::{Failure, FailureClass, Phase};
use canyon_domain::job::Job;
use canyon_domain::job_identity::TokenPhase;
use canyon_domain::variables::VariableKind;
use contract::Contract;
use drift::Drift;
use log_end::LogEnd;
use pre_checks::PreChecks;
use program::Program;
use secrecy::SecretString;
use std::collections::BTreeMap;
use std::time::Duration;
use supervision::{Ended, Limits, Supervision};
use verdict::Circumstances;

/// One run of a container job.
struct Run {
    job: Job,
    task: ContainerTask,
    settings: Settings,
    api: ApiConnection,
    /// The token with which the program may read from Canyon.
    read_token: Option<SecretString>,
    workspace: Workspace,
    /// The credentials for its source.
    access: GitAccess,
    stop: Stop,
    records: Records,
    applying: Applying,
    /// The end of the program's output, if its failure shows that.
    log_end: Option<LogEnd>,
    /// What a check has found.
    drift: Option<Drift>,
}

/// Serves a claimed attempt, whose job is the container job `task`, to its end.
pub async fn serve(
    mut session: Session,
    mut task: ContainerTask,
    settings: Settings,
    workspace: Workspace,
    stop: Stop,
) -> Exit {
    reaper::adopt_orphans();
    let api = session.api.clone();
    // Before the first line of the log, in which the values are masked.
    let unread = read_secrets(&mut session.job, &mut task.job, &api, &stop).await.err();
    if let Some(failure) = unread.as_ref().filter(|_| !task.checks) {
        return result::refuse(&api, failure.clone(), &stop).await;
    }
    let access = checkout::access(&mut session.job, &task.job, &workspace, &api).await;
    let variables = task.job.variables.clone().unwrap_or_default();
    let further = Further { variables, secrets: access.secrets().map(str::to_owned).collect() };
    let (records, shipper) = match Records::open(&session, &settings, &workspace, further, &stop) {
        Ok(opened) => opened,
        Err(failure) => return result::refuse(&api, failure, &stop).await,
    };
    let shipping = tokio::spawn(shipper.run());
    let mut run = Run::new(session, task, settings, workspace, stop.clone(), records);
    run.access = access;
    let outcome = run.execute(unread).await.for_delivery(&stop, &run.records.log).await;
    let keep = run.keeps_container(&outcome);
    if let Some(keep) = keep {
        run.records.log.step(&inspection::advice(keep));
    }
    run.records.log.end(outcome.failure.as_ref());
    run.records.progress.end();
    let chunks = shipping.await.unwrap_or_default();
    let message = run.whole_message(&outcome);
    let mut body = outcome.into_body(None);
    if let (Some(failure), Some(message)) = (&mut body.failure, message) {
        failure.message = message;
    }
    body.chunks = chunks;
    body.phase = Some(run.records.progress.phase());
    body.fetched = run.records.progress.fetched();
    body.untouched = run.applying == Applying::Announced;
    body.tf_resource_counts = run.drift.map(Drift::counts);
    let exit = result::conclude(&api, body, &stop, "the program").await;
    if let Some(container_log) = run.records.container_log {
        container_log.end();
    }
    if let Some(keep) = keep {
        inspection::wait(keep, &stop).await;
    }
    exit
}

/// Reads the secrets of a container job: its own, and the kept variables that its program gets.
async fn read_secrets(
    job: &mut Job,
    container: &mut ContainerJob,
    api: &ApiConnection,
    stop: &Stop,
) -> Result<(), Failure> {
    let own: Vec<_> = container.secrets().map(|(path, _)| path).collect();
    // The program has no variables of another kind.
    job.stored_variables
        .retain(|one| one.kind == VariableKind::Environment || own.contains(&one.name));
    if let Some(unread) = secret_stores::read(job, api, stop).await?.into_iter().next() {
        return Err(unread.failure);
    }
    container.fill_secrets(&job.variables);
    match container.secrets().find(|(_, secret)| secret.value().is_none()) {
        None => Ok(()),
        Some((path, _)) => {
            let message =
                format!("the secret `container.{path}` is no longer stored; deploy it again");
            Err(Failure::new(FailureClass::Config, message))
        }
    }
}

impl Run {
    fn new(
        session: Session,
        task: ContainerTask,
        settings: Settings,
        workspace: Workspace,
        stop: Stop,
        mut records: Records,
    ) -> Self {
        let Session { job, read_token, api, .. } = session;
        let log = &mut records.log;
        log.step(&format!("attempt {} runs {}", job.attempt, task.job.image));
        log.flush();
        let shows_log = task.job.append_logs_to_error == Some(true) && !log.is_sealed();
        Self {
            job,
            task,
            settings,
            api,
            read_token,
            workspace,
            access: GitAccess::default(),
            stop,
            records,
            applying: Applying::No,
            log_end: shows_log.then(LogEnd::default),
            drift: None,
        }
    }

    async fn execute(&mut self, unread: Option<Failure>) -> Outcome {
        match self.run_program(unread).await {
            Ok(outputs) => Outcome { outputs: Box::new(outputs), ..Outcome::default() },
            Err(failure) => failure.into(),
        }
    }

    /// Runs the program to its end. `unread` is why its secrets could not be read, if that is to be reported among other checks.
    async fn run_program(&mut self, unread: Option<Failure>) -> Result<Outputs, Failure> {
        let job = &self.task.job;
        let image = self.settings.job_image.as_deref();
        let image = image.ok_or_else(|| verdict::outdated(&job.image))?;
        if self.settings.refuse_root && rustix::process::getuid().is_root() {
            return Err(verdict::for_root(image));
        }
        if let Some(digest) = digest_of(image) {
            let (commit, secret_inputs) = (Some(digest), None);
            self.records.progress.has_fetched(FetchedModuleBody { commit, secret_inputs });
        }
        directory::create(job)?;
        if let Some(source) = &job.source {
            let folder = directory::subfolder_of(job, source.path.as_deref())?;
            let Records { log, .. } = &mut self.records;
            checkout::fetch(source, &folder, &self.settings, &self.access, log).await?;
        }
        directory::write_files(job)?;
        let contract = Contract::prepare(&self.workspace, job).map_err(|error| unusable(&error))?;
        let (settings, read_token) = (&self.settings, self.read_token.as_ref());
        let environment = environment::of_program(
            settings,
            &self.workspace,
            &self.job,
            &self.task,
            &contract,
            read_token,
        );
        environment_size::check(&environment)?;
        if self.task.checks {
            let checks =
                PreChecks { image, container: job, job: &self.job, api: &self.api, unread };
            checks.run(&mut self.records.log).await?;
        }
        let (command, args) = match self.check() {
            Some(check) => (&check.command, &check.args),
            None => (&job.command, &job.args),
        };
        let words = command.iter().chain(args).cloned().collect();
        let program = Program::find(words, job, environment, image)?;
        if self.job.plan_only {
            self.enter(TokenPhase::Plan).await?;
        } else {
            self.announce().await?;
        }
        let oom_kills = oom::kills();
        let ended = self.supervise(&program).await?;
        log_troubles(&mut self.records.log, self.records.identity.as_ref(), &self.records.progress);
        let out_of_memory = oom::kills() > oom_kills;
        self.judge(ended, &contract, out_of_memory)
    }

    /// Announces the program to Canyon: from then on the world may change, so Canyon must know before.
    async fn announce(&mut self) -> Result<(), Failure> {
        self.applying = Applying::Announced;
        let Records { progress, .. } = &mut self.records;
        if !progress.ask_to_apply(false, &self.stop).await {
            progress.enter(Phase::Fetch);
            return Err(verdict::stopped_before());
        }
        self.enter(TokenPhase::Apply).await
    }

    /// Gives the program its identity.
    async fn enter(&mut self, phase: TokenPhase) -> Result<(), Failure> {
        let Records { identity, log, .. } = &mut self.records;
        if let Some(identity) = identity
            && let Err(failure) = identity.enter(phase, &self.stop, log).await
        {
            let is_stopped = self.stop.is_requested();
            return Err(if is_stopped { verdict::stopped_before() } else { failure });
        }
        Ok(())
    }

    /// What a check starts in place of the job's own program.
    fn check(&self) -> Option<&JobCheck> {
        self.task.job.check.as_ref().filter(|_| self.job.plan_only)
    }

    /// How long the container is to stay after `outcome`.
    fn keeps_container(&self, outcome: &Outcome) -> Option<Duration> {
        let keep = Duration::from_secs(self.task.job.keep_seconds().into());
        let has_failed = outcome.failure.is_some() && !outcome.stopped;
        Some(keep).filter(|keep| has_failed && !keep.is_zero())
    }

    async fn supervise(&mut self, program: &Program) -> Result<Ended, Failure> {
        let (job, log) = (&self.task.job, &mut self.records.log);
        let action = contract::action(&self.job);
        log.step(&format!("{action} {}: {}", self.task.resource, program.name()));
        log.flush();
        let child = program.start()?;
        if !self.job.plan_only {
            self.applying = Applying::Begun;
        }
        let limits = Limits {
            timeout: Duration::from_secs(job.timeout_seconds().into()),
            grace: Duration::from_secs(job.grace_seconds().into()),
            stop_seconds: self.job.stop_seconds,
        };
        let end = self.log_end.as_mut();
        let ended = Supervision { log, end, stop: &self.stop, limits }.watch(child).await;
        ended.map_err(|error| {
            let message = format!("the kernel does not tell how the program ended: {error}");
            Failure::new(FailureClass::Lost, message)
        })
    }

    fn judge(
        &mut self,
        ended: Ended,
        contract: &Contract,
        out_of_memory: bool,
    ) -> Result<Outputs, Failure> {
        if let Some(drift) = self.check().and_then(|check| Drift::of(ended, check)) {
            self.records.log.step(drift.in_words());
            self.drift = Some(drift);
            return Ok(Outputs::default());
        }
        let log = &mut self.records.log;
        let error = contract.error(log);
        let memory = oom::limit_and_peak();
        let circumstances = Circumstances {
            action: contract::action(&self.job),
            timeout_seconds: self.task.job.timeout_seconds(),
            out_of_memory,
            memory: memory.as_deref(),
            error: error.as_deref(),
        };
        let failure = verdict::failure(ended, &circumstances);
        if let Some(error) = &error
            && !failure.as_ref().is_some_and(|failure| failure.message.contains(error))
        {
            log.warn(&format!("ERROR_FILE: {error}"));
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let results = contract.outputs().map_err(|error| verdict::refused(&error))?;
        Ok(self.outputs(results))
    }

    fn outputs(&mut self, results: Results) -> Outputs {
        let of = |sensitive: bool| {
            move |(name, value)| (name, Output { sensitive, value: Some(value), kind: None })
        };
        let open = results.outputs.into_iter().map(of(false));
        let secret = results.secret_outputs.into_iter().map(of(true));
        let all: BTreeMap<String, Output> = open.chain(secret).collect();
        let Records { seal, kept_secrets, log, .. } = &mut self.records;
        let advice = "write it to SECRET_OUTPUTS_FILE";
        let keeps_secrets = self.api.keeps_secret_outputs();
        let to = Receivers { seal: seal.as_ref(), keeps_secrets };
        outputs::for_delivery(all, to, kept_secrets, advice, log)
    }

    /// The message of a failure, with the end of the log if the job asks for that. Unlike that of a run of OpenTofu it is not
    /// shortened: it has the program's own words.
    fn whole_message(&self, outcome: &Outcome) -> Option<String> {
        let message = &outcome.failure.as_ref()?.message;
        let end = self.log_end.as_ref().filter(|_| !outcome.stopped).and_then(LogEnd::text);
        Some(match end {
            Some(end) => format!("{message}\n\nThe end of the log:\n{end}"),
            None => message.clone(),
        })
    }
}

/// The digest in the name of an image, if it has one.
fn digest_of(image: &str) -> Option<Commit> {
    image.split_once("@sha256:")?.1.parse().ok()
}
