//! Whom the job is at the clouds: files with tokens of Canyon's issuer, and who keeps them fresh.
//!
//! The tokens are got with the attempt's token, which the module cannot read: it is in this process's
//! memory alone. What the module can read, these files, is of the phase that the run is in.

pub mod environment;
pub mod files;

use crate::{backoff::Backoff, log::Log, mask::Mask, session::Line, stop::Stop, stop::Wish};
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

/// How long a phase waits for its tokens when Canyon does not answer.
const PATIENCE: Duration = Duration::from_mins(5);
/// The pause after a refusal: somebody may mend the runner's definition.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);
/// No token is asked for sooner than so.
const SHORTEST: Duration = Duration::from_millis(500);

/// The identity of one run. Its files stay fresh until it is dropped.
pub struct Identity {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("of", &self.shared.of).finish_non_exhaustive()
    }
}

struct Shared {
    of: JobIdentity,
    files: Files,
    line: Line,
    mask: Mask,
    /// Held while tokens are asked for, so that none of an earlier phase is written after a later one.
    state: Mutex<State>,
    trouble: std::sync::Mutex<Option<String>>,
}

#[derive(Default)]
struct State {
    phase: Option<TokenPhase>,
    /// When each audience's token is to be replaced.
    due: BTreeMap<String, Instant>,
    /// The last two of each audience, which may still be good.
    known: BTreeMap<String, Vec<String>>,
    backoff: Backoff,
}

impl Drop for Identity {
    fn drop(&mut self) {
        if let Some(keeper) = &self.keeper {
            keeper.abort();
        }
    }
}

impl Identity {
    /// Nothing is asked for before [`Identity::enter`].
    pub fn new(of: JobIdentity, files: Files, line: Line, mask: Mask) -> Self {
        let (state, trouble) = (Mutex::default(), std::sync::Mutex::default());
        Self { shared: Arc::new(Shared { of, files, line, mask, state, trouble }), keeper: None }
    }

    /// Writes the files of `phase`, and keeps them fresh from here on. A Canyon that does not answer is
    /// asked for minutes, and the log says so.
    ///
    /// # Errors
    ///
    /// A [`Failure`] when there is a token that Canyon does not give, or the run is to stop.
    pub async fn enter(
        &mut self,
        phase: TokenPhase,
        stop: &Stop,
        log: &mut Log,
    ) -> Result<(), Failure> {
        let shared = Arc::clone(&self.shared);
        let deadline = Instant::now() + PATIENCE;
        let (mut backoff, mut said) = (Backoff::default(), None);
        let mut state = shared.state.lock().await;
        state.phase = Some(phase);
        state.due.clear();
        shared.files.write_settings(&shared.of, phase).map_err(|error| unwritable(&error))?;
        for audience in shared.of.audiences() {
            while let Err(trouble) = shared.renew(&mut state, audience, phase).await {
                if stop.wish() != Wish::Run || !trouble.passes() || Instant::now() >= deadline {
                    return Err(trouble.into_failure(audience));
                }
                let text = trouble.into_failure(audience).message;
                if said.as_ref() != Some(&text) {
                    log.warn(&format!("{text}; asking again for {} s", PATIENCE.as_secs()));
                    log.flush();
                    said = Some(text);
                }
                tokio::select! {
                    () = sleep(backoff.pause()) => {}
                    () = stop.reached(Wish::Stop) => {}
                }
            }
        }
        drop(state);
        self.keeper.get_or_insert_with(|| tokio::spawn(async move { shared.keep().await }));
        Ok(())
    }

    /// Why tokens are not fresh, said once.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Why there is no new token.
enum Trouble {
    Canyon(ClientError),
    Disk(io::Error),
}

impl Trouble {
    fn passes(&self) -> bool {
        matches!(self, Self::Canyon(error) if !error.is_final())
    }

    fn into_failure(self, audience: &str) -> Failure {
        match self {
            Self::Disk(error) => unwritable(&error),
            Self::Canyon(error) => {
                // What Canyon's own log explains, another attempt does not help.
                let passes = !error.is_final() && !error.is_failure_of_canyon();
                let class = if passes { FailureClass::Lost } else { FailureClass::Config };
                let causes = Causes(&error);
                Failure::new(class, format!("the job has no token for `{audience}`: {causes}"))
            }
        }
    }
}

fn unwritable(error: &io::Error) -> Failure {
    let message = format!("cannot write the job's tokens: {error}; has its disk room?");
    Failure::new(FailureClass::Config, message)
}

impl Shared {
    async fn renew(
        &self,
        state: &mut State,
        audience: &str,
        phase: TokenPhase,
    ) -> Result<(), Trouble> {
        let body = IssueTokenBody { audience: audience.to_owned(), phase };
        let IssuedToken { token, expires_in, .. } =
            self.line.issue_token(&body).await.map_err(Trouble::Canyon)?;
        let known = state.known.entry(audience.to_owned()).or_default();
        // Without its signature a token opens nothing.
        let signature = token.rsplit('.').next().unwrap_or(&token).to_owned();
        if !known.contains(&signature) {
            known.insert(0, signature);
            known.truncate(2);
        }
        // Before anybody can read and say it.
        self.mask.set_passing(state.known.values().flatten().map(String::as_str));
        self.files.write_token(&self.of, audience, &token).map_err(Trouble::Disk)?;
        let life = Duration::from_secs(expires_in.into());
        state.due.insert(audience.to_owned(), Instant::now() + (life / 2).max(SHORTEST));
        Ok(())
    }

    /// Replaces each token at half of its life. One that cannot be replaced is tried again and again,
    /// and is good for the other half meanwhile.
    async fn keep(&self) {
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
                    Err(trouble) => {
                        let pause =
                            if trouble.passes() { state.backoff.pause() } else { REFUSED_PAUSE };
                        state.due.insert(audience.clone(), Instant::now() + pause);
                        let said = trouble.into_failure(&audience).message;
                        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(said);
                    }
                }
            }
        }
    }
}
