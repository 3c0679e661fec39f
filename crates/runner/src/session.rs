//! The claim: of all runners that were started for an attempt, only one may run it.

use crate::lock_owner_name;
use crate::{backoff::Backoff, exit::Exit, settings::Settings, stop::Stop, stop::StopRequest};
use bytes::Bytes;
use canyon_api::attempt::{
    ClaimBody, DeploymentResultsUpdateBody, JudgeLockAnswer, JudgeLockBody, Offsets, ReportAnswer,
    ReportBody, environment_of, result_of,
};
use canyon_api::client::{Client, ClientError};
use canyon_api::job_token::{IssueTokenBody, IssuedToken};
use canyon_domain::failure::Phase;
use canyon_domain::job::{FORMAT, Job};
use canyon_domain::plan_task::PlanPiece;
use secrecy::SecretString;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// How long the runner retries a claim. After a minute of silence the launcher looks for the attempt's job, and starts
/// no second job while this one lives.
const CLAIM_TIME: Duration = Duration::from_mins(2);

/// A claimed attempt: the job, and the connection to the API.
#[derive(Debug)]
pub struct Session {
    /// The job.
    pub job: Job,
    /// The offset at which each stream continues.
    pub offsets: Offsets,
    /// The longest time between two reports.
    pub report_every: Duration,
    /// The attempt's token, so that it is masked.
    pub token: SecretString,
    /// The token with which the module may read from Canyon.
    pub read_token: Option<SecretString>,
    /// The connection to the API.
    pub api: ApiConnection,
}

/// The connection to the API, for one attempt.
#[derive(Clone, Debug)]
pub struct ApiConnection {
    client: Client,
    deployment: String,
    attempt: u32,
    /// As [`environment_of`] writes it.
    environment: String,
    report_format: u32,
}

impl ApiConnection {
    /// Whether Canyon itself answers that this attempt is over, or never belonged to this runner. A gateway's answer with
    /// the same status does not count, nor does Canyon's answer to another attempt.
    pub fn is_over(&self, error: &ClientError) -> bool {
        matches!(error.status(), Some(401 | 403 | 404 | 409))
            && !error.is_retryable()
            && self.is_answer_of_canyon(error)
    }

    /// Whether the error is Canyon's own answer to this attempt's runner.
    pub fn is_answer_of_canyon(&self, error: &ClientError) -> bool {
        error.attempt() == Some(&result_of(&self.deployment, self.attempt))
    }

    /// Whether Canyon understands a report or a result with an unwritten state: one of an earlier version refuses it.
    pub fn knows_unwritten_states(&self) -> bool {
        self.report_format >= 2
    }

    /// Whether Canyon understands a report or a result with the module that was fetched: one of an earlier version refuses
    /// it.
    pub fn knows_fetched_modules(&self) -> bool {
        self.report_format >= 3
    }

    /// Whether Canyon understands a result with the values of sensitive outputs: one of an earlier version refuses it.
    pub fn keeps_secret_outputs(&self) -> bool {
        self.report_format >= 4
    }

    /// Whether Canyon keeps plans: one of an earlier version refuses a result with one.
    pub fn keeps_plans(&self) -> bool {
        self.report_format >= 5
    }

    /// Whether Canyon takes what a check for drift has found.
    pub fn knows_drift(&self) -> bool {
        self.report_format >= 6
    }

    /// Stores a piece of the plan, encrypted.
    ///
    /// # Errors
    ///
    /// As [`Client::put_plan_piece`].
    pub async fn put_plan_piece(&self, piece: PlanPiece, sealed: Bytes) -> Result<(), ClientError> {
        self.client.put_plan_piece(&self.deployment, self.attempt, piece, sealed).await
    }

    /// A piece of the plan that this attempt applies, encrypted.
    ///
    /// # Errors
    ///
    /// As [`Client::plan_piece`].
    pub async fn plan_piece(&self, piece: PlanPiece) -> Result<Bytes, ClientError> {
        self.client.plan_piece(&self.deployment, self.attempt, piece).await
    }

