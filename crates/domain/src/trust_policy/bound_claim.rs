//! What a claim must be: one of some texts, or like one of some globs.
//!
//! A glob stands for names that its writer does not know yet, and strangers choose names. So `*` stays
//! within one segment (it crosses neither `/` nor `:`), and the owner of what is named stands before
//! the first one: `repo:acme/*:ref:refs/heads/main`, not `repo:acme*`.

use serde::{Deserialize, Serialize};

/// What separates the segments of a claim.
const SEPARATORS: [char; 2] = ['/', ':'];
/// The shortest text before the first `*`.
const SHORTEST_PREFIX: usize = 8;
/// The longest value, in bytes.
pub(super) const MAX_VALUE: usize = 256;

/// How the values of bound claims are meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ClaimMatching {
    /// As they are.
    #[default]
    String,
    /// `*` stands for any name, or part of one.
    Glob,
}

/// Why `value` is refused for the claim `name`; reads on after the field's name.
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
            Some("has a `*`, which means itself here; for globs say `bound_claims_type: GLOB`")
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

/// Segments of `fixed` that a separator ends.
fn whole_segments(fixed: &str) -> usize {
    let fixed = fixed.split_once("://").map_or(fixed, |(_, rest)| rest);
    let mut segments = fixed.split(SEPARATORS);
    segments.next_back();
    segments.filter(|segment| !segment.is_empty()).count()
}

/// How many segments there are up to the owner. A subject says first what kind of thing it names. A
/// service account of Kubernetes is called `system:serviceaccount:<namespace>:<name>`, and a SPIFFE id
/// of one `spiffe://<domain>/ns/<namespace>/sa/<name>`.
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

/// Whether the claim `value` is `bound`.
pub(super) fn fits(bound: &str, value: &str, matching: ClaimMatching) -> bool {
    if bound == value {
        return true;
    }
    matching == ClaimMatching::Glob && is_plain(value) && like(bound, value)
}

/// Each segment by itself: what no `*` can cross must be in both.
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
    // A separator that is written in another way would be crossed all the same.
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
