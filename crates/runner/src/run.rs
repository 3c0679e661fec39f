//! The run: fetch, init, plan, apply, result.

mod apply;
mod drift;
mod kept_plan;
mod locked;
mod migration;
mod notices;
mod policy;
mod state;
mod state_command;
mod step;
mod tofu_environment;
mod unread_variables;
mod unwritten;

use crate::applying::Applying;
use crate::plan_archive::FolderRecord;
use crate::records::{Further, Records, unusable};
use crate::{
    container_log::ContainerLog, environment, environment_size, executable, exit::Exit,
    git_access::GitAccess, identity::Identity, mask::Mask, module_variables, oom, outputs,
    outputs::Receivers, own_backend, result, result::Outcome, seal::Seal, secret_stores,
    session::ApiConnection, session::Session, settings::Settings, shipper::Progress,
    shipper::Shipper, source, stop, stop::Stop, stop::StopRequest, tofu::Ended, tofu::Tofu,
    transcript::Transcript, verdict, workspace, workspace::Workspace,
};
use canyon_api::attempt::{FetchedModuleBody, KeptPlanBody};
use canyon_api::drift::DriftReportBody;
use canyon_api::policy::PolicyReportBody;
use canyon_domain::deployment::Mode;
use canyon_domain::failure::{Failure, Phase};
use canyon_domain::job::Job;
use canyon_domain::job_identity::TokenPhase;
use locked::LOCK_TIMEOUT;
use secrecy::SecretString;
use secret_stores::Unread;
use state::StateKnown;
use tokio::time::Instant;

/// The exit code of `plan -detailed-exitcode` if there are changes.
const CHANGES: i32 = 2;
/// One run, with everything that it needs.
struct Run {
    job: Job,
    settings: Settings,
    /// The token with which the module may read from Canyon.
    read_token: Option<SecretString>,
    workspace: Workspace,
    /// The name of the file with the inputs, in the module's folder.
    inputs_file: String,
    /// The credentials for git, until the module and its child modules are fetched.
    access: Option<GitAccess>,
    stop: Stop,
    progress: Progress,
    transcript: Transcript,
    seal: Option<Seal>,
    container_log: Option<ContainerLog>,
    identity: Option<Identity>,
    state: StateKnown,
    applying: Applying,
    /// The variables whose secrets could not be read.
    unread: Vec<Unread>,
    /// The secrets that the organization keeps for the environment: an output with one of them has no value.
    kept_secrets: Mask,
    /// The processes that the kernel had killed because memory ran out, before this run.
    oom_kills: u64,
    /// Whether Canyon keeps the values of sensitive outputs.
    keeps_secret_outputs: bool,
    /// What the source's folder had before the plan, if that is to be kept.
    before_plan: Option<FolderRecord>,
    /// The plan that it has stored.
    kept_plan: Option<KeptPlanBody>,
    /// The state has changed since the plan was made that it was to apply.
    has_stale_plan: bool,
    /// What a check for drift has found.
    drift: Option<DriftReportBody>,
    /// What the job's policy says of the plan.
    policy: Option<PolicyReportBody>,
    /// The plan as JSON, once it was read.
    shown_plan: Option<Vec<u8>>,
}

