//! What a policy says of a plan, as text.

use crate::table::printable;
use canyon_api::policy::DeploymentPolicy;
use std::fmt::Write as _;

/// One line for each message, and one for those that are not listed.
pub(crate) fn lines(of: &DeploymentPolicy) -> String {
    let DeploymentPolicy { denied, warnings, num_denied, num_warnings, .. } = of;
    let mut text = String::new();
    for (what, messages, number) in [
        ("denied by the policy", denied, *num_denied),
        ("warning of the policy", warnings, *num_warnings),
    ] {
        for message in messages {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{what}: {}", printable(message));
        }
        let listed = u32::try_from(messages.len()).unwrap_or(u32::MAX);
        if let Some(more @ 1..) = number.checked_sub(listed) {
            let _ = writeln!(text, "{what}: {more} more; see the log");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_has_a_line_without_control_characters() {
        let policy = DeploymentPolicy {
            digest: String::new(),
            denied: vec!["a\u{1b}[31mb".to_owned()],
            warnings: vec!["c".to_owned(), "d".to_owned()],
            num_denied: 3,
            num_warnings: 2,
        };
        insta::assert_snapshot!(lines(&policy), @r"
        denied by the policy: a�[31mb
        denied by the policy: 2 more; see the log
        warning of the policy: c
        warning of the policy: d
        ");
    }
}