    /// Reports that the run lives, with the next pieces of the log and the events.
    ///
    /// # Errors
    ///
    /// As [`Client::report`].
    pub async fn report(&self, body: &ReportBody) -> Result<ReportAnswer, ClientError> {
        self.client.report(&self.deployment, self.attempt, body).await
    }

    /// Reports only that the runner is there.
    ///
    /// # Errors
    ///
    /// As [`Client::report`].
    pub async fn report_alive(&self) -> Result<ReportAnswer, ClientError> {
        // The phase of an attempt never goes back, so a report with the first phase changes nothing.
        let body = ReportBody {
            phase: Phase::Fetch,
            forgets: false,
            unwritten: None,
            fetched: None,
            chunks: Vec::new(),
        };
        self.report(&body).await
    }

    /// Asks Canyon what to do about a lock that another process holds.
    ///
    /// # Errors
    ///
    /// As [`Client::judge_lock`].
    pub async fn judge_lock(&self, lock: &JudgeLockBody) -> Result<JudgeLockAnswer, ClientError> {
        self.client.judge_lock(&self.deployment, self.attempt, lock).await
    }

    /// Gets one of the job's tokens for a cloud.
    ///
    /// # Errors
    ///
    /// As [`Client::issue_token`].
    pub async fn issue_token(&self, body: &IssueTokenBody) -> Result<IssuedToken, ClientError> {
        self.client.issue_token(&self.deployment, self.attempt, body).await
    }

    /// Delivers the result of the run.
    ///
    /// # Errors
    ///
    /// As [`Client::post_result`].
    pub async fn post_result(&self, body: &DeploymentResultsUpdateBody) -> Result<(), ClientError> {
        self.client.post_result(&self.deployment, self.attempt, &self.environment, body).await
    }

    /// The module as a gzipped tar. One request without a retry; the digest is not verified.
    ///
    /// # Errors
    ///
    /// As [`Client::bundle`].
    pub async fn bundle(&self) -> Result<impl AsRef<[u8]> + Send + use<>, ClientError> {
        self.client.bundle(&self.deployment).await
    }
}

/// The host's name, if Canyon takes it.
fn host() -> Option<String> {
    let name = lock_owner_name::host();
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    (!name.is_empty() && name.len() <= 253 && name.bytes().all(plain)).then_some(name)
}

/// Claims the attempt.
///
/// # Errors
///
/// [`Exit::Over`] when another runner has the attempt or the runner was stopped; nothing was read or written then.
/// [`Exit::Undelivered`] when Canyon does not answer within `CLAIM_TIME`.
pub async fn claim(settings: &Settings, stop: &Stop) -> Result<Session, Exit> {
    let deployment = settings.deployment.to_string();
    let client = Client::new(&settings.api_url, &settings.org, settings.claim_code.clone())
        .map_err(|error| Exit::undelivered(error.to_string()))?;
    // Generated once, so that only this process may repeat its claim after a lost answer.
    let claimant = Uuid::new_v4().simple().to_string();
    let body = ClaimBody {
        claimant,
        host: host(),
        user: lock_owner_name::user(),
        job_format: Some(FORMAT),
    };
    let deadline = Instant::now() + CLAIM_TIME;
    let mut backoff = Backoff::default();
    loop {
        if stop.is_requested() {
            return Err(Exit::Over("stopped before it had claimed its attempt".to_owned()));
        }
        let error = match client.claim(&deployment, settings.attempt, &body).await {
            Ok(claimed) => {
                let token = SecretString::from(claimed.token);
                let client = client.with_token(token.clone());
                let environment = environment_of(&claimed.job.project_id, &claimed.job.env_id);
                return Ok(Session {
                    job: claimed.job,
                    offsets: claimed.offsets,
                    report_every: Duration::from_secs(claimed.report_seconds.clamp(1, 30).into()),
                    token,
                    read_token: claimed.read_token.map(SecretString::from),
                    api: ApiConnection {
                        client,
                        deployment,
                        attempt: settings.attempt,
                        environment,
                        report_format: claimed.report_format,
                    },
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
            () = stop.reached(StopRequest::Stop) => {}
        }
    }
}
