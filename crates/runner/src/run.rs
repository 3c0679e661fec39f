//! The run: fetch, init, plan, apply, result.

use crate::{
    container_log::ContainerLog, environment, executable, exit::Exit, identity::Identity,
    identity::files::Files, lock, lock::Bench, lock::Locks, log::Log, mask::Mask, oom, orphans,
    outputs, result, result::Outcome, seal::Seal, session::Line, session::Session,
    settings::Settings, shipper::Progress, shipper::Shipper, source, stop::Stop, stop::Wish,
    streams::Streams, tofu::Ended, tofu::Tofu, transcript::Transcript, verdict, verdict::Command,
    workspace, workspace::Workspace,
};
use canyon_domain::deployment::Mode;
use canyon_domain::failure::{Failure, FailureClass, Phase};
use canyon_domain::job::Job;
use canyon_domain::job_identity::TokenPhase;
use secrecy::{ExposeSecret, SecretString};
use std::ffi::OsString;
use std::io;
use std::time::Duration;
use tokio::time::Instant;

/// Exit code of `plan -detailed-exitcode` when there is something to change.
const CHANGES: i32 = 2;
/// Stands for how long OpenTofu waits for a lock.
const LOCK_TIMEOUT: &str = "-lock-timeout";

/// Everything that one run needs.
struct Run {
    job: Job,
    settings: Settings,
    /// What the module may read Canyon with.
    read_token: Option<SecretString>,
    workspace: Workspace,
    stop: Stop,
    progress: Progress,
    transcript: Transcript,
    seal: Option<Seal>,
    container_log: Option<ContainerLog>,
    identity: Option<Identity>,
    /// Processes killed for want of memory before this run.
    oom_kills: u64,
}

