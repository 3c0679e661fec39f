//! The report of `canyon-agent check`.

use canyon_domain::ids::OrgId;
use canyon_domain::runner_check::{StepReport, StepResult};
use std::fmt;

/// The steps before the platform's own ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The settings.
    Settings,
    /// The proxy of the environment.
    Proxy,
    /// The name of Canyon's API.
    Dns,
    /// The connection and its certificate.
    Tls,
    /// Whether Canyon answers at the address.
    Api,
    /// This machine's clock.
    Clock,
    /// The agent's proof of identity.
    SignIn,
    /// Whether Canyon accepts the agent.
    Agent,
    /// The jobs' platform.
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

/// Counts failures, and prints each step at once.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Of an agent that several share: the organization that the next steps are about.
    pub(super) organization: Option<OrgId>,
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

    #[expect(clippy::print_stdout, reason = "the report is the output of this command")]
    fn line(&self, result: &str, step: &impl fmt::Display, message: &impl fmt::Display) {
        println!("{}", self.text(result, step, message));
    }

    fn text(&self, result: &str, step: &impl fmt::Display, message: &impl fmt::Display) -> String {
        let of = self.organization.as_ref().map(|org| format!("`{org}`: ")).unwrap_or_default();
        let message = format!("{of}{message}").replace('\n', &format!("\n{:21}", ""));
        format!("{result:<8}{:<13}{message}", step.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_a_shared_agent_names_its_organization() {
        let mut report = Report::default();
        let alone = report.text("ok", &Step::Agent, &"accepted");
        assert_eq!(alone, "ok      agent        accepted");
        report.organization = Some("acme".parse().unwrap());
        let shared = report.text("failed", &Step::Agent, &"refused\nby Canyon");
        assert_eq!(shared, "failed  agent        `acme`: refused\n                     by Canyon");
    }
}