/// Serves a claimed attempt to its end.
pub async fn serve(
    mut session: Session,
    settings: Settings,
    workspace: Workspace,
    stop: Stop,
) -> Exit {
    let api = session.api.clone();
    // Before the first line of the log, in which the values are masked.
    let unread = match secret_stores::read(&mut session.job, &api, &stop).await {
        Ok(unread) => unread,
        Err(failure) => return result::refuse(&api, failure, &stop).await,
    };
    // In a box, because the clouds' clients are large.
    let access = Box::pin(GitAccess::prepare(&session.job, &workspace, &api)).await;
    let (mut run, shipper) = match Run::begin(session, settings, workspace, access, stop.clone()) {
        Ok(begun) => begun,
        Err(failure) => return result::refuse(&api, failure, &stop).await,
    };
    run.unread = unread;
    run.transcript.log.flush();
    let shipping = tokio::spawn(shipper.run());
    let (outcome, tofu_ran) = run.execute(&api).await;
    let outcome = outcome.for_delivery(&run.stop, &run.transcript.log).await;
    run.count_by_state();
    run.close(&outcome);
    run.progress.end();
    let chunks = shipping.await.unwrap_or_default();
    let mut body = outcome.into_body(tofu_ran.then_some(&run.transcript.facts));
    body.chunks = chunks;
    body.state = run.state_report();
    body.unwritten = run.state.unwritten.take().filter(|_| api.knows_unwritten_states());
    body.phase = Some(run.progress.phase());
    body.fetched = run.progress.fetched().filter(|_| api.knows_fetched_modules());
    body.plan = run.kept_plan.take();
    body.stale_plan = run.has_stale_plan;
    body.drift = run.drift.take();
    body.policy = run.policy.take();
    body.untouched = run.applying == Applying::Announced;
    let exit = result::conclude(&api, body, &stop, "OpenTofu").await;
    if let Some(container_log) = run.container_log {
        container_log.end();
    }
    exit
}

impl Run {
    fn begin(
        session: Session,
        settings: Settings,
        workspace: Workspace,
        access: GitAccess,
        stop: Stop,
    ) -> Result<(Self, Shipper), Failure> {
        let of_git = access.secrets().map(str::to_owned).collect();
        let further = Further { secrets: of_git, ..Further::default() };
        let (records, shipper) = Records::open(&session, &settings, &workspace, further, &stop)?;
        let Session { job, read_token, api, .. } = session;
        let Records { log, reduced, progress, seal, container_log, identity, kept_secrets } =
            records;
        let mut transcript = Transcript::new(log, reduced);
        transcript
            .log
            .step(&format!("attempt {} fetches {}", job.attempt, job.bundle.module.source));
        for name in environment::left_out(&settings, &job) {
            let text = format!("`{name}` of the job's environment does not reach the module");
            transcript.log.warn(&text);
        }
        for warning in access.warnings() {
            transcript.log.warn(&warning);
        }
        let oom_kills = oom::kills();
        let keeps_secret_outputs = job.bundle.resource.is_some() && api.keeps_secret_outputs();
        let run = Self {
            job,
            settings,
            read_token,
            workspace,
            inputs_file: String::new(),
            access: Some(access),
            stop,
            progress,
            transcript,
            seal,
            container_log,
            identity,
            state: StateKnown::default(),
            applying: Applying::default(),
            unread: Vec::new(),
            kept_secrets,
            oom_kills,
            keeps_secret_outputs,
            before_plan: None,
            kept_plan: None,
            has_stale_plan: false,
            drift: None,
            policy: None,
            shown_plan: None,
        };
        Ok((run, shipper))
    }

