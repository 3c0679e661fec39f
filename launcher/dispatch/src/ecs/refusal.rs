//! The errors of ECS, and what follows from them.

use super::request::EcsLocation;
use crate::{DispatchError, OnFailure};
use aws_sdk_ecs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ecs::types::Failure as EcsFailure;
use canyon_domain::causes::Causes;
use canyon_domain::failure::FailureClass;
use canyon_identity::federation::FederationError;
use std::error::Error;
use std::time::Duration;

/// The pause after ECS has throttled a call.
const THROTTLE_PAUSE: Duration = Duration::from_secs(3);
/// The pause after a call without an answer that had no effect.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Converts errors of AWS services into errors that name the thing to change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusals<'a> {
    pub(super) location: EcsLocation<'a>,
}

/// What a missing answer means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NoAnswer {
    /// Nothing was started, and the same call may be repeated.
    HadNoEffect,
    /// The call may have taken effect: the task may run.
    MayHaveTakenEffect,
}

impl Refusals<'_> {
    /// The error of a call before the task is started.
    pub(super) fn before_start<E>(&self, action: &str, error: &SdkError<E>) -> DispatchError
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        self.classify(action, error, NoAnswer::HadNoEffect)
    }

    /// The error of the call that starts the task.
    pub(super) fn of_start<E>(&self, error: &SdkError<E>) -> DispatchError
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        let error = self.classify("ecs:RunTask", error, NoAnswer::MayHaveTakenEffect);
        match error.on_failure {
            OnFailure::RetryAfter(pause) if error.failure.class == FailureClass::Throttled => {
                DispatchError::not_yet(error.failure.message, pause)
            }
            _ => error,
        }
    }

    /// The error of a call about a task that may run.
    pub(super) fn of_request<E>(&self, action: &str, error: &SdkError<E>) -> DispatchError
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        self.classify(action, error, NoAnswer::MayHaveTakenEffect)
    }

    /// The error if Canyon has no credentials of the role.
    pub(super) fn no_credentials(error: &FederationError) -> DispatchError {
        let message = Causes(error).to_string();
        match error {
            FederationError::Refused(_) => DispatchError::refused(error.class(), message),
            FederationError::Throttled(_) => {
                DispatchError::later(error.class(), message, THROTTLE_PAUSE)
            }
            FederationError::Assertion(_) | FederationError::Unavailable(_) => {
                DispatchError::later(error.class(), message, RETRY_PAUSE)
            }
        }
    }

    fn classify<E>(&self, action: &str, error: &SdkError<E>, no_answer: NoAnswer) -> DispatchError
    where
        E: ProvideErrorMetadata + Error + Send + Sync + 'static,
    {
        if let SdkError::ServiceError(context) = error
            && context.raw().status().as_u16() < 500
        {
            let refusal = context.err();
            let (code, words) = (refusal.code().unwrap_or_default(), refusal.message());
            return self.classify_refusal(action, code, words.unwrap_or("it gave no reason"));
        }
        let EcsLocation { region, .. } = self.location;
        let message = format!("no answer to `{action}` in {region}: {}", Causes(error));
        match (error, no_answer) {
            (SdkError::ConstructionFailure(_), _) => {
                DispatchError::refused(FailureClass::Config, message)
            }
            (_, NoAnswer::HadNoEffect) => {
                DispatchError::later(FailureClass::Lost, message, RETRY_PAUSE)
            }
            (_, NoAnswer::MayHaveTakenEffect) => {
                DispatchError::unknown(FailureClass::Lost, message)
            }
        }
    }

    fn classify_refusal(&self, action: &str, code: &str, words: &str) -> DispatchError {
        let EcsLocation { region, account, cluster, role } = self.location;
        let config = |message| DispatchError::refused(FailureClass::Config, message);
        match code {
            "ThrottlingException"
            | "Throttling"
            | "TooManyRequestsException"
            | "RequestLimitExceeded" => {
                let message = format!("AWS throttles `{action}` in {region}: {words}");
                DispatchError::later(FailureClass::Throttled, message, THROTTLE_PAUSE)
            }
            "ClusterNotFoundException" => config(format!(
                "there is no active ECS cluster `{cluster}` in {region}, account {account}; \
                 create it, or change `job.cluster`: {words}"
            )),
            // An earlier start had other parameters; the lists show its task.
            "ConflictException" => {
                let message = format!("ECS has started this attempt before: {words}");
                DispatchError::unknown(FailureClass::Lost, message)
            }
            _ if is_capacity(words) || code == "LimitExceededException" => {
                DispatchError::refused(FailureClass::Capacity, format!("no capacity: {words}"))
            }
            _ if is_pass_role(words) => config(format!(
                "{role} may not pass the task its roles; allow it `iam:PassRole` for \
                 `job.execution_role_arn` and `job.task_role_arn`, and let both trust \
                 ecs-tasks.amazonaws.com: {words}"
            )),
            "AccessDeniedException" | "AccessDenied" => config(format!(
                "{role} may not call `{}`; allow it in the role's policy: {words}",
                action_in(words).unwrap_or(action)
            )),
            "UnrecognizedClientException"
            | "InvalidSignatureException"
            | "IncompleteSignatureException" => config(format!(
                "{region} does not accept the credentials of {role}; check that the region is enabled \
                 in account {account}: {words}"
            )),
            // The next call fetches new ones.
            "ExpiredTokenException" | "ExpiredToken" => {
                let message = format!("the credentials of {role} have expired: {words}");
                DispatchError::later(FailureClass::Lost, message, RETRY_PAUSE)
            }
            _ => {
                let hint = field_at_fault(words)
                    .map_or(String::new(), |field| format!("; check `job.{field}` of the runner"));
                config(format!("ECS refuses `{action}` ({code}): {words}{hint}"))
            }
        }
    }

    /// The error of an answer of `RunTask` that is no error but has started no task.
    pub(super) fn of_failures(&self, failures: &[EcsFailure]) -> DispatchError {
        let EcsLocation { cluster, .. } = self.location;
        let words: Vec<_> = failures.iter().map(message_of).collect();
        let words = if words.is_empty() {
            "ECS started no task and gave no reason".to_owned()
        } else {
            words.join("; ")
        };
        // Without a reason, a retry may succeed.
        let is_capacity = failures.is_empty() || failures.iter().any(is_capacity_failure);
        let (class, what) = if is_capacity {
            (FailureClass::Capacity, "there is no capacity for the task in")
        } else {
            (FailureClass::Config, "ECS does not start the task in")
        };
        DispatchError::refused(class, format!("{what} cluster `{cluster}`: {words}"))
    }
}

