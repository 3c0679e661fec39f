//! The attributes that a change changes.

use super::ParsedChange;
use canyon_api::plan::PlannedAttribute;
use canyon_domain::json::Json;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;

/// Maximum number of attributes that are listed of a resource.
const MAX_ATTRIBUTES: usize = 200;
/// Maximum length of a text that is shown, in bytes.
const MAX_TEXT: usize = 8 * 1024;
/// Replaces a sensitive part of a value that is shown.
const HIDDEN: &str = "(sensitive)";

/// The changed attributes of a resource.
#[derive(Default)]
pub(super) struct Attributes {
    pub(super) listed: Vec<PlannedAttribute>,
    pub(super) has_more: bool,
}

/// What stands at one path: the values, and OpenTofu's marks of them.
#[derive(Clone, Copy)]
struct Sides<'a> {
    before: &'a Json,
    after: &'a Json,
    unknown: &'a Json,
    before_sensitive: &'a Json,
    after_sensitive: &'a Json,
}

impl Attributes {
    /// The attributes that `change` changes, in the order of their paths.
    pub(super) fn of(change: &ParsedChange, masked: &dyn Fn(&str) -> String) -> Self {
        let replacing: Vec<String> = match &change.replace_paths {
            Json::Array(paths) => paths.iter().map(path_of).collect(),
            _ => Vec::new(),
        };
        let mut found = Self::default();
        found.walk(Sides::of(change), "", masked);
        for attribute in &mut found.listed {
            attribute.replaces = replacing.iter().any(|path| is_within(&attribute.path, path));
        }
        found
    }

    /// The names of all attributes that `change` changes, without the places inside of each. A plan has no room for all places,
    /// but a rule that ignores some attributes must know of every one.
    pub(super) fn names_of(change: &ParsedChange) -> BTreeSet<String> {
        let sides = Sides::of(change);
        let differing = sides.keys().into_iter().filter(|key| sides.member(key).differ());
        differing.map(str::to_owned).collect()
    }

    /// In place of attributes that a plan has no room for.
    pub(super) fn left_out() -> Self {
        Self { listed: Vec::new(), has_more: true }
    }

    fn walk(&mut self, sides: Sides<'_>, path: &str, masked: &dyn Fn(&str) -> String) {
        if sides.is_closed() {
            return self.add(sides, path, masked);
        }
        match (sides.before, sides.after) {
            (Json::Object(_), Json::Object(_) | Json::Null) | (Json::Null, Json::Object(_)) => {
                for key in sides.keys() {
                    self.walk(sides.member(key), &member(path, key), masked);
                }
            }
            (Json::Array(one), Json::Array(other)) if has_parts(one) || has_parts(other) => {
                for at in 0..one.len().max(other.len()) {
                    self.walk(sides.item(at), &format!("{path}[{at}]"), masked);
                }
            }
            _ => self.add(sides, path, masked),
        }
    }

    fn add(&mut self, sides: Sides<'_>, path: &str, masked: &dyn Fn(&str) -> String) {
        if !sides.differ() {
            return;
        }
        if self.listed.len() == MAX_ATTRIBUTES {
            self.has_more = true;
            return;
        }
        self.listed.push(sides.shown(masked(path), masked));
    }
}

/// The change as one attribute.
pub(super) fn whole(change: &ParsedChange, masked: &dyn Fn(&str) -> String) -> PlannedAttribute {
    Sides::of(change).shown(String::new(), masked)
}

impl<'a> Sides<'a> {
    fn of(change: &'a ParsedChange) -> Self {
        let ParsedChange { before, after, unknown, before_sensitive, after_sensitive, .. } = change;
        Self { before, after, unknown, before_sensitive, after_sensitive }
    }

    /// Whether its parts are not looked at.
    fn is_closed(self) -> bool {
        [self.unknown, self.before_sensitive, self.after_sensitive]
            .iter()
            .any(|mark| **mark == Json::Bool(true))
    }