    /// Runs all phases. Also returns whether OpenTofu has planned, so that there is something to count.
    async fn execute(&mut self, api: &ApiConnection) -> (Outcome, bool) {
        let mut tofu = match self.fetch(api).await {
            Ok(tofu) => tofu,
            Err(failure) => return (failure.into(), false),
        };
        if let Some(command) = self.job.bundle.state_command.clone() {
            return (self.run_on_state(&command, &mut tofu, api).await, false);
        }
        let planned = match self.init_and_plan(&mut tofu, api).await {
            Ok(has_changes) => has_changes,
            Err(failure) => {
                self.inspect_found_state(&tofu).await;
                return (failure.into(), false);
            }
        };
        if let Err(failure) = self.judge(&tofu).await {
            if self.job.plan_only {
                self.keep_for_readers(&tofu, api, planned).await;
            }
            self.inspect_found_state(&tofu).await;
            return (failure.into(), true);
        }
        if planned && !self.job.plan_only {
            if let Err(outcome) = self.refuse_deletions() {
                self.inspect_found_state(&tofu).await;
                return (outcome, true);
            }
            match self.hold_for_review(&tofu, api).await {
                Ok(false) => {}
                Ok(true) => {
                    self.inspect_found_state(&tofu).await;
                    return (Outcome::default(), true);
                }
                Err(failure) => return (failure.into(), true),
            }
            let applied = self.apply(&mut tofu, api).await;
            self.inspect_state(&tofu, self.progress.phase() == Phase::Apply).await;
            if let Err(outcome) = applied {
                return (outcome, true);
            }
        } else {
            if !planned && self.job.mode != Mode::Drift {
                self.transcript.log.step("no changes");
            }
            if self.job.mode == Mode::Drift {
                if let Err(failure) = self.find_drift(&tofu, api, planned).await {
                    return (failure.into(), true);
                }
            } else if self.job.plan_only {
                self.keep_for_readers(&tofu, api, planned).await;
                self.inspect_found_state(&tofu).await;
            } else {
                self.inspect_state(&tofu, false).await;
            }
        }
        let only_planned = planned && self.job.plan_only || self.job.mode == Mode::Drift;
        (self.finish(&tofu, only_planned).await, true)
    }

    async fn fetch(&mut self, api: &ApiConnection) -> Result<Tofu, Failure> {
        let begun = Instant::now();
        let folder = self.workspace.source();
        let tools = self.tools_of_source().await?;
        let (module, log) = (&self.job.bundle.module, &mut self.transcript.log);
        let access = self.access.get_or_insert_default();
        access.write_keys().map_err(|error| unusable(&error))?;
        let settings = &self.settings;
        let fetching = source::fetch(module, &folder, api, settings, access, tools.as_ref(), log);
        let fetched = tokio::select! {
            fetched = fetching => fetched,
            () = self.stop.reached(StopRequest::Stop) => return Err(verdict::cancelled(Phase::Fetch, false)),
        };
        let fetched = fetched.map_err(|error| self.without_details(error.into()))?;
        let (module, commit) = (fetched.folder, fetched.commit);
        if let Some(task) = &self.job.bundle.resource {
            let written = source::write_files(&module, &task.files);
            written.map_err(|error| self.without_details(error.into()))?;
        }
        self.check_unread(&module)?;
        let variables = module_variables::of(&module, &self.settings.org, &self.job);
        let own_backend = own_backend::of(&module);
        let files = workspace::write_module_files(&module, &self.job.backend, &variables.values)?;
        self.inputs_file = files.inputs;
        let secret_inputs = variables.secret_inputs;
        self.progress.has_fetched(FetchedModuleBody { commit, secret_inputs });
        for warning in variables.warnings {
            self.warn(&warning);
        }
        if let Some(own) = own_backend {
            let location = &self.job.state.location;
            self.warn(&format!(
                "{own} is not used: the state is where the runner keeps it ({location}). If resources of this module are in \
                 another state already, this run would create them again: move that state first, see docs/coming-from.md"
            ));
        }
        for name in files.removed {
            self.warn(&format!("ignored `{name}` of the source: state is in the runner's storage"));
        }
        let program = executable::find(self.job.executable, &self.settings)?;
        let environment = self.environment(TokenPhase::Plan);
        environment_size::check(&environment)?;
        let sealed = self.transcript.is_sealed();
        let tofu = Tofu::new(
            program,
            environment,
            module,
            &self.workspace,
            sealed,
            stop::grace(self.job.stop_seconds),
        );
        self.log_duration("fetched", begun);
        tofu.map_err(|error| unusable(&error))
    }

