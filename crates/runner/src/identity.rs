//! The job's identity at the clouds: files with tokens of Canyon's issuer, and the task that renews them.
//!
//! The runner gets the tokens with the attempt's token, which is only in this process's memory: the module
//! cannot read it. The module can read the files, and they are always for the phase that the run is in.

pub mod environment;
pub mod files;

use crate::{backoff::Backoff, log::Log, mask::Mask, session::ApiConnection};
use crate::{stop::Stop, stop::StopRequest};
use canyon_api::client::ClientError;
use canyon_api::job_token::{IssueTokenBody, IssuedToken};
use canyon_domain::causes::Causes;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::job_identity::{JobIdentity, TokenPhase};
use files::Files;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

/// How long a phase waits for its tokens if Canyon does not answer.
const TOKEN_TIMEOUT: Duration = Duration::from_mins(5);
/// The pause after a refusal: an administrator may fix the runner's definition.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);
/// The shortest time between two requests for the same token.
const SHORTEST: Duration = Duration::from_millis(500);

/// The identity of one run. A task renews the tokens in its files until this value is dropped.
pub struct Identity {
    shared: Arc<Shared>,
    renewal: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("of", &self.shared.of).finish_non_exhaustive()
    }
}

struct Shared {
    of: JobIdentity,
    files: Files,
    api: ApiConnection,
    mask: Mask,
    /// Held during a request for tokens, so that no token of an earlier phase is written after a later one.
    state: Mutex<State>,
    renewal_error: std::sync::Mutex<Option<String>>,
}

#[derive(Default)]
struct State {
    phase: Option<TokenPhase>,
    /// When each audience's token is renewed.
    due: BTreeMap<String, Instant>,
    /// The signatures of each audience's last two tokens, which may still be valid.
    known: BTreeMap<String, Vec<String>>,
    backoff: Backoff,
}

impl Drop for Identity {
    fn drop(&mut self) {
        if let Some(renewal) = &self.renewal {
            renewal.abort();
        }
    }
}

impl Identity {
    /// Requests no token before [`Identity::enter`].
    pub fn new(of: JobIdentity, files: Files, api: ApiConnection, mask: Mask) -> Self {
        let (state, renewal_error) = (Mutex::default(), std::sync::Mutex::default());
        let shared = Shared { of, files, api, mask, state, renewal_error };
        Self { shared: Arc::new(shared), renewal: None }
    }

    /// Writes the files of `phase`, and renews them from then on. If Canyon does not answer, the runner retries for
    /// `TOKEN_TIMEOUT` and writes the reason to the log.
    ///
    /// # Errors
    ///
    /// A [`Failure`] when Canyon refuses a token, when the files cannot be written, or when the run is to stop.
    pub async fn enter(
        &mut self,
        phase: TokenPhase,
        stop: &Stop,
        log: &mut Log,
    ) -> Result<(), Failure> {
        let shared = Arc::clone(&self.shared);
        let deadline = Instant::now() + TOKEN_TIMEOUT;
        let (mut backoff, mut logged) = (Backoff::default(), None);
        let mut state = shared.state.lock().await;
        state.phase = Some(phase);
        state.due.clear();
        shared.files.write_settings(&shared.of, phase).map_err(|error| unwritable(&error))?;
        for audience in shared.of.audiences() {
            while let Err(error) = shared.renew(&mut state, audience, phase).await {
                if stop.is_requested() || !error.is_retryable() || Instant::now() >= deadline {
                    return Err(error.into_failure(audience));
                }
                let text = error.into_failure(audience).message;
                if logged.as_ref() != Some(&text) {
                    log.warn(&format!("{text}; retrying for {} s", TOKEN_TIMEOUT.as_secs()));
                    log.flush();
                    logged = Some(text);
                }
                tokio::select! {
                    () = sleep(backoff.pause()) => {}
                    () = stop.reached(StopRequest::Stop) => {}
                }
            }
        }
        drop(state);
        self.renewal.get_or_insert_with(|| tokio::spawn(async move { shared.renew_due().await }));
        Ok(())
    }

    /// The last error of a renewal, and forgets it.
    pub fn take_renewal_error(&self) -> Option<String> {
        self.shared.renewal_error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Why a token could not be renewed.
enum TokenError {
    Canyon(ClientError),
    Disk(io::Error),
}

impl TokenError {
    fn is_retryable(&self) -> bool {
        matches!(self, Self::Canyon(error) if !error.is_final())
    }

    fn into_failure(self, audience: &str) -> Failure {
        match self {
            Self::Disk(error) => unwritable(&error),
            Self::Canyon(error) => {
                // If Canyon itself failed, its log has the reason, and another attempt does not help.
                let helps_to_retry = !error.is_final() && !error.is_server_error();
                let class = if helps_to_retry { FailureClass::Lost } else { FailureClass::Config };
                let causes = Causes(&error);
                Failure::new(class, format!("the job has no token for `{audience}`: {causes}"))
            }
        }
    }
}

fn unwritable(error: &io::Error) -> Failure {
    let message =
        format!("cannot write the job's tokens: {error}; check that its disk is not full");
    Failure::new(FailureClass::Config, message)
}

impl Shared {
    async fn renew(
        &self,
        state: &mut State,
        audience: &str,
        phase: TokenPhase,
    ) -> Result<(), TokenError> {
        let body = IssueTokenBody { audience: audience.to_owned(), phase };
        let IssuedToken { token, expires_in, .. } =
            self.api.issue_token(&body).await.map_err(TokenError::Canyon)?;
        let known = state.known.entry(audience.to_owned()).or_default();
        // The signature is enough: without it the token is useless.
        let signature = token.rsplit('.').next().unwrap_or(&token).to_owned();
        if !known.contains(&signature) {
            known.insert(0, signature);
            known.truncate(2);
        }
        // Before the file exists: from then on the module can read the token and print it.
        self.mask.set_rotating(state.known.values().flatten().map(String::as_str));
        self.files.write_token(&self.of, audience, &token).map_err(TokenError::Disk)?;
        let life = Duration::from_secs(expires_in.into());
        state.due.insert(audience.to_owned(), Instant::now() + (life / 2).max(SHORTEST));
        Ok(())
    }

    /// Renews each token at half of its lifetime, until it is aborted. If that fails, it retries; the old token stays valid for
    /// the other half.
    async fn renew_due(&self) {
        loop {
            let next = self.state.lock().await.due.values().min().copied();
            sleep_until(next.unwrap_or_else(|| Instant::now() + REFUSED_PAUSE)).await;
            let mut state = self.state.lock().await;
            let (Some(phase), now) = (state.phase, Instant::now()) else { return };
            let due: Vec<String> = state
                .due
                .iter()
                .filter(|(_, at)| **at <= now)
                .map(|(audience, _)| audience.clone())
                .collect();
            for audience in due {
                match self.renew(&mut state, &audience, phase).await {
                    Ok(()) => state.backoff.reset(),
                    Err(error) => {
                        let pause = if error.is_retryable() {
                            state.backoff.pause()
                        } else {
                            REFUSED_PAUSE
                        };
                        state.due.insert(audience.clone(), Instant::now() + pause);
                        let text = error.into_failure(&audience).message;
                        *self.renewal_error.lock().unwrap_or_else(PoisonError::into_inner) =
                            Some(text);
                    }
                }
            }
        }
    }
}
