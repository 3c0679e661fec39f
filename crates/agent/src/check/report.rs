//! The steps, as people read them.

use canyon_domain::runner_check::{StepReport, StepResult};
use std::fmt;

/// What is tried before the platform's own steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The settings.
    Settings,
    /// The proxy of the environment.
    Proxy,
    /// The name of Canyon's API.
    Dns,
    /// The connection, and who is at its other end.
    Tls,
    /// Whether Canyon answers there.
    Api,
    /// This machine's clock.
    Clock,
    /// What the agent shows.
    SignIn,
    /// Whether Canyon takes that.
    Agent,
    /// What jobs run on.
    Platform,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Settings => "settings",
            Self::Proxy => "proxy",
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::Api => "api",
            Self::Clock => "clock",
            Self::SignIn => "sign_in",
            Self::Agent => "agent",
            Self::Platform => "platform",
        })
    }
}

/// What was found so far; each step is printed as soon as it is known.
#[derive(Debug, Default)]
pub(super) struct Report {
    failures: usize,
}

impl Report {
    pub(super) fn ok(&mut self, step: Step, found: impl fmt::Display) {
        self.line("ok", &step, &found);
    }

    pub(super) fn failed(&mut self, step: Step, reason: impl fmt::Display) {
        self.failures += 1;
        self.line("failed", &step, &reason);
    }

    pub(super) fn skipped(&mut self, step: Step, reason: impl fmt::Display) {
        self.line("skipped", &step, &reason);
    }

    /// A step of the platform's own check.
    pub(super) fn of_platform(&mut self, report: &StepReport) {
        self.failures += usize::from(report.result == StepResult::Failed);
        self.line(report.result.as_str(), &report.step, &report.message);
    }

    pub(super) fn failures(&self) -> usize {
        self.failures
    }

    #[expect(
        clippy::print_stdout,
        clippy::unused_self,
        reason = "the report is what was asked for"
    )]
    fn line(&self, result: &str, step: &impl fmt::Display, message: &impl fmt::Display) {
        let message = message.to_string().replace('\n', &format!("\n{:21}", ""));
        println!("{result:<8}{:<13}{message}", step.to_string());
    }
}
