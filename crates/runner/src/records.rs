//! What a run records, and how that reaches Canyon: the log and the events, masked or encrypted, with the task that ships
//! them.

use crate::{
    container_log::ContainerLog, identity::Identity, identity::files::Files, log::Log, mask::Mask,
    seal::Seal, secret_values, session::Session, settings::Settings, shipper::Progress,
    shipper::Shipper, stop::Stop, streams::Streams, workspace, workspace::Workspace,
};
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::variables::job::JobVariable;
use secrecy::ExposeSecret;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;

/// The records of one run.
#[derive(Debug)]
pub struct Records {
    /// The log that people read.
    pub log: Log,
    /// With an encrypted log: the file of the reduced events.
    pub reduced: Option<File>,
    /// How the run tells Canyon how far it has come.
    pub progress: Progress,
    /// Encrypts the outputs.
    pub seal: Option<Seal>,
    /// Writes the same to standard output, in a container.
    pub container_log: Option<ContainerLog>,
    /// The job's identity at clouds, whose tokens the log does not show.
    pub identity: Option<Identity>,
    /// The secrets that the organization keeps for the environment: an output with one of them has no value.
    pub kept_secrets: Mask,
}

/// What the records mask beside the secrets that a job's own fields name.
#[derive(Debug, Default)]
pub struct Further {
    /// Secrets.
    pub secrets: Vec<String>,
    /// Variables of a program of the job: those whose names suggest a secret.
    pub variables: BTreeMap<String, String>,
}

impl Records {
    /// Opens the records of the run of `session`, which mask the secrets of the job, and `further` ones. Also returns what
    /// ships them.
    ///
    /// # Errors
    ///
    /// A [`Failure`] when a recipient is none, or the job's folder cannot be used.
    pub fn open(
        session: &Session,
        settings: &Settings,
        workspace: &Workspace,
        further: Further,
        stop: &Stop,
    ) -> Result<(Self, Shipper), Failure> {
        let Session { job, offsets, report_every, token, read_token, api } = session;
        let recipient = |field, text: &Option<String>| {
            text.as_ref().map(|text| Seal::new(field, text)).transpose()
        };
        let seal =
            recipient("encrypted_outputs_recipient", &job.bundle.encrypted_outputs_recipient)?;
        let log_seal = recipient("encrypted_logs_recipient", &job.bundle.encrypted_logs_recipient)?;
        let given = secret_values::of(&settings.inherited, &job.secret_variables);
        let mut kept = secret_values::of_kept(job);
        kept.extend(further.secrets);
        let own = [Some(token), Some(&settings.claim_code), read_token.as_ref()];
        let own = own.into_iter().flatten().map(ExposeSecret::expose_secret);
        let secrets = own.chain(given.iter().chain(&kept).map(String::as_str));
        let mut named = job.environment.clone();
        let of_environment = job.variables.iter().filter_map(JobVariable::environment);
        named.extend(of_environment.map(|(name, value)| (name.to_owned(), value.to_owned())));
        named.extend(further.variables);
        let mask = Mask::new(secrets, &named);
        let kept_secrets = Mask::of_values(kept.iter().map(String::as_str));
        let sealed = log_seal.is_some();
        let open = || -> io::Result<_> {
            workspace.prepare(*offsets)?;
            let streams = Streams::open(workspace, *offsets, mask.clone())?;
            let greeting =
                format!("canyon-runner: deployment {}, attempt {}", job.deployment_id, job.attempt);
            let container_log = settings
                .log_to_stdout
                .then(|| ContainerLog::start(workspace, mask.clone(), sealed, &greeting))
                .transpose()?;
            let identity = job.identity.clone().map(|of| {
                let files = Files::new(workspace.identity());
                Identity::new(of, files, api.clone(), mask.clone())
            });
            let log = workspace.append(workspace::LOG)?;
            let log = Log::new(log, mask.clone(), log_seal, job.bundle.log_level);
            let reduced = sealed.then(|| workspace.append(workspace::EVENTS)).transpose()?;
            Ok((streams, log, reduced, container_log, identity))
        };
        let (streams, log, reduced, container_log, identity) =
            open().map_err(|error| unusable(&error))?;
        let (shipper, progress) = Shipper::new(api.clone(), streams, stop.clone(), *report_every);
        let records = Self { log, reduced, progress, seal, container_log, identity, kept_secrets };
        Ok((records, shipper))
    }
}

/// Writes to the `log` what failed beside the run and did not end it: the renewal of a token, a report.
pub fn log_troubles(log: &mut Log, identity: Option<&Identity>, progress: &Progress) {
    if let Some(error) = identity.and_then(Identity::take_renewal_error) {
        log.warn(&format!("{error}; the previous token may have expired"));
    }
    if let Some(outage) = progress.outage() {
        log.warn(&outage);
    }
}

/// The failure of a run whose folder cannot be used.
pub fn unusable(error: &io::Error) -> Failure {
    Failure::new(
        FailureClass::Config,
        format!("the job's folder cannot be used: {error}; check that its disk is not full"),
    )
}