    async fn init(&mut self, tofu: &mut Tofu, api: &ApiConnection) -> Result<(), Failure> {
        const INIT: [&str; 5] = ["init", "-input=false", "-no-color", "-reconfigure", "-json"];
        let mut ended = self.step_past_locks(tofu, api, Phase::Init, &INIT).await?;
        if ended == Ended::Exited(1) && self.transcript.refused_an_option() {
            // Before OpenTofu 1.8 and Terraform 1.9, `init` had no option `-json`.
            ended = self.step(tofu, Phase::Init, &INIT[..4]).await?;
        }
        self.expect(tofu, Phase::Init, ended, &[0]).map_err(|mut failure| {
            // A job with credentials has fetched its child modules before; and a state storage may refuse in git's words.
            let is_of_module = failure.message.contains("Failed to download module");
            if self.job.git_credentials.is_empty()
                && is_of_module
                && let Some(hint) = GitAccess::default().hint(&failure.message)
            {
                failure.message = format!("{}; {hint}", failure.message);
            }
            failure
        })
    }

    /// Does everything that OpenTofu and the state need before a plan or a command on the state.
    async fn prepare(&mut self, tofu: &mut Tofu, api: &ApiConnection) -> Result<(), Failure> {
        self.identify(tofu, TokenPhase::Plan).await?;
        self.get_modules(tofu).await?;
        if self.job.state.move_from.is_some() {
            return self.move_state(tofu, api).await;
        }
        self.init(tofu, api).await?;
        self.check_state(tofu).await
    }

    /// Returns whether there is something to change.
    async fn init_and_plan(
        &mut self,
        tofu: &mut Tofu,
        api: &ApiConnection,
    ) -> Result<bool, Failure> {
        self.prepare(tofu, api).await?;
        if self.fetch_plan(api).await? {
            return Ok(true);
        }
        self.record_folder();
        let plan_file = self.workspace.path(workspace::PLAN);
        let out = format!("-out={}", plan_file.display());
        let inputs = format!("-var-file={}", self.inputs_file);
        // A check changes nothing, and must not make a deployment wait for its lock.
        let is_check = self.job.mode == Mode::Drift;
        let lock = if is_check { "-lock=false" } else { LOCK_TIMEOUT };
        let mut plan = vec!["plan", "-json", "-detailed-exitcode", "-input=false", lock];
        // OpenTofu reads the file in any case; as an argument it takes precedence over the module's own files.
        plan.extend([inputs.as_str(), out.as_str()]);
        if self.job.mode == Mode::Destroy {
            plan.push("-destroy");
        }
        let options = self.job.bundle.options.of_plan();
        plan.extend(options.iter().map(String::as_str));
        let ended = self.step_past_locks(tofu, api, Phase::Plan, &plan).await?;
        self.expect(tofu, Phase::Plan, ended, &[0, CHANGES])?;
        let has_changes = ended == Ended::Exited(CHANGES);
        self.check_plan(tofu, has_changes)?;
        Ok(has_changes)
    }

    /// The outcome of a successful run.
    async fn finish(&mut self, tofu: &Tofu, only_planned: bool) -> Outcome {
        // The outputs of a plan do not exist yet.
        if only_planned {
            return Outcome::default();
        }
        let Transcript { facts, log, .. } = &mut self.transcript;
        let keeps_secrets = self.keeps_secret_outputs;
        let to = Receivers { seal: self.seal.as_ref(), keeps_secrets };
        let outputs = outputs::read(tofu, facts, to, &self.kept_secrets, log).await;
        Outcome { outputs: Box::new(outputs), ..Outcome::default() }
    }

    /// Writes the log's last lines.
    fn close(&mut self, outcome: &Outcome) {
        let log = &mut self.transcript.log;
        for orphan in &outcome.orphans {
            log.warn(&format!("{} may exist although the state does not list it", orphan.address));
        }
        log.end(outcome.failure.as_ref());
    }

    fn log_duration(&mut self, what: &str, begun: Instant) {
        let text = format!("{what} after {:.1} s", begun.elapsed().as_secs_f64());
        self.transcript.log.step(&text);
    }
}