/// Serves a claimed attempt to its end.
pub async fn serve(session: Session, settings: Settings, workspace: Workspace, stop: Stop) -> Exit {
    let line = session.line.clone();
    let (mut run, shipper) = match Run::begin(session, settings, workspace, stop.clone()) {
        Ok(begun) => begun,
        Err(failure) => {
            return result::deliver(&line, &Outcome::from(failure).into_body(None)).await;
        }
    };
    run.transcript.log.flush();
    let shipping = tokio::spawn(shipper.run());
    let (outcome, tofu_ran) = run.execute(&line).await;
    run.close(&outcome);
    run.progress.end();
    let chunks = shipping.await.unwrap_or_default();
    let exit = if stop.wish() == Wish::Leave {
        Exit::Over("the attempt is over; what ran was stopped".to_owned())
    } else {
        let mut body = outcome.into_body(tofu_ran.then_some(&run.transcript.facts));
        body.chunks = chunks;
        result::deliver(&line, &body).await
    };
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
        stop: Stop,
    ) -> Result<(Self, Shipper), Failure> {
        let Session { job, offsets, report_every, token, read_token, line } = session;
        let recipient = |field, text: &Option<String>| {
            text.as_ref().map(|text| Seal::new(field, text)).transpose()
        };
        let seal =
            recipient("encrypted_outputs_recipient", &job.bundle.encrypted_outputs_recipient)?;
        let log_seal = recipient("encrypted_logs_recipient", &job.bundle.encrypted_logs_recipient)?;
        let secrets = [Some(&token), Some(&settings.claim_code), read_token.as_ref()];
        let secrets = secrets.into_iter().flatten().map(ExposeSecret::expose_secret);
        let mask = Mask::new(secrets, &job.environment);
        let sealed = log_seal.is_some();
        let open = || -> io::Result<_> {
            workspace.prepare(offsets)?;
            let streams = Streams::open(&workspace, offsets, mask.clone())?;
            let greeting =
                format!("canyon-runner: deployment {}, attempt {}", job.deployment_id, job.attempt);
            let container_log = settings
                .log_to_stdout
                .then(|| ContainerLog::start(&workspace, mask.clone(), sealed, &greeting))
                .transpose()?;
            let identity = job.identity.clone().map(|of| {
                let files = Files::new(workspace.identity());
                Identity::new(of, files, line.clone(), mask.clone())
            });
            let log =
                Log::new(workspace.append(workspace::LOG)?, mask, log_seal, job.bundle.log_level);
            let reduced = sealed.then(|| workspace.append(workspace::EVENTS)).transpose()?;
            Ok((streams, Transcript::new(log, reduced), container_log, identity))
        };
        let (streams, mut transcript, container_log, identity) =
            open().map_err(|error| unusable(&error))?;
        transcript
            .log
            .step(&format!("attempt {} fetches {}", job.attempt, job.bundle.module.source));
        let (shipper, progress) = Shipper::new(line, streams, stop.clone(), report_every);
        let oom_kills = oom::kills();
        let run = Self {
            job,
            settings,
            read_token,
            workspace,
            stop,
            progress,
            transcript,
            seal,
            container_log,
            identity,
            oom_kills,
        };
        Ok((run, shipper))
    }

    /// The whole run, and whether OpenTofu has planned, so that there is something to count.
    async fn execute(&mut self, line: &Line) -> (Outcome, bool) {
        let mut tofu = match self.fetch(line).await {
            Ok(tofu) => tofu,
            Err(failure) => return (failure.into(), false),
        };
        let planned = match self.init_and_plan(&mut tofu, line).await {
            Ok(has_changes) => has_changes,
            Err(failure) => return (failure.into(), false),
        };
        if planned && !self.job.plan_only {
            if let Err(outcome) = self.apply(&mut tofu, line).await {
                return (outcome, true);
            }
        } else if !planned {
            self.transcript.log.step("no changes");
        }
        (self.finish(&tofu, planned && self.job.plan_only).await, true)
    }

    async fn fetch(&mut self, line: &Line) -> Result<Tofu, Failure> {
        let begun = Instant::now();
        let folder = self.workspace.source();
        let fetching = source::fetch(&self.job.bundle.module, &folder, line, &self.settings);
        let module = tokio::select! {
            fetched = fetching => fetched?,
            () = self.stop.reached(Wish::Stop) => return Err(verdict::cancelled(Phase::Fetch, false)),
        };
        let removed = workspace::write_module_files(
            &module,
            &self.job.backend,
            &self.job.bundle.module.inputs,
        )?;
        for name in removed {
            let text =
                format!("left out `{name}` of the source: state lies in the runner's storage");
            self.transcript.log.warn(&text);
        }
        let program = executable::find(self.job.executable, &self.settings)?;
        let environment = self.environment(TokenPhase::Plan);
        let sealed = self.transcript.is_sealed();
        // What is left of the time is for the state's last write, the result and the log.
        let time = Duration::from_secs(self.job.stop_seconds.into());
        let grace = time.saturating_sub((time / 4).min(Duration::from_secs(10)));
        let tofu = Tofu::new(program, environment, module, &self.workspace, sealed, grace);
        self.done("fetched", begun);
        tofu.map_err(|error| unusable(&error))
    }

    fn environment(&self, phase: TokenPhase) -> Vec<(OsString, OsString)> {
        let read_token = self.read_token.as_ref();
        environment::of_tofu(&self.settings, &self.workspace, &self.job, read_token, phase)
    }

    /// From here on the job is at the clouds who it is in `phase`.
    async fn identify(&mut self, tofu: &mut Tofu, phase: TokenPhase) -> Result<(), Failure> {
        let Some(identity) = &mut self.identity else { return Ok(()) };
        if let Err(failure) = identity.enter(phase, &self.stop).await {
            let stopped = self.stop.wish() != Wish::Run;
            return Err(if stopped { verdict::cancelled(Phase::Plan, false) } else { failure });
        }
        tofu.set_environment(self.environment(phase));
        Ok(())
    }

    /// Returns whether there is something to change.
    async fn init_and_plan(&mut self, tofu: &mut Tofu, line: &Line) -> Result<bool, Failure> {
        const INIT: [&str; 5] = ["init", "-input=false", "-no-color", "-reconfigure", "-json"];
        self.identify(tofu, TokenPhase::Plan).await?;
        let mut ended = self.step_past_locks(tofu, line, Phase::Init, &INIT).await?;
        if ended == Ended::Exited(1) && self.transcript.refused_an_option() {
            // Before OpenTofu 1.8 and Terraform 1.9, `init` spoke to people alone.
            ended = self.step(tofu, Phase::Init, &INIT[..4]).await?;
        }
        self.expect(tofu, Phase::Init, ended, &[0])?;
        let plan_file = self.workspace.path(workspace::PLAN);
        let out = format!("-out={}", plan_file.display());
        let inputs = format!("-var-file={}", workspace::INPUTS);
        let mut plan = vec!["plan", "-json", "-detailed-exitcode", "-input=false", LOCK_TIMEOUT];
        // The file is read in any case; named here, it wins over what the module brings.
        plan.extend([inputs.as_str(), out.as_str()]);
        if self.job.mode == Mode::Destroy {
            plan.push("-destroy");
        }
        let ended = self.step_past_locks(tofu, line, Phase::Plan, &plan).await?;
        self.expect(tofu, Phase::Plan, ended, &[0, CHANGES])?;
        Ok(ended == Ended::Exited(CHANGES))
    }

    async fn apply(&mut self, tofu: &mut Tofu, line: &Line) -> Result<(), Outcome> {
        // From here on the world may change, so Canyon must know before.
        if !self.progress.ask(Phase::Apply, &self.stop).await {
            return Err(verdict::cancelled(Phase::Plan, false).into());
        }
        self.identify(tofu, TokenPhase::Apply).await?;
        let plan_file = self.workspace.path(workspace::PLAN).display().to_string();
        let arguments = ["apply", "-json", "-input=false", LOCK_TIMEOUT, &plan_file];
        let ended = self.step_past_locks(tofu, line, Phase::Apply, &arguments).await?;
        let saved = orphans::push_errored_state(tofu, &mut self.transcript).await;
        let Err(mut failure) = self.expect(tofu, Phase::Apply, ended, &[0]) else { return Ok(()) };
        if let Some(saved) = saved {
            failure.message = format!("{}; {saved}", failure.message);
        }
        let orphans = match ended {
            Ended::Killed(_) => orphans::find(tofu, &self.transcript.facts).await,
            Ended::Exited(_) | Ended::NotStarted => Vec::new(),
        };
        Err(Outcome { orphans, ..failure.into() })
    }

    /// One process of OpenTofu, again after each lock that was in its way. It has done nothing then.
    async fn step_past_locks(
        &mut self,
        tofu: &mut Tofu,
        line: &Line,
        phase: Phase,
        arguments: &[&str],
    ) -> Result<Ended, Failure> {
        let mut locks = Locks::default();
        loop {
            let timeout = locks.timeout();
            let mut arguments = arguments.to_vec();
            arguments.iter_mut().filter(|it| **it == LOCK_TIMEOUT).for_each(|it| *it = timeout);
            let ended = self.step(tofu, phase, &arguments).await?;
            let error = self.transcript.facts.error.as_ref();
            let lock = error.filter(|_| ended == Ended::Exited(1)).and_then(lock::in_error);
            let Some(lock) = lock else { return Ok(ended) };
            let bench = Bench {
                line,
                tofu,
                workspace: &self.workspace,
                environment: self.job.env_uuid,
                stop: &self.stop,
            };
            locks.pass(&lock, bench, &mut self.transcript.log).await?;
        }
    }

    /// One process of OpenTofu.
    async fn step(
        &mut self,
        tofu: &mut Tofu,
        phase: Phase,
        arguments: &[&str],
    ) -> Result<Ended, Failure> {
        self.progress.enter(phase);
        self.transcript.begin(phase == Phase::Apply);
        let command = arguments.first().copied().unwrap_or_default();
        self.transcript.log.step(&format!("{} {command}", tofu.name()));
        self.transcript.log.flush();
        let begun = Instant::now();
        let ended =
            tofu.run(arguments, &mut self.transcript, &self.stop).await.map_err(|error| {
                Failure::new(
                    FailureClass::Config,
                    format!("cannot start `{}`: {error}", tofu.name()),
                )
            })?;
        if let Some(trouble) = self.identity.as_ref().and_then(Identity::trouble) {
            self.transcript.log.warn(&format!("{trouble}; the last one may have ended"));
        }
        self.done(&format!("{command} ended"), begun);
        Ok(ended)
    }

    /// Turns any end but the codes `good` into the failure that it means.
    fn expect(&self, tofu: &Tofu, phase: Phase, ended: Ended, good: &[i32]) -> Result<(), Failure> {
        let command = Command { program: tofu.name(), phase };
        match ended {
            Ended::Exited(code) if good.contains(&code) => Ok(()),
            Ended::NotStarted => Err(verdict::cancelled(phase, false)),
            Ended::Exited(_) | Ended::Killed(_) if self.stop.wish() != Wish::Run => {
                Err(verdict::cancelled(phase, matches!(ended, Ended::Killed(_))))
            }
            Ended::Exited(code) => Err(verdict::refused(&command, code, &self.transcript)),
            Ended::Killed(signal) => {
                let for_memory = oom::kills() > self.oom_kills;
                Err(verdict::killed(&command, signal, for_memory))
            }
        }
    }

    /// The end of a run that went well.
    async fn finish(&mut self, tofu: &Tofu, only_planned: bool) -> Outcome {
        // A plan's outputs are of a future that did not come.
        if only_planned {
            return Outcome::default();
        }
        let seal = self.seal.as_ref();
        let outputs =
            outputs::read(tofu, &self.transcript.facts, seal).await.unwrap_or_else(|| {
                self.transcript.log.warn("the outputs cannot be read; they are not in the result");
                outputs::Outputs::default()
            });
        Outcome { outputs, ..Outcome::default() }
    }

    /// The log's last lines.
    fn close(&mut self, outcome: &Outcome) {
        let log = &mut self.transcript.log;
        for orphan in &outcome.orphans {
            log.warn(&format!("{} may exist without the state knowing", orphan.address));
        }
        match &outcome.failure {
            None => log.step("done"),
            Some(failure) => log.error(&format!("{}: {}", failure.class, failure.message)),
        }
        if let Some(error) = log.broken() {
            let text = format!("this log is not whole: {error}");
            log.error(&text);
        }
        log.flush();
    }

    fn done(&mut self, what: &str, begun: Instant) {
        let text = format!("{what} after {:.1} s", begun.elapsed().as_secs_f64());
        self.transcript.log.step(&text);
    }
}

fn unusable(error: &io::Error) -> Failure {
    Failure::new(
        FailureClass::Config,
        format!("the job's folder cannot be used: {error}; has its disk room?"),
    )
}
