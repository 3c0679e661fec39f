//! Judges the plan by the policy of the environment's type, before people review it and before it is applied.

use super::Run;
use crate::event;
use crate::judge::{ARGUMENT, Answer, MEMORY, Question};
use crate::plan_changes;
use crate::reaper::OwnChild;
use crate::stop::StopRequest;
use crate::tofu::Tofu;
use crate::verdict;
use canyon_api::policy::PolicyReportBody;
use canyon_domain::deployment::Mode;
use canyon_domain::failure::{Failure, FailureClass, Phase, shortened_to};
use canyon_domain::job::Job;
use canyon_domain::plan_task::PlanTask;
use canyon_domain::policy::{Findings, JobPolicy, MAX_MESSAGE, MAX_MESSAGES};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::timeout;

/// How many characters of the messages the failure of a run has. The rest is in the log and with the deployment.
const IN_FAILURE: usize = 600;
/// What ends every failure of a judgement.
const UNCHANGED: &str = "Nothing was changed";

/// How the evaluation ended.
enum Evaluated {
    Answered(Answer),
    TooLate,
    Stopped,
    /// The process ended without an answer; its last words.
    Ended(String),
}

impl Run {
    /// Evaluates the job's policy, if it has one, against the plan.
    ///
    /// # Errors
    ///
    /// A [`Failure`] if the policy denies the plan (class `user`), or if it cannot be evaluated (class `config`): the plan must
    /// not be applied then.
    pub(super) async fn judge(&mut self, tofu: &Tofu) -> Result<(), Failure> {
        if matches!(self.job.mode, Mode::State | Mode::Drift) {
            return Ok(());
        }
        let Some(policy) = self.job.policy.clone() else { return Ok(()) };
        let unread =
            |reason: String| config(&format!("POLICY_FAILED: the plan cannot be read: {reason}"));
        let plan = match self.plan_as_json(tofu).await {
            Ok(plan) => plan,
            Err(error) => return Err(self.without_details(unread(error))),
        };
        let evaluated = self.evaluated(&policy, &plan).await;
        let mask = plan_changes::mask_of(&plan).map_err(|error| unread(error.to_string()))?;
        let masked = |text: &str| self.transcript.log.shown(&mask.text(text));
        let findings = match evaluated.map_err(|error| {
            config(&format!("POLICY_FAILED: the policy cannot be evaluated: {error}"))
        })? {
            Evaluated::Answered(Answer::Judged(findings)) => Findings {
                denied: findings.denied.iter().map(|text| masked(text)).collect(),
                warnings: findings.warnings.iter().map(|text| masked(text)).collect(),
                ..findings
            },
            Evaluated::Answered(Answer::Failed(fault)) => {
                let text = shortened_to(&masked(&fault.to_string()), MAX_MESSAGE);
                return Err(self.without_details(config(&format!("POLICY_FAILED: {text}"))));
            }
            Evaluated::TooLate => {
                let seconds = policy.policy.timeout_seconds;
                return Err(config(&format!(
                    "POLICY_TIMEOUT: the policy was not evaluated within {seconds} s. Make it simpler, or give it more time: \
                     `policy.timeout_seconds` of the environment type"
                )));
            }
            Evaluated::Stopped => return Err(verdict::cancelled(Phase::Plan, false)),
            Evaluated::Ended(reason) => {
                return Err(config(&format!("POLICY_FAILED: {reason}")));
            }
        };
        if matches!(self.job.plan, Some(PlanTask::Keep { .. } | PlanTask::Review { .. })) {
            self.shown_plan = Some(plan);
        }
        self.report_findings(policy, findings)
    }

