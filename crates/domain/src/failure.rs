//! Why an attempt failed, and whether a retry may help.
//!
//! The class tells who must act: the platform (`capacity`), the platform team (`image_pull`, `config`), the
//! author of the module (`user`), or no person: Canyon retries (`spot`, `unreachable`).

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The kind of a failure. The names are part of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// The platform has no capacity now.
    Capacity,
    /// The platform's API asked for fewer calls.
    Throttled,
    /// The runner image cannot be pulled.
    ImagePull,
    /// The runner's definition does not work: a missing program, permission, bucket or name.
    Config,
    /// The job was killed for using too much memory.
    Oom,
    /// The platform moved the job off its node.
    Evicted,
    /// The platform reclaimed interruptible capacity.
    Spot,
    /// A deadline of the runner's `timeouts` passed.
    Timeout,
    /// A service that the run needs did not answer: a registry, a git host, the state storage. Its
    /// name did not resolve, the connection failed, or it answered 429 or 5xx.
    Unreachable,
    /// The module or its inputs are at fault: OpenTofu refused them.
    User,
    /// A user cancelled the deployment.
    Cancelled,
    /// The job vanished without a result.
    Lost,
}

impl FailureClass {
    /// Every class, for tables in documents and tests.
    pub const ALL: [Self; 12] = [
        Self::Capacity,
        Self::Throttled,
        Self::ImagePull,
        Self::Config,
        Self::Oom,
        Self::Evicted,
        Self::Spot,
        Self::Timeout,
        Self::Unreachable,
        Self::User,
        Self::Cancelled,
        Self::Lost,
    ];

    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Throttled => "throttled",
            Self::ImagePull => "image_pull",
            Self::Config => "config",
            Self::Oom => "oom",
            Self::Evicted => "evicted",
            Self::Spot => "spot",
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::User => "user",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
        }
    }
}

impl std::fmt::Display for FailureClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failure as users see it: its class and a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The class.
    pub class: FailureClass,
    /// What happened, to which resource, and what to do next.
    pub message: String,
}

impl Failure {
    /// A failure of `class` with `message`.
    pub fn new(class: FailureClass, message: impl Into<String>) -> Self {
        Self { class, message: shortened(message.into()) }
    }
}

/// Maximum number of characters of a platform's message that Canyon keeps: it is stored with the deployment,
/// whose size is limited.
pub const MAX_MESSAGE_CHARS: usize = 2_000;

/// Replaces the part of a text that was left out.
const CUT: &str = " ... ";

/// The text, with at most [`MAX_MESSAGE_CHARS`] characters.
pub fn shortened(text: String) -> String {
    if text.len() <= MAX_MESSAGE_CHARS { text } else { shortened_to(&text, MAX_MESSAGE_CHARS) }
}

/// The text with at most `most` characters. The middle is left out: programs usually print their command
/// first and the cause of a failure last.
pub fn shortened_to(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let kept = most.saturating_sub(CUT.len());
    let tail = kept / 2;
    let head = text.chars().take(kept - tail);
    head.chain(CUT.chars()).chain(text.chars().skip(count - tail)).collect()
}

/// The phase of an attempt. Later is greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// No runner had claimed the attempt.
    Launch,
    /// The module was being fetched.
    Fetch,
    /// `tofu init`.
    Init,
    /// `tofu plan`.
    Plan,
    /// `tofu apply`: from here on resources may have changed.
    Apply,
}

/// Maximum number of attempts of a deployment.
pub const MAX_ATTEMPTS: u32 = 5;

/// The pause before the next attempt, or `None` if the failure is final.
///
/// Canyon never repeats an attempt that had begun to apply: what it created may be missing from the state,
/// and a second apply would create it again. A user decides then.
///
/// ```
/// use canyon_domain::failure::{FailureClass, Phase, retry_after};
/// use std::time::Duration;
///
/// let wait = retry_after(FailureClass::Capacity, Phase::Launch, 1);
/// assert_eq!(wait, Some(Duration::from_secs(10)));
/// assert_eq!(retry_after(FailureClass::Lost, Phase::Apply, 1), None);
/// ```
pub fn retry_after(class: FailureClass, reached: Phase, attempts: u32) -> Option<Duration> {
    use FailureClass as C;
    if attempts >= MAX_ATTEMPTS || reached >= Phase::Apply {
        return None;
    }
    let first = match class {
        C::Capacity | C::Unreachable => Duration::from_secs(10),
        C::Throttled => Duration::from_secs(5),
        C::Evicted | C::Spot | C::Lost => Duration::from_secs(1),
        C::ImagePull | C::Config | C::Oom | C::Timeout | C::User | C::Cancelled => return None,
    };
    // Doubling, so that the load on a full platform decreases: 10 s, 20 s, 40 s, 80 s.
    Some(first * 2_u32.pow(attempts.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platforms_message_is_shortened_before_it_is_stored() {
        let long = format!("pulling {} denied", "é".repeat(1024 * 1024));
        let failure = Failure::new(FailureClass::Config, long);
        assert_eq!(failure.message.chars().count(), MAX_MESSAGE_CHARS);
        let ends =
            (failure.message.starts_with("pulling é"), failure.message.ends_with("é denied"));
        assert_eq!(ends, (true, true), "the beginning and the cause are kept");
        let whole = "é".repeat(MAX_MESSAGE_CHARS);
        assert_eq!(Failure::new(FailureClass::Config, whole.clone()).message, whole);
    }

    #[test]
    fn an_attempt_that_began_to_apply_is_never_repeated() {
        for class in FailureClass::ALL {
            assert_eq!(retry_after(class, Phase::Apply, 1), None, "{class}");
        }
    }

    #[test]
    fn only_temporary_failures_are_retried_and_a_limited_number_of_times() {
        let again = ["capacity", "throttled", "evicted", "spot", "unreachable", "lost"];
        for class in FailureClass::ALL {
            let expected = again.contains(&class.as_str());
            assert_eq!(retry_after(class, Phase::Plan, 1).is_some(), expected, "{class}");
            assert_eq!(retry_after(class, Phase::Plan, MAX_ATTEMPTS), None, "{class}");
        }
    }

    #[test]
    fn the_wait_doubles() {
        let waits: Vec<_> = (1..=4)
            .map(|n| retry_after(FailureClass::Capacity, Phase::Launch, n).unwrap().as_secs())
            .collect();
        assert_eq!(waits, [10, 20, 40, 80]);
    }

    #[test]
    fn names_in_the_api_are_those_of_serde() {
        for class in FailureClass::ALL {
            assert_eq!(serde_json::to_value(class).unwrap(), class.as_str());
        }
    }
}