fn message_of(failure: &EcsFailure) -> String {
    let parts = [failure.reason(), failure.detail(), failure.arn()];
    let parts: Vec<_> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

/// Whether the failure is temporary, by the reasons of the developer guide's "API failure reasons".
fn is_capacity_failure(failure: &EcsFailure) -> bool {
    let reason = failure.reason().unwrap_or_default();
    reason.starts_with("RESOURCE:")
        || reason == "AGENT"
        || is_capacity(reason)
        || is_capacity(failure.detail().unwrap_or_default())
}

/// Whether the message is about capacity that may be available later, or in another subnet.
pub(super) fn is_capacity(words: &str) -> bool {
    const SIGNS: [&str; 8] = [
        "capacity is unavailable",
        "capacity is currently unavailable",
        "you've reached the limit on the number of",
        "insufficientfreeaddressesinsubnet",
        "not enough free addresses",
        "does not have enough free",
        "insufficient capacity",
        "network interface provisioning",
    ];
    let words = words.to_lowercase();
    SIGNS.iter().any(|sign| words.contains(sign))
}

fn is_pass_role(words: &str) -> bool {
    words.contains("iam:PassRole") || words.contains("unable to assume the role")
}

/// The action that the message says is not allowed. It may differ from the called one: starting a
/// task with tags also needs `ecs:TagResource`.
fn action_in(words: &str) -> Option<&str> {
    let (_, after) = words.split_once("not authorized to perform: ")?;
    let action = after.split_whitespace().next()?.trim_end_matches(['.', ',']);
    action.contains(':').then_some(action)
}

/// The field of the runner's `job` that the message is about.
fn field_at_fault(words: &str) -> Option<&'static str> {
    const FIELDS: [(&str, &str); 9] = [
        ("security group", "security_groups"),
        ("subnet", "subnets"),
        ("capacity provider", "capacity_provider_strategy"),
        ("platform version", "platform_version"),
        ("log group", "log_group"),
        ("secret", "secrets"),
        ("memory", "memory"),
        ("cpu", "cpu"),
        ("image", "image"),
    ];
    let words = words.to_lowercase();
    FIELDS.iter().find(|(sign, _)| words.contains(sign)).map(|(_, field)| *field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecs::request::Role;

    const LOCATION: EcsLocation<'_> = EcsLocation {
        account: "111122223333",
        region: "eu-west-1",
        cluster: "jobs",
        role: Role::Named("arn:aws:iam::111122223333:role/canyon"),
    };

    fn refusal(code: &str, words: &str) -> DispatchError {
        Refusals { location: LOCATION }.classify_refusal("ecs:RunTask", code, words)
    }

    /// The messages are those of ECS (developer guide, troubleshooting).
    #[test]
    fn a_refusal_names_the_thing_to_change() {
        let cases = [
            (
                "InvalidParameterException",
                "Error retrieving subnet information for [subnet-1]: The subnet ID 'subnet-1' \
                 does not exist (ErrorCode: InvalidSubnetID.NotFound)",
                FailureClass::Config,
                "`job.subnets`",
            ),
            (
                "InvalidParameterException",
                "Error retrieving security group information for [sg-1]: The security group \
                 'sg-1' does not exist (ErrorCode: InvalidGroup.NotFound)",
                FailureClass::Config,
                "`job.security_groups`",
            ),
            ("ClusterNotFoundException", "Cluster not found.", FailureClass::Config, "`jobs`"),
            (
                "AccessDeniedException",
                "User: x is not authorized to perform: iam:PassRole on resource: y",
                FailureClass::Config,
                "`iam:PassRole`",
            ),
            (
                "AccessDeniedException",
                "User: x is not authorized to perform: ecs:RunTask on resource: y",
                FailureClass::Config,
                "`ecs:RunTask`",
            ),
            (
                "AccessDeniedException",
                "User: x is not authorized to perform: ecs:TagResource on resource: y because no \
                 identity-based policy allows the ecs:TagResource action",
                FailureClass::Config,
                "may not call `ecs:TagResource`",
            ),
            (
                "ClientException",
                "Capacity is unavailable at this time. Please try again later or in a different \
                 availability zone",
                FailureClass::Capacity,
                "Capacity is unavailable",
            ),
        ];
        for (code, words, class, named) in cases {
            let error = refusal(code, words);
            assert_eq!(
                (error.failure.class, error.on_failure),
                (class, OnFailure::EndAttempt),
                "{error}"
            );
            assert!(error.failure.message.contains(named), "{error} does not name {named}");
        }
    }

    #[test]
    fn a_throttled_call_is_retried_and_ends_no_attempt() {
        let error = refusal("ThrottlingException", "Rate exceeded");
        assert_eq!(error.on_failure, OnFailure::RetryAfter(THROTTLE_PAUSE));
        assert_eq!(error.failure.class, FailureClass::Throttled);
    }

    #[test]
    fn a_failure_in_a_successful_answer_ends_the_attempt() {
        let of = |reason: &str| {
            let failure = EcsFailure::builder().reason(reason).build();
            Refusals { location: LOCATION }.of_failures(&[failure]).failure.class
        };
        for reason in ["RESOURCE:ENI", "RESOURCE:MEMORY", "Capacity is unavailable at this time"] {
            assert_eq!(of(reason), FailureClass::Capacity, "{reason}");
        }
        assert_eq!(of("MISSING"), FailureClass::Config);
        let nothing = Refusals { location: LOCATION }.of_failures(&[]);
        assert_eq!(nothing.failure.class, FailureClass::Capacity);
    }
}
