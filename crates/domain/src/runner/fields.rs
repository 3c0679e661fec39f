//! Reads a JSON object field by field, and notes every fault instead of stopping at the first.
//!
//! serde stops at the first fault, and loses the path inside an enum that is tagged by `type`. Here a faulty
//! field yields a placeholder and the reading continues; the caller discards the result if a fault was noted.

use super::published;
use super::string_enum::{UnknownValue, listed};
use crate::field_error::{FieldErrors, join, shown};
use secrecy::SecretString;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, ops::RangeInclusive, str::FromStr};

/// The accepted values of a text field.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Completes the sentence "must be ...".
    pub(crate) rule: &'static str,
    /// Maximum number of characters.
    pub(crate) max: usize,
    /// Whether a text is accepted, apart from its length.
    pub(crate) fits: fn(&str) -> bool,
    /// Whether the published API accepts a text that `fits` refuses.
    pub(crate) published: fn(&str) -> bool,
}

impl Shape {
    /// Whether `text` is accepted.
    pub(crate) fn holds(&self, text: &str) -> bool {
        text.chars().count() <= self.max && (self.fits)(text)
    }

    /// The same for a field that the published API does not have.
    pub(crate) const fn strict(&self) -> Self {
        Self { rule: self.rule, max: self.max, fits: self.fits, published: published::nothing }
    }
}

/// Maximum length, in bytes, of a text whose length the published API does not limit. A definition is one
/// item of the table.
const MAX_PUBLISHED_LENGTH: usize = 65_536;

/// An object being read. Fields that were not read by the end are faults.
pub(crate) struct Fields<'e> {
    path: String,
    given: Map<String, Value>,
    known: Vec<&'static str>,
    errors: &'e mut FieldErrors,
}

