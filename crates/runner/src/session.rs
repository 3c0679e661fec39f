//! The claim: of all runners that were started for an attempt, one goes on.

use crate::{backoff::Backoff, exit::Exit, settings::Settings, stop::Stop, stop::Wish};
use canyon_api::attempt::{
    ClaimBody, DeploymentResultsUpdateBody, JudgeLockAnswer, JudgeLockBody, Offsets, ReportAnswer,
    ReportBody, result_of,
};
use canyon_api::client::{Client, ClientError};
use canyon_api::job_token::{IssueTokenBody, IssuedToken};
use canyon_domain::job::{FORMAT, Job};
use secrecy::SecretString;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// How long a claim is repeated. The launcher looks for the attempt's job after a minute of silence
/// and starts no second one while this one lives.
const CLAIM_TIME: Duration = Duration::from_mins(2);

/// A claimed attempt: what to do, and the line to the control plane.
#[derive(Debug)]
pub struct Session {
    /// What to do.
    pub job: Job,
    /// Where each stream goes on.
    pub offsets: Offsets,
    /// The longest time between two reports.
    pub report_every: Duration,
    /// The token, to be masked.
    pub token: SecretString,
    /// What the module may read Canyon with.
    pub read_token: Option<SecretString>,
    /// The line.
    pub line: Line,
}

/// The line to the control plane, for one attempt.
#[derive(Clone, Debug)]
pub struct Line {
    client: Client,
    deployment: String,
    attempt: u32,
}

impl Line {
    /// Whether Canyon itself says that this attempt is over, or was never this runner's. A gateway that
    /// answers with the same status says nothing about the attempt, nor does Canyon's answer to another one.
    pub fn is_over(&self, error: &ClientError) -> bool {
        matches!(error.status(), Some(401 | 403 | 404 | 409))
            && !error.is_retryable()
            && self.is_told_by_canyon(error)
    }

    /// Whether it is Canyon's own answer to this attempt's runner.
    pub fn is_told_by_canyon(&self, error: &ClientError) -> bool {
        error.of() == Some(&result_of(&self.deployment, self.attempt))
    }

    /// Says that the run lives, with what was written.
    ///
    /// # Errors
    ///
    /// As [`Client::report`].
    pub async fn report(&self, body: &ReportBody) -> Result<ReportAnswer, ClientError> {
        self.client.report(&self.deployment, self.attempt, body).await
    }

    /// Asks what is to be done about a lock that is in the way.
    ///
    /// # Errors
    ///
    /// As [`Client::judge_lock`].
    pub async fn judge_lock(&self, lock: &JudgeLockBody) -> Result<JudgeLockAnswer, ClientError> {
        self.client.judge_lock(&self.deployment, self.attempt, lock).await
    }

    /// Gets a token of the job.
    ///
    /// # Errors
    ///
    /// As [`Client::issue_token`].
    pub async fn issue_token(&self, body: &IssueTokenBody) -> Result<IssuedToken, ClientError> {
        self.client.issue_token(&self.deployment, self.attempt, body).await
    }

    /// Says how the run ended.
    ///
    /// # Errors
    ///
    /// As [`Client::post_result`].
    pub async fn post_result(&self, body: &DeploymentResultsUpdateBody) -> Result<(), ClientError> {
        self.client.post_result(&self.deployment, self.attempt, body).await
    }

    /// The module, as a gzipped tar. It is asked for once, and not verified.
    ///
    /// # Errors
    ///
    /// As [`Client::bundle`].
    pub async fn bundle(&self) -> Result<impl AsRef<[u8]> + Send + use<>, ClientError> {
        self.client.bundle(&self.deployment).await
    }
}

/// What the machine calls itself: in a pod or a task, the name of that.
fn host() -> Option<String> {
    let name = rustix::system::uname().nodename().to_str().ok()?.to_owned();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    (!name.is_empty() && name.len() <= 253 && name.bytes().all(plain)).then_some(name)
}

/// Claims the attempt.
///
/// # Errors
///
/// [`Exit::Over`] when it is not ours to do; nothing has been read or written then.
/// [`Exit::Undelivered`] when Canyon cannot be reached.
pub async fn claim(settings: &Settings, stop: &Stop) -> Result<Session, Exit> {
    let deployment = settings.deployment.to_string();
    let client = Client::new(&settings.api_url, &settings.org, settings.claim_code.clone())
        .map_err(|error| Exit::undelivered(error.to_string()))?;
    // Drawn once: so a claim whose answer was lost may be repeated, by this process alone.
    let claimant = Uuid::new_v4().simple().to_string();
    let body = ClaimBody { claimant, host: host(), job_format: Some(FORMAT) };
    let deadline = Instant::now() + CLAIM_TIME;
    let mut backoff = Backoff::default();
    loop {
        if stop.wish() != Wish::Run {
            return Err(Exit::Over("stopped before it had claimed its attempt".to_owned()));
        }
        let error = match client.claim(&deployment, settings.attempt, &body).await {
            Ok(claimed) => {
                let token = SecretString::from(claimed.token);
                let client = client.with_token(token.clone());
                return Ok(Session {
                    job: claimed.job,
                    offsets: claimed.offsets,
                    report_every: Duration::from_secs(claimed.report_seconds.clamp(1, 30).into()),
                    token,
                    read_token: claimed.read_token.map(SecretString::from),
                    line: Line { client, deployment, attempt: settings.attempt },
                });
            }
            Err(error) => error,
        };
        if error.is_final() {
            return Err(Exit::Over(format!("did not get its attempt: {error}")));
        }
        if Instant::now() >= deadline {
            return Err(Exit::undelivered(error.to_string()));
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.pause()) => {}
            () = stop.reached(Wish::Stop) => {}
        }
    }
}
