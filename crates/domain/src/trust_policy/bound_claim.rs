//! The accepted values of a claim: texts, or globs.
//!
//! A glob matches names that the policy's author does not know yet, and attackers can choose names. So `*`
//! stays within one segment (it matches neither `/` nor `:`), and the owner must be complete before the first
//! `*`: `repo:acme/*:ref:refs/heads/main`, not `repo:acme*`.

use serde::{Deserialize, Serialize};

/// The separators of a claim's segments.
const SEPARATORS: [char; 2] = ['/', ':'];
/// Minimum length of the text before the first `*`.
const SHORTEST_PREFIX: usize = 8;
/// Maximum length of a value, in bytes.
pub(super) const MAX_VALUE: usize = 256;

/// How values of bound claims are matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ClaimMatching {
    /// Literally.
    #[default]
    String,
    /// As globs: `*` matches any name, or part of one.
    Glob,
}

/// Why `value` is refused for the claim `name`. The message continues after the field's name.
pub(super) fn unfit(name: &str, value: &str, matching: ClaimMatching) -> Option<&'static str> {
    if value.is_empty() || value.len() > MAX_VALUE {
        return Some("has 1 to 256 characters");
    }
    if !is_plain(value) {
        return Some("has only printable ASCII characters, and no space at its ends");
    }
    match (matching, value.split_once('*')) {
        (_, None) => None,
        (ClaimMatching::String, Some(_)) => {
            Some("has a `*`, which is literal here; for globs set `bound_claims_type: GLOB`")
        }
        (ClaimMatching::Glob, Some((fixed, _))) => too_wide(name, value, fixed),
    }
}

fn too_wide(name: &str, value: &str, fixed: &str) -> Option<&'static str> {
    if value.contains("**") {
        return Some("has `**`; one `*` stands for any name, and none for more than one");
    }
    if fixed.len() < SHORTEST_PREFIX {
        return Some("is too wide: at least 8 characters must stand before the first `*`");
    }
    if whole_segments(fixed) < segments_to_owner(name, fixed) {
        return Some(
            "is too wide: the owner (organization, group, namespace) must stand whole before the \
             first `*`, with its separator, as in `repo:acme/*`; others may choose a name that \
             begins like yours",
        );
    }
    None
}

/// Number of segments of `fixed` that end with a separator.
fn whole_segments(fixed: &str) -> usize {
    let fixed = fixed.split_once("://").map_or(fixed, |(_, rest)| rest);
    let mut segments = fixed.split(SEPARATORS);
    segments.next_back();
    segments.filter(|segment| !segment.is_empty()).count()
}

/// Number of segments up to and including the owner. A subject begins with the kind of what it names. A
/// service account of Kubernetes is called `system:serviceaccount:<namespace>:<name>`, and a SPIFFE id of one
/// `spiffe://<domain>/ns/<namespace>/sa/<name>`.
fn segments_to_owner(name: &str, fixed: &str) -> usize {
    let has_kind = name == "sub" || fixed.find(SEPARATORS) == fixed.find(':');
    if fixed.starts_with("system:") || fixed.starts_with("spiffe://") {
        3
    } else if has_kind {
        2
    } else {
        1
    }
}

/// Whether the claim's `value` matches `bound`.
pub(super) fn fits(bound: &str, value: &str, matching: ClaimMatching) -> bool {
    if bound == value {
        return true;
    }
    matching == ClaimMatching::Glob && is_plain(value) && like(bound, value)
}

/// Matches segment by segment: the separators must be the same in both.
fn like(glob: &str, value: &str) -> bool {
    let separators = |text: &str| text.matches(SEPARATORS).collect::<String>();
    separators(glob) == separators(value)
        && glob.split(SEPARATORS).zip(value.split(SEPARATORS)).all(|(g, v)| like_segment(g, v))
}

fn like_segment(glob: &str, value: &str) -> bool {
    let Some((first, rest)) = glob.split_once('*') else { return glob == value };
    let (middle, last) = rest.rsplit_once('*').map_or(("", rest), |(middle, last)| (middle, last));
    let open = value.strip_prefix(first).and_then(|value| value.strip_suffix(last));
    let Some(mut open) = open else { return false };
    // An escaped separator would otherwise be matched by `*`.
    if open.contains(['%', '\\']) {
        return false;
    }
    for part in middle.split('*') {
        let Some(at) = open.find(part) else { return false };
        open = &open[at + part.len()..];
    }
    true
}

fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.trim() == text
}