impl Fields<'_> {
    /// Reads `value`, which is at `path`, with `read`.
    pub(crate) fn read<T>(
        value: Value,
        path: &str,
        errors: &mut FieldErrors,
        read: impl FnOnce(&mut Fields) -> T,
    ) -> Option<T> {
        let Value::Object(given) = value else {
            errors.add(path, format!("must be an object, not {}", kind(&value)));
            return None;
        };
        let mut fields = Fields { path: path.to_owned(), given, known: vec![], errors };
        let result = read(&mut fields);
        fields.refuse_unknown();
        Some(result)
    }

    fn refuse_unknown(self) {
        for name in self.given.keys() {
            let allowed = listed(&self.known);
            let path = join(&self.path, &shown(name));
            self.errors.add(path, format!("is not a known field; the fields here are {allowed}"));
        }
    }

    /// Notes a fault of the field `name`, or of the object itself if `name` is empty.
    pub(crate) fn fault(&mut self, name: &str, reason: impl Into<String>) {
        self.errors.add(join(&self.path, name), reason);
    }

    /// Notes that the field `name` cannot work, although the published API accepts it.
    pub(crate) fn warn(&mut self, name: &str, reason: impl Into<String>) {
        self.errors.warn(join(&self.path, name), reason);
    }

    /// Notes the faults and warnings that were found inside the field `name`.
    pub(crate) fn faults(&mut self, name: &str, faults: FieldErrors) {
        self.errors.add_under(&join(&self.path, name), faults);
    }

    fn wrong(&mut self, name: &str, wanted: &str, value: &Value) {
        self.fault(name, format!("must be {wanted}, not {}", kind(value)));
    }

    /// The raw field. `null`, the value of an empty YAML field, means absent.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.given.remove(name).filter(|value| !value.is_null())
    }

    fn required<T: Default>(&mut self, name: &'static str, found: Option<T>, given: bool) -> T {
        if !given {
            self.fault(name, "is required");
        }
        found.unwrap_or_default()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.get(name).is_some_and(|value| !value.is_null())
    }

    pub(crate) fn text(&mut self, name: &'static str, shape: &Shape) -> Option<String> {
        let value = self.take(name)?;
        self.shaped(name, value, shape)
    }

    pub(crate) fn required_text(&mut self, name: &'static str, shape: &Shape) -> String {
        let given = self.has(name);
        let found = self.text(name, shape);
        self.required(name, found, given)
    }

    pub(crate) fn secret(&mut self, name: &'static str, shape: &Shape) -> Option<SecretString> {
        self.text(name, shape).map(SecretString::from)
    }

    fn shaped(&mut self, name: &str, value: Value, shape: &Shape) -> Option<String> {
        match value {
            Value::String(text) => {
                let is_too_long = text.chars().count() > shape.max;
                if !is_too_long && (shape.fits)(&text) {
                    return Some(text);
                }
                let reason = if is_too_long {
                    format!("is too long: at most {} characters", shape.max)
                } else {
                    format!("must be {}", shape.rule)
                };
                if text.len() <= MAX_PUBLISHED_LENGTH && (shape.published)(&text) {
                    self.warn(name, reason);
                    return Some(text);
                }
                self.fault(name, reason);
                None
            }
            other => {
                self.wrong(name, "text", &other);
                None
            }
        }
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> Option<bool> {
        let value = self.take(name)?;
        if value.as_bool().is_none() {
            self.wrong(name, "true or false", &value);
        }
        value.as_bool()
    }

    pub(crate) fn number(&mut self, name: &'static str, range: RangeInclusive<u32>) -> Option<u32> {
        let value = self.take(name)?;
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        let fits = number.filter(|number| range.contains(number));
        if fits.is_none() {
            let (least, most) = (range.start(), range.end());
            self.fault(name, format!("must be a whole number from {least} to {most}"));
        }
        fits
    }

    pub(crate) fn one_of<T: FromStr<Err = UnknownValue>>(
        &mut self,
        name: &'static str,
    ) -> Option<T> {
        match self.take(name)? {
            Value::String(text) => match text.parse() {
                Ok(value) => Some(value),
                Err(unknown) => {
                    self.fault(name, unknown.to_string());
                    None
                }
            },
            other => {
                self.wrong(name, "text", &other);
                None
            }
        }
    }

    pub(crate) fn required_one_of<T: FromStr<Err = UnknownValue>>(
        &mut self,
        name: &'static str,
    ) -> Option<T> {
        if !self.has(name) {
            self.fault(name, "is required");
        }
        self.one_of(name)
    }

    fn list(
        &mut self,
        name: &'static str,
        count: &RangeInclusive<usize>,
    ) -> Option<Vec<(String, Value)>> {
        match self.take(name)? {
            Value::Array(items) if count.contains(&items.len()) => Some(
                items
                    .into_iter()
                    .enumerate()
                    .map(|(n, item)| (format!("{name}[{n}]"), item))
                    .collect(),
            ),
            Value::Array(_) => {
                let (least, most) = (count.start(), count.end());
                self.fault(name, format!("must have {least} to {most} entries"));
                None
            }
            other => {
                self.wrong(name, "a list", &other);
                None
            }
        }
    }

    pub(crate) fn texts(
        &mut self,
        name: &'static str,
        count: &RangeInclusive<usize>,
        shape: &Shape,
    ) -> Option<Vec<String>> {
        let items = self.list(name, count)?;
        Some(items.into_iter().filter_map(|(at, item)| self.shaped(&at, item, shape)).collect())
    }

    pub(crate) fn required_texts(
        &mut self,
        name: &'static str,
        count: &RangeInclusive<usize>,
        shape: &Shape,
    ) -> Vec<String> {
        let given = self.has(name);
        let found = self.texts(name, count, shape);
        self.required(name, found, given)
    }

    pub(crate) fn objects<T>(
        &mut self,
        name: &'static str,
        count: &RangeInclusive<usize>,
        read: impl Fn(&mut Fields) -> T,
    ) -> Option<Vec<T>> {
        let items = self.list(name, count)?;
        let path = self.path.clone();
        let read =
            |(at, item): (String, Value)| Fields::read(item, &join(&path, &at), self.errors, &read);
        Some(items.into_iter().filter_map(read).collect())
    }

    pub(crate) fn text_map(
        &mut self,
        name: &'static str,
        most: usize,
        key: &Shape,
        shape: &Shape,
    ) -> Option<BTreeMap<String, String>> {
        let map = self.free_object(name)?;
        if map.len() > most {
            self.fault(name, format!("must have at most {most} entries"));
            return None;
        }
        let mut read = BTreeMap::new();
        for (entry, value) in map {
            let at = join(name, &shown(&entry));
            if entry.chars().count() > key.max || !(key.fits)(&entry) {
                let reason = format!("has a name that cannot be used: it must be {}", key.rule);
                if entry.len() <= MAX_PUBLISHED_LENGTH && (key.published)(&entry) {
                    self.warn(&at, reason);
                } else {
                    self.fault(&at, reason);
                }
            }
            if let Some(text) = self.shaped(&at, value, shape) {
                read.insert(entry, text);
            }
        }
        Some(read)
    }

    /// An object with any content.
    pub(crate) fn free_object(&mut self, name: &'static str) -> Option<Map<String, Value>> {
        match self.take(name)? {
            Value::Object(map) => Some(map),
            other => {
                self.wrong(name, "an object", &other);
                None
            }
        }
    }

    pub(crate) fn object<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Fields) -> T,
    ) -> Option<T> {
        let value = self.take(name)?;
        Fields::read(value, &join(&self.path, name), self.errors, read)
    }

    pub(crate) fn required_object<T: Default>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Fields) -> T,
    ) -> T {
        let given = self.has(name);
        let found = self.object(name, read);
        self.required(name, found, given)
    }
}

/// The name of a value's type for messages, which do not repeat the value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Whether objects and lists in `value` nest deeper than `limit`.
pub(crate) fn nests_deeper_than(limit: usize, value: &Value) -> bool {
    let deeper = |inner| limit == 0 || nests_deeper_than(limit - 1, inner);
    match value {
        Value::Array(items) => limit == 0 || items.iter().any(deeper),
        Value::Object(map) => limit == 0 || map.values().any(deeper),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}
