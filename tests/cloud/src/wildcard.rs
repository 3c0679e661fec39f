//! `*` and `?`, as IAM and `EventBridge` interpret them.

/// IAM: `*` is any text, also none; `?` is one character.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    glob(&pattern.chars().collect::<Vec<_>>(), &text.chars().collect::<Vec<_>>(), true)
}

/// `EventBridge`: only `*` is special.
pub(crate) fn stars_match(pattern: &str, text: &str) -> bool {
    glob(&pattern.chars().collect::<Vec<_>>(), &text.chars().collect::<Vec<_>>(), false)
}

fn glob(pattern: &[char], text: &[char], one: bool) -> bool {
    let (mut at, mut read) = (0, 0);
    // The position of the last star, and how much of the text it has matched.
    let mut star: Option<(usize, usize)> = None;
    while read < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(wanted) if *wanted == text[read] || (one && *wanted == '?') => {
                at += 1;
                read += 1;
            }
            _ => match &mut star {
                Some((back, taken)) => {
                    *taken += 1;
                    (at, read) = (*back + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_match_as_iam_says() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("dynamodb:*Item", "dynamodb:PutItem", true),
            ("dynamodb:*Item", "dynamodb:PutItems", false),
            ("dynamodb:Get?tem", "dynamodb:GetItem", true),
            ("arn:aws:s3:::b/*", "arn:aws:s3:::b", false),
            ("arn:aws:s3:::b/*", "arn:aws:s3:::b/a/c", true),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxcyyb", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text}");
        }
        assert!(!stars_match("a?c", "abc") && stars_match("a?*", "a?c"));
    }
}
