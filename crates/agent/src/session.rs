//! The session: opened, and opened anew when Canyon does not know of it any more.

use crate::backoff::{Backoff, jittered};
use crate::desk::Desk;
use crate::exit::Exit;
use canyon_api::agent::{OpenSession, PROTOCOL, SessionOpened};
use canyon_domain::agent::Adoption;
use canyon_domain::seam::{Clock as _, Entropy as _};
use canyon_identity::system::System;
use std::time::Duration;

/// Between two questions whether somebody has adopted the agent, unless Canyon says otherwise.
const ADOPTION: Duration = Duration::from_secs(2);
/// The longest pause that Canyon may ask for.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_mins(5);

impl Desk {
    /// Opens a session, however long that takes.
    pub(crate) async fn open(&mut self) -> Result<SessionOpened, Exit> {
        let mut backoff = Backoff::default();
        let mut told = false;
        // Drawn once: so an opening whose answer was lost may be repeated.
        let instance = System.id(System.now()).to_string();
        loop {
            self.status.turned();
            let pause = match self.ask_for_session(&instance).await {
                Ok(opened) if opened.session.is_some() => {
                    for warning in &opened.warnings {
                        tracing::warn!("{warning}");
                    }
                    return Ok(opened);
                }
                Ok(opened) => {
                    backoff.reset();
                    self.status.heard(None);
                    if opened.state == Adoption::Rejected {
                        return Err(Exit::Rejected(format!(
                            "agent `{}` was rejected",
                            self.settings.name
                        )));
                    }
                    if !told {
                        told = true;
                        self.say_pending();
                    }
                    let wanted =
                        Duration::from_millis(opened.pause_ms).clamp(ADOPTION, LONGEST_PAUSE);
                    jittered(wanted)
                }
                Err(Refusal::Passing(reason, pause)) => {
                    tracing::warn!("{reason}; trying again");
                    self.status.trouble(&reason);
                    pause.min(LONGEST_PAUSE).max(backoff.pause())
                }
                Err(Refusal::Lasting(reason)) => return Err(Exit::Rejected(reason)),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stop.asked(1) => return Err(Exit::Done),
            }
        }
    }

    fn say_pending(&self) {
        let (name, org) = (&self.settings.name, &self.settings.org);
        let fingerprint = self.line.fingerprint().unwrap_or_default();
        tracing::warn!(
            fingerprint,
            "agent `{name}` waits to be adopted. Compare its fingerprint with what Canyon shows, then: canyon \
             adopt agent {name} (organization `{org}`)"
        );
    }

    async fn ask_for_session(&mut self, instance: &str) -> Result<SessionOpened, Refusal> {
        let passing = |reason: String| Refusal::Passing(reason, Duration::ZERO);
        let place = self.kind.place().await.map_err(|error| passing(error.to_string()))?;
        let found = self.kind.found().await.map_err(|error| passing(error.to_string()))?;
        let body = OpenSession {
            instance: instance.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            serves: vec![self.kind.serves()],
            place,
            labels: self.settings.labels.clone(),
            runner: self.settings.runner.clone(),
            run_untagged_jobs: self.settings.run_untagged_jobs,
            reserved: self.settings.reserved,
            concurrency: self.concurrency(),
            public_key: self.line.public_key(),
            found,
        };
        self.line.open(&body).await.map_err(|error| {
            if error.is_rejection() || (error.is_lasting() && self.jobs.is_empty()) {
                return Refusal::Lasting(error.to_string());
            }
            Refusal::Passing(error.to_string(), error.pause().unwrap_or_default())
        })
    }
}

enum Refusal {
    /// It may go better after this pause at least.
    Passing(String, Duration),
    Lasting(String),
}
