//! Reads a JSON object field by field, and notes every fault instead of stopping at the first.
//!
//! serde stops at the first fault, and loses the path inside an enum that is tagged by `type`. Here a faulty
//! field yields a placeholder and the reading continues; the caller discards the result if a fault was noted.

mod maps;

use super::schema::{self, Properties};
use super::shape::Shape;
use super::string_enum::{OneOf, listed};
use crate::field_error::{FieldErrors, join, shown};
use secrecy::SecretString;
use serde_json::{Map, Value};
use std::{fmt::Display, ops::RangeInclusive, str::FromStr};

type Names = &'static [&'static str];

/// An object being read. Fields that were not read by the end are faults.
pub(crate) struct Fields<'e> {
    path: String,
    given: Map<String, Value>,
    known: Vec<&'static str>,
    errors: &'e mut FieldErrors,
    /// The documentation of the field that is read next.
    about: &'static str,
    /// The fields, if their reader is being described.
    described: Option<Properties>,
    /// Fields that the reader of this object shares with others, and that this object does not have.
    hidden: Names,
    /// Fields that this object requires, and that others with its reader do not.
    demanded: Names,
}

impl<'e> Fields<'e> {
    fn new(given: Map<String, Value>, path: &str, errors: &'e mut FieldErrors) -> Self {
        let (path, known, described) = (path.to_owned(), Vec::new(), None);
        Self { path, given, known, errors, about: "", described, hidden: &[], demanded: &[] }
    }

    /// An object without fields that records what a reader asks for.
    pub(super) fn describing(errors: &'e mut FieldErrors) -> Self {
        Self { described: Some(Properties::default()), ..Self::new(Map::new(), "", errors) }
    }

    pub(super) fn into_properties(self) -> Properties {
        self.described.unwrap_or_default()
    }
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
        let mut fields = Fields::new(given, path, errors);
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
        if self.hidden.contains(&name) {
            return None;
        }
        if self.demanded.contains(&name) {
            self.note_required(name, self.has(name));
        }
        self.known.push(name);
        self.given.remove(name).filter(|value| !value.is_null())
    }

    /// Documents the field that is read next.
    pub(crate) fn about(&mut self, text: &'static str) -> &mut Self {
        self.about = text;
        self
    }

    /// Records the field `name`, if the reader is being described.
    fn note(&mut self, name: &'static str, schema: impl FnOnce() -> Value) {
        let about = std::mem::take(&mut self.about);
        if let Some(properties) = &mut self.described
            && !self.hidden.contains(&name)
        {
            properties.add(name, schema(), about);
        }
    }

    fn required<T: Default>(&mut self, name: &'static str, found: Option<T>, given: bool) -> T {
        self.note_required(name, given);
        found.unwrap_or_default()
    }

    fn note_required(&mut self, name: &'static str, given: bool) {
        if let Some(properties) = &mut self.described {
            properties.require(name);
        }
        if !given {
            self.fault(name, "is required");
        }
    }

    /// Adapts a reader that several objects share: this one has no `hidden` fields, and requires the `demanded` ones.
    pub(crate) fn adapt(&mut self, hidden: Names, demanded: Names) {
        (self.hidden, self.demanded) = (hidden, demanded);
    }

    /// Whether a fault inside the field `name` was noted.
    pub(crate) fn is_faulty(&self, name: &str) -> bool {
        self.errors.iter().any(|error| error.path.starts_with(&join(&self.path, name)))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.given.get(name).is_some_and(|value| !value.is_null())
    }

    pub(crate) fn text(&mut self, name: &'static str, shape: &Shape) -> Option<String> {
        self.note(name, || schema::text(shape));
        let value = self.take(name)?;
        self.shaped(name, value, shape)
    }

    pub(crate) fn text_or_empty(&mut self, name: &'static str, shape: &Shape) -> String {
        self.text(name, shape).unwrap_or_default()
    }

    pub(crate) fn required_text(&mut self, name: &'static str, shape: &Shape) -> String {
        let given = self.has(name);
        let found = self.text(name, shape);
        self.required(name, found, given)
    }

    pub(crate) fn secret(&mut self, name: &'static str, shape: &Shape) -> Option<SecretString> {
        self.note(name, || schema::secret(shape));
        let value = self.take(name)?;
        self.shaped(name, value, shape).map(SecretString::from)
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
                if shape.accepts_as_published(&text) {
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

    pub(crate) fn parsed<T: FromStr<Err: Display>>(
        &mut self,
        name: &'static str,
        shape: &Shape,
    ) -> Option<T> {
        let text = self.text(name, shape)?;
        text.parse().map_err(|error: T::Err| self.fault(name, error.to_string())).ok()
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> Option<bool> {
        self.note(name, schema::flag);
        let value = self.take(name)?;
        if value.as_bool().is_none() {
            self.wrong(name, "true or false", &value);
        }
        value.as_bool()
    }

    pub(crate) fn number(&mut self, name: &'static str, range: RangeInclusive<u32>) -> Option<u32> {
        self.note(name, || schema::number(&range));
        let value = self.take(name)?;
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        let fits = number.filter(|number| range.contains(number));
        if fits.is_none() {
            let (least, most) = (range.start(), range.end());
            self.fault(name, format!("must be a whole number from {least} to {most}"));
        }
        fits
    }

    pub(crate) fn one_of<T: OneOf>(&mut self, name: &'static str) -> Option<T> {
        self.note(name, || schema::one_text_of(T::TEXTS));
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

    pub(crate) fn required_one_of<T: OneOf + Default>(&mut self, name: &'static str) -> T {
        let given = self.has(name);
        let found = self.one_of(name);
        self.required(name, found, given)
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
        self.note(name, || schema::list(count, &schema::text(shape)));
        let items = self.list(name, count)?;
        Some(items.into_iter().filter_map(|(at, item)| self.shaped(&at, item, shape)).collect())
    }

    pub(crate) fn texts_or_empty(
        &mut self,
        name: &'static str,
        count: &RangeInclusive<usize>,
        shape: &Shape,
    ) -> Vec<String> {
        self.texts(name, count, shape).unwrap_or_default()
    }

    pub(crate) fn objects<T>(
        &mut self,
        name: &'static str,
        count: &RangeInclusive<usize>,
        read: impl Fn(&mut Fields) -> T,
    ) -> Option<Vec<T>> {
        self.note(name, || schema::list(count, &Fields::describe(&read)));
        let items = self.list(name, count)?;
        let path = self.path.clone();
        let read =
            |(at, item): (String, Value)| Fields::read(item, &join(&path, &at), self.errors, &read);
        Some(items.into_iter().filter_map(read).collect())
    }

    /// An object with any content.
    pub(crate) fn free_object(&mut self, name: &'static str) -> Option<Map<String, Value>> {
        self.note(name, schema::free_object);
        self.any_object(name)
    }

    fn any_object(&mut self, name: &'static str) -> Option<Map<String, Value>> {
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
        if self.described.is_some() {
            self.note(name, || Fields::describe(read));
            return None;
        }
        let value = self.take(name)?;
        Fields::read(value, &join(&self.path, name), self.errors, read)
    }

    /// As [`Self::object`]; `read` returns `None` with at least one fault noted.
    pub(crate) fn object_or_fault<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Fields) -> Option<T>,
    ) -> Option<T> {
        self.object(name, read).flatten()
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