    /// Logs what the policy says, and reports the first messages.
    fn report_findings(&mut self, policy: JobPolicy, findings: Findings) -> Result<(), Failure> {
        let Findings { num_denied, num_warnings, .. } = findings;
        let step = format!(
            "the policy of the environment type: {num_denied} denied, {num_warnings} warnings"
        );
        self.transcript.log.step(&step);
        for (place, message) in findings.warnings.iter().enumerate() {
            let text = format!("policy: {message}");
            self.transcript.log.warn(&text);
            if place < MAX_MESSAGES {
                self.record_in_clear(&event::warning(&shortened_to(&text, MAX_MESSAGE)));
            }
        }
        for message in &findings.denied {
            self.transcript.log.error(&format!("policy: {message}"));
        }
        let findings = findings.limited();
        let denial = (num_denied > 0).then(|| self.denial(&findings));
        let mut report = PolicyReportBody::new(policy.digest, findings);
        if self.transcript.is_sealed() {
            // What may have values of the plan stays in the encrypted log.
            report.denied.clear();
            report.warnings.clear();
        }
        self.policy = Some(report);
        denial.map_or(Ok(()), Err)
    }

    fn denial(&self, findings: &Findings) -> Failure {
        let Findings { denied, num_denied, .. } = findings;
        let message = if self.transcript.is_sealed() {
            format!("{num_denied} messages of the policy, which the encrypted log has")
        } else {
            shortened_to(&denied.join("; "), IN_FAILURE)
        };
        Failure::new(FailureClass::User, format!("POLICY_DENIED: {message}. {UNCHANGED}"))
    }

    /// Evaluates the policy in a process of its own, which has only so much time and memory.
    async fn evaluated(&self, policy: &JobPolicy, plan: &[u8]) -> std::io::Result<Evaluated> {
        let seconds = policy.policy.timeout_seconds;
        let (modules, context) = (policy.policy.modules.clone(), context(&self.job));
        let question = Question { modules, context, seconds: u64::from(seconds) + 1 };
        let mut input = serde_json::to_vec(&question)?;
        input.push(b'\n');
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe"));
        let mut command = Command::new(program);
        command.arg(ARGUMENT).env_clear().current_dir("/").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let _own = OwnChild::new(child.id());
        let mut pipe = child.stdin.take();
        let ask = async {
            if let Some(mut pipe) = pipe.take() {
                // A process that has ended reads nothing more, and its end says why.
                let _ = pipe.write_all(&input).await;
                let _ = pipe.write_all(plan).await;
            }
        };
        let run = async { tokio::join!(ask, child.wait_with_output()).1 };
        let output = tokio::select! {
            output = timeout(Duration::from_secs(seconds.into()), run) => output,
            () = self.stop.reached(StopRequest::Stop) => return Ok(Evaluated::Stopped),
        };
        // The process is killed where its output is dropped.
        let Ok(output) = output else { return Ok(Evaluated::TooLate) };
        let output = output?;
        Ok(match serde_json::from_slice(&output.stdout) {
            Ok(answer) if output.status.success() => Evaluated::Answered(answer),
            Ok(_) | Err(_) => Evaluated::Ended(last_words(&output.stderr)),
        })
    }
}

/// The failure of a policy that could not be evaluated.
fn config(message: &str) -> Failure {
    Failure::new(FailureClass::Config, format!("{message}. {UNCHANGED}"))
}

/// `data.canyon_context`.
fn context(job: &Job) -> Value {
    json!({
        "project": job.project_id,
        "environment": job.env_id,
        "environment_type": job.env_type_id,
        "mode": job.mode,
        "deployment_id": job.deployment_id,
    })
}

/// Why the process ended without an answer.
fn last_words(errors: &[u8]) -> String {
    let text = String::from_utf8_lossy(errors);
    if text.contains("overflowed its stack") {
        return "the policy calls itself without end".to_owned();
    }
    if text.contains("memory allocation") {
        return format!("the policy needs more than {MEMORY} MiB of memory for this plan");
    }
    if text.is_empty() {
        return "the process that evaluates the policy was killed; perhaps the job's memory ran out".to_owned();
    }
    "the process that evaluates the policy ended without an answer".to_owned()
}
