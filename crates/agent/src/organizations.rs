//! The agent's loops: one for each organization that it serves, beside each other.

use crate::agent_loop::AgentLoop;
use crate::backoff::Backoff;
use crate::exit::Exit;
use crate::next::Next;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tracing::Instrument as _;

/// After a session of at least this length, the backoff starts over.
const STABLE_SESSION: Duration = Duration::from_mins(1);
/// How long an agent of several organizations waits before it asks one again that refuses it.
const REFUSED_PAUSE: Duration = Duration::from_mins(5);

/// Runs the loops until the agent is asked to end, or, if it serves one organization, cannot serve it any more.
///
/// An agent of several organizations goes on for the others when one refuses it, and asks that one again later: its
/// administrator may have forgotten the agent since, or may have adopted it again.
pub(crate) async fn serve(mut loops: Vec<AgentLoop>) -> Exit {
    if let [only] = &mut *loops {
        return only.run().await;
    }
    let mut serving = JoinSet::new();
    for mut one in loops {
        let span = tracing::error_span!("org", id = %one.served.org);
        serving.spawn(async move { one.run_beside_others().await }.instrument(span));
    }
    while let Some(ended) = serving.join_next().await {
        match ended {
            Ok(Exit::Done) => {}
            Ok(exit) => return exit,
            Err(error) => return Exit::Broken(format!("the agent's loop has failed: {error}")),
        }
    }
    Exit::Done
}

impl AgentLoop {
    async fn run_beside_others(&mut self) -> Exit {
        loop {
            let exit = self.run().await;
            match &exit {
                Exit::Rejected(reason) => {
                    tracing::error!("{reason}. The agent asks again in {REFUSED_PAUSE:?}");
                    self.let_go(reason);
                }
                Exit::Superseded(reason) => self.stand_by(reason),
                Exit::Done | Exit::Broken(_) | Exit::Settings(_) => return exit,
            }
            let until = tokio::time::Instant::now() + REFUSED_PAUSE;
            while tokio::time::Instant::now() < until {
                // The pause is in steps, so that the probe does not take this loop for stuck.
                self.status.loop_turned();
                self.rest(STABLE_SESSION).await;
                if self.stop.count() > 0 {
                    return Exit::Done;
                }
            }
        }
    }

    async fn run(&mut self) -> Exit {
        let mut backoff = Backoff::default();
        loop {
            let opened = match self.open().await {
                Ok(opened) => opened,
                Err(exit) => return exit,
            };
            let Some(session) = opened.session else { continue };
            tracing::info!(session, held = opened.held.len(), "session opened");
            self.status.answered(Some(session));
            self.begin(opened);
            self.session.send_replace(Some(session));
            let since = Instant::now();
            match self.work(session).await {
                Next::Exit(exit) => return exit,
                Next::StandBy(reason) => {
                    self.stand_by(&reason);
                    backoff.reset();
                }
                Next::Reopen => {
                    self.session.send_replace(None);
                    if since.elapsed() > STABLE_SESSION {
                        backoff.reset();
                    }
                    self.rest(backoff.pause()).await;
                }
            }
        }
    }
}