    fn keys(self) -> BTreeSet<&'a str> {
        let of = |json: &'a Json| match json {
            Json::Object(members) => Some(members.keys().map(String::as_str)),
            _ => None,
        };
        [self.before, self.after, self.unknown].into_iter().filter_map(of).flatten().collect()
    }

    fn map(self, part: impl Fn(&'a Json) -> Option<&'a Json>) -> Self {
        let part = |json| part(json).unwrap_or(&Json::Null);
        Self {
            before: part(self.before),
            after: part(self.after),
            unknown: part(self.unknown),
            before_sensitive: part(self.before_sensitive),
            after_sensitive: part(self.after_sensitive),
        }
    }

    fn member(self, key: &str) -> Self {
        self.map(|json| if let Json::Object(members) = json { members.get(key) } else { None })
    }

    fn item(self, at: usize) -> Self {
        self.map(|json| if let Json::Array(items) = json { items.get(at) } else { None })
    }

    fn differ(self) -> bool {
        let hides = |mark: &Json| *mark == Json::Bool(true);
        let is_marked_anew = hides(self.before_sensitive) != hides(self.after_sensitive)
            && *self.before != Json::Null
            && *self.after != Json::Null;
        self.before != self.after || has_mark(self.unknown) || is_marked_anew
    }

    fn shown(self, path: String, masked: &dyn Fn(&str) -> String) -> PlannedAttribute {
        let after_unknown = has_mark(self.unknown);
        let [before_sensitive, after_sensitive] =
            [self.before_sensitive, self.after_sensitive].map(|mark| *mark == Json::Bool(true));
        // A value that becomes sensitive may be the same as before.
        let hides_both = before_sensitive || after_sensitive;
        let value = |value: &Json, sensitive: &Json| {
            let is_shown = *value != Json::Null && !hides_both;
            is_shown.then(|| without_secrets(value, sensitive, masked))
        };
        PlannedAttribute {
            path,
            before: value(self.before, self.before_sensitive),
            after: value(self.after, self.after_sensitive).filter(|_| !after_unknown),
            before_sensitive: hides_both && *self.before != Json::Null,
            after_sensitive: hides_both && (after_sensitive || *self.after != Json::Null),
            after_unknown,
            replaces: false,
        }
    }
}

/// Whether a list has lists or objects, which are compared one by one.
fn has_parts(items: &[Json]) -> bool {
    items.iter().any(|item| matches!(item, Json::Array(_) | Json::Object(_)))
}

/// Whether anything in `marks` is marked.
fn has_mark(marks: &Json) -> bool {
    match marks {
        Json::Bool(marked) => *marked,
        Json::Array(items) => items.iter().any(has_mark),
        Json::Object(members) => members.values().any(has_mark),
        Json::Null | Json::Number(_) | Json::String(_) => false,
    }
}

/// `value` without what is `sensitive` in it.
fn without_secrets(value: &Json, sensitive: &Json, masked: &dyn Fn(&str) -> String) -> Json {
    let null = &Json::Null;
    match (value, sensitive) {
        (Json::Null, _) => Json::Null,
        (_, Json::Bool(true)) => Json::String(HIDDEN.to_owned()),
        (Json::Object(members), _) => {
            let mark = |key: &String| {
                if let Json::Object(marks) = sensitive { marks.get(key) } else { None }
            };
            let part = |(key, value): (&String, &Json)| {
                (masked(key), without_secrets(value, mark(key).unwrap_or(null), masked))
            };
            Json::Object(members.iter().map(part).collect())
        }
        (Json::Array(items), _) => {
            let mark =
                |at: usize| if let Json::Array(marks) = sensitive { marks.get(at) } else { None };
            let part = |(at, value)| without_secrets(value, mark(at).unwrap_or(null), masked);
            Json::Array(items.iter().enumerate().map(part).collect())
        }
        (Json::String(text), _) => Json::String(short(masked(text))),
        (Json::Number(number), _) => {
            let shown = masked(number.as_str());
            if shown == number.as_str() { value.clone() } else { Json::String(shown) }
        }
        (Json::Bool(_), _) => value.clone(),
    }
}

fn short(text: String) -> String {
    if text.len() <= MAX_TEXT {
        return text;
    }
    let end = text.floor_char_boundary(MAX_TEXT);
    let digest = hex::encode(&Sha256::digest(&text)[..6]);
    // Two long texts may differ only behind what is shown.
    format!("{}... ({} bytes in all, SHA-256 {digest})", &text[..end], text.len())
}

/// The path of the member `key` of what is at `path`.
fn member(path: &str, key: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    let is_name =
        key.bytes().all(is_plain) && key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match (path.is_empty(), is_name) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{key:?}]"),
    }
}

/// A path as OpenTofu lists it: names, and positions in lists.
fn path_of(steps: &Json) -> String {
    let Json::Array(steps) = steps else { return String::new() };
    steps.iter().fold(String::new(), |path, step| match step {
        Json::String(key) => member(&path, key),
        Json::Number(at) => format!("{path}[{}]", at.as_str()),
        _ => path,
    })
}

/// Whether `path` is at `outer`, or below it.
fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
