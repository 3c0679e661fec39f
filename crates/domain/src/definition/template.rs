//! The driver `humanitec/template`: outputs from templates, as far as definitions of kind `config` need it.
//!
//! `values.templates.outputs` and `.secrets` are objects, or texts of YAML. `{{ .driver.values.NAME }}`, `{{ .driver.secrets.NAME }}`
//! and `{{ .resource.NAME }}` in them stand for the driver's inputs and the resource's. A text that is one of these becomes the value,
//! of any JSON type.

use super::evaluation::spend;
use super::secrets::{self, Leaf};
use crate::field_error::FieldErrors;
use crate::yaml;
use serde_json::{Map, Value};

/// What a template can refer to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data<'a> {
    /// The values of the driver.
    pub(super) values: &'a Map<String, Value>,
    /// Its secrets.
    pub(super) secrets: &'a Map<String, Value>,
    /// The inputs of the resource.
    pub(super) inputs: &'a Map<String, Value>,
}

/// The faults of `values`.
pub(super) fn check(values: &Map<String, Value>) -> FieldErrors {
    let mut faults = FieldErrors::default();
    let Some(Value::Object(templates)) = values.get("templates") else {
        faults.add("templates", "is required, and must be an object");
        return faults;
    };
    for (name, template) in templates {
        let path = format!("templates.{}", name.chars().take(80).collect::<String>());
        match (name.as_str(), template) {
            ("outputs" | "secrets", Value::Object(_) | Value::String(_)) => {
                let mut texts = template.clone();
                let mut note =
                    |at: &str, text: &mut Value| -> Result<(), std::convert::Infallible> {
                        if let Err(reason) = split(text.as_str().unwrap_or_default()) {
                            faults.add(format!("{path}{at}"), reason);
                        }
                        Ok(())
                    };
                let Ok(()) = super::placeholder::each_text(&mut texts, "", &mut note);
            }
            ("outputs" | "secrets", _) => faults.add(path, "must be an object, or a text of YAML"),
            _ => faults.add(path, "is not supported; there are `outputs` and `secrets`"),
        }
    }
    faults
}

/// The object that the template `name` makes; its fields stand for at most `left` bytes.
///
/// # Errors
///
/// Why it makes none; it continues a sentence after the path.
pub(super) fn render(
    name: &str,
    data: Data<'_>,
    left: &mut usize,
) -> Result<Map<String, Value>, String> {
    let templates = data.values.get("templates").and_then(Value::as_object);
    let made = match templates.and_then(|templates| templates.get(name)) {
        None => Value::Null,
        Some(Value::String(text)) => {
            let text = text_of(text, data, left)?;
            // An output can be a secret, and the error of the YAML does not repeat it.
            yaml::parse(&text, "template").map_err(|error| format!("makes no YAML: {error}"))?
        }
        Some(other) => rendered(other, data, left)?,
    };
    match made {
        Value::Object(members) => Ok(members),
        Value::Null => Ok(Map::new()),
        _ => Err("makes no object".to_owned()),
    }
}

fn rendered(value: &Value, data: Data<'_>, left: &mut usize) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => match split(text)?.as_slice() {
            [Piece::Field(path)] => field(path, data, left)?,
            _ => Value::String(text_of(text, data, left)?),
        },
        Value::Array(items) => {
            let items: Result<_, _> = items.iter().map(|item| rendered(item, data, left)).collect();
            Value::Array(items?)
        }
        Value::Object(members) => {
            let render = |(name, member): (&String, &Value)| {
                Ok((name.clone(), rendered(member, data, left)?))
            };
            Value::Object(members.iter().map(render).collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

fn text_of(text: &str, data: Data<'_>, left: &mut usize) -> Result<String, String> {
    let write = |piece: Piece<'_>| {
        Ok(match piece {
            Piece::Text(text) => text.to_owned(),
            Piece::Field(path) => match field(path, data, left)? {
                Value::String(text) => text,
                other => other.to_string(),
            },
        })
    };
    split(text)?.into_iter().map(write).collect()
}

/// `text` with a word in place of each field: YAML that can be read before the fields are known.
pub(super) fn without_fields(text: &str) -> String {
    let pieces = split(text).unwrap_or_else(|_| vec![Piece::Text(text)]);
    let write = |piece| match piece {
        Piece::Text(text) => text,
        Piece::Field(_) => "field",
    };
    pieces.into_iter().map(write).collect()
}

enum Piece<'t> {
    Text(&'t str),
    Field(&'t str),
}

const FIELDS: [&str; 3] = [".driver.values.", ".driver.secrets.", ".resource."];

fn split(mut text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    while let Some((before, rest)) = text.split_once("{{") {
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        let (inner, after) = rest.split_once("}}").ok_or("has `{{` without its `}}`")?;
        let path = inner.trim();
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
        };
        let names = FIELDS.iter().find_map(|field| path.strip_prefix(field));
        if !names.is_some_and(|names| names.split('.').all(is_name)) {
            let shown: String = path.chars().take(80).collect();
            return Err(format!(
                "has `{{{{ {shown} }}}}`, which is not supported; there are `.driver.values.NAME`, `.driver.secrets.NAME` and \
                 `.resource.NAME`"
            ));
        }
        pieces.push(Piece::Field(path));
        text = after;
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

fn field(path: &str, data: Data<'_>, left: &mut usize) -> Result<Value, String> {
    let found = found(path, data)?;
    spend(left, &found)?;
    Ok(found)
}

fn found(path: &str, data: Data<'_>) -> Result<Value, String> {
    let missing = || format!("refers to `{path}`, which is not there");
    let [values, secret, resource] = FIELDS;
    if let Some(names) = path.strip_prefix(secret) {
        let names: Vec<_> = names.split('.').collect();
        let found = secrets::at(data.secrets, &names).and_then(Value::as_object);
        return match found.and_then(secrets::leaf) {
            Some(Leaf::Value(text)) => Ok(Value::String(text.to_owned())),
            Some(Leaf::Sealed(_) | Leaf::Reference) => Err(format!(
                "refers to `{path}`, which only a job can read: it is in a secret store"
            )),
            None => Err(missing()),
        };
    }
    let (tree, names) = match (path.strip_prefix(values), path.strip_prefix(resource)) {
        (Some(names), _) => (data.values, names),
        (None, Some(names)) => (data.inputs, names),
        (None, None) => return Err(missing()),
    };
    let names: Vec<_> = names.split('.').collect();
    secrets::at(tree, &names).cloned().ok_or_else(missing)
}
