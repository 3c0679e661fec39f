//! The properties that a reader reads, as JSON Schema (2020-12, which OpenAPI 3.1 uses).
//!
//! The schema is recorded by the reader itself: [`Fields::describe`] calls it with an object that is empty. So the
//! document describes exactly the properties that the parser knows.

use super::fields::Fields;
use super::shape::Shape;
use crate::field_error::FieldErrors;
use serde_json::{Map, Value, json};
use std::ops::RangeInclusive;

/// The properties of one object, as its reader asks for them.
#[derive(Debug, Default)]
pub(crate) struct Properties {
    found: Map<String, Value>,
    required: Vec<&'static str>,
}

impl Properties {
    /// Adds the property `name` with the schema of its values and the text of its documentation.
    pub(super) fn add(&mut self, name: &str, mut schema: Value, about: &str) {
        let rule = schema["description"].as_str().map(|rule| format!("Must be {rule}."));
        let texts = [Some(about.trim().to_owned()), rule];
        let text: Vec<_> = texts.into_iter().flatten().filter(|text| !text.is_empty()).collect();
        if !text.is_empty() {
            schema["description"] = text.join(" ").into();
        }
        self.found.insert(name.to_owned(), schema);
    }

    pub(super) fn require(&mut self, name: &'static str) {
        self.required.push(name);
    }

    fn into_schema(mut self) -> Value {
        for (name, schema) in &mut self.found {
            // The parser treats `null` as absent.
            if !self.required.contains(&name.as_str()) {
                schema["type"] = json!([schema["type"].take(), "null"]);
                if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
                    values.push(Value::Null);
                }
            }
        }
        let mut schema = json!({
            "type": "object", "properties": self.found, "additionalProperties": false,
        });
        if !self.required.is_empty() {
            schema["required"] = json!(self.required);
        }
        schema
    }
}

impl Fields<'_> {
    /// The schema of the objects that `read` accepts, without rules that concern several properties.
    pub(crate) fn describe<T>(read: impl FnOnce(&mut Fields) -> T) -> Value {
        let mut errors = FieldErrors::default();
        let mut fields = Fields::describing(&mut errors);
        read(&mut fields);
        fields.into_properties().into_schema()
    }
}

/// One of several types, which the property `type` tells apart.
pub(crate) struct TypeSchema {
    /// The value of `type`.
    pub(crate) name: &'static str,
    /// The documentation of the type.
    pub(crate) about: &'static str,
    /// Its other properties.
    pub(crate) properties: Value,
}

/// The schema of an object that is of one of `types`.
pub(crate) fn one_of(types: impl IntoIterator<Item = TypeSchema>) -> Value {
    let described = types.into_iter().map(|TypeSchema { name, about, mut properties }| {
        properties["title"] = name.into();
        properties["description"] = about.trim().into();
        properties["properties"]["type"] = json!({ "type": "string", "enum": [name] });
        let required = properties["required"].as_array().cloned().unwrap_or_default();
        properties["required"] = std::iter::once("type".into()).chain(required).collect();
        properties
    });
    json!({ "oneOf": described.collect::<Vec<_>>() })
}

pub(super) fn text(shape: &Shape) -> Value {
    let mut schema = json!({ "type": "string", "description": shape.rule });
    if shape.published.is_none() {
        schema["maxLength"] = shape.max.into();
    }
    if let Some(format) = shape.format {
        schema["format"] = format.into();
    }
    schema
}

pub(super) fn secret(shape: &Shape) -> Value {
    let mut schema = text(shape);
    schema["writeOnly"] = true.into();
    schema["format"] = "password".into();
    schema
}

pub(super) fn flag() -> Value {
    json!({ "type": "boolean" })
}

pub(super) fn number(range: &RangeInclusive<u32>) -> Value {
    json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() })
}

pub(super) fn one_text_of(texts: &[&str]) -> Value {
    json!({ "type": "string", "enum": texts })
}

pub(super) fn list(count: &RangeInclusive<usize>, items: &Value) -> Value {
    json!({ "type": "array", "items": items, "minItems": count.start(), "maxItems": count.end() })
}

pub(super) fn map(most: usize, key: &Shape, entry: &Value) -> Value {
    json!({
        "type": "object", "propertyNames": text(key), "additionalProperties": entry,
        "maxProperties": most,
    })
}

pub(super) fn free_object() -> Value {
    json!({ "type": "object" })
}

#[cfg(test)]
mod tests;
