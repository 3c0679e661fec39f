//! One command of OpenTofu, and the failure that its end means.

use super::Run;
use crate::tofu::{Ended, Tofu};
use crate::verdict::{self, Command};
use crate::{oom, records};
use canyon_domain::failure::{Failure, FailureClass, Phase};
use canyon_domain::state_command::StateCommand;
use tokio::time::Instant;

impl Run {
    /// One process of OpenTofu.
    pub(super) async fn step(
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
        records::log_troubles(&mut self.transcript.log, self.identity.as_ref(), &self.progress);
        self.log_duration(&format!("{command} ended"), begun);
        Ok(ended)
    }

    /// Turns any end except the exit codes `good` into a failure.
    pub(super) fn expect(
        &self,
        tofu: &Tofu,
        phase: Phase,
        ended: Ended,
        good: &[i32],
    ) -> Result<(), Failure> {
        let on_state = self.job.bundle.state_command.as_ref().filter(|_| phase == Phase::Apply);
        let on_state = on_state.map(StateCommand::words);
        let command = Command { program: tofu.name(), phase, on_state };
        match ended {
            Ended::Exited(code) if good.contains(&code) => Ok(()),
            Ended::NotStarted => Err(verdict::cancelled(phase, false)),
            Ended::Exited(_) | Ended::Killed(_) if self.stop.is_requested() => {
                Err(verdict::cancelled(phase, ended.is_crash() || self.transcript.facts.cut_off))
            }
            Ended::Exited(code) => Err(verdict::refused(&command, code, &self.transcript)),
            Ended::Killed(signal) => {
                let for_memory = oom::kills() > self.oom_kills;
                Err(verdict::killed(&command, signal, for_memory))
            }
        }
    }
}
