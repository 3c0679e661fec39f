//! The payload of a target: the event, a part of it, a constant, or a text made from it.

use super::json_path;
use crate::stack::{InputTransformer, RuleTarget};
use serde_json::{Value, json};

/// Variables that need no path.
const RESERVED: [&str; 5] = [
    "aws.events.rule-arn",
    "aws.events.rule-name",
    "aws.events.event.ingestion-time",
    "aws.events.event",
    "aws.events.event.json",
];

#[derive(Clone, Debug)]
pub(super) enum Input {
    Event,
    Path(String),
    Constant(String),
    Template(InputTransformer),
}

/// The rule for which a text is made.
pub(super) struct Origin<'rule> {
    pub(super) rule_arn: &'rule str,
    pub(super) rule_name: &'rule str,
}

impl Input {
    pub(super) fn read(target: &RuleTarget) -> Result<Self, String> {
        let known = |path: &str| match json_path::steps(path) {
            Some(_) => Ok(()),
            None => Err(format!("`{path}` is no JSON path that is known here")),
        };
        match (&target.input, &target.input_path, &target.input_transformer) {
            (None, None, None) => Ok(Self::Event),
            (Some(constant), None, None) => Ok(Self::Constant(constant.clone())),
            (None, Some(path), None) => known(path).map(|()| Self::Path(path.clone())),
            (None, None, Some(transformer)) => {
                transformer.input_paths_map.values().try_for_each(|path| known(path))?;
                check_names(transformer)?;
                Ok(Self::Template(transformer.clone()))
            }
            _ => Err("a target has one of Input, InputPath and InputTransformer".to_owned()),
        }
    }

    pub(super) fn payload(&self, event: &Value, origin: &Origin<'_>) -> Vec<u8> {
        let text = match self {
            Self::Event => event.to_string(),
            Self::Path(path) => json_path::find(event, path).unwrap_or(&Value::Null).to_string(),
            Self::Constant(constant) => constant.clone(),
            Self::Template(transformer) => fill(transformer, event, origin),
        };
        text.into_bytes()
    }
}

/// Checks that each `<name>` of the template is known.
fn check_names(transformer: &InputTransformer) -> Result<(), String> {
    for part in transformer.input_template.split('<').skip(1) {
        let Some((name, _)) = part.split_once('>') else { continue };
        let known = transformer.input_paths_map.contains_key(name) || RESERVED.contains(&name);
        if !known {
            return Err(format!("its template uses <{name}>, which it does not define"));
        }
    }
    Ok(())
}

fn fill(transformer: &InputTransformer, event: &Value, origin: &Origin<'_>) -> String {
    let mut filled = String::new();
    let mut rest = transformer.input_template.as_str();
    // Inside a string of the template, a text has no quotes of its own.
    let mut quoted = false;
    while let Some(at) = rest.find(['<', '"', '\\']) {
        let (before, found) = rest.split_at(at);
        filled.push_str(before);
        if found.starts_with('\\') {
            let end = found.chars().take(2).map(char::len_utf8).sum();
            filled.push_str(&found[..end]);
            rest = &found[end..];
            continue;
        }
        if let Some(after) = found.strip_prefix('"') {
            quoted = !quoted;
            filled.push('"');
            rest = after;
            continue;
        }
        let Some((name, after)) = found[1..].split_once('>') else { break };
        filled.push_str(&written(&value(name, transformer, event, origin), quoted));
        rest = after;
    }
    filled.push_str(rest);
    filled
}

fn value(name: &str, transformer: &InputTransformer, event: &Value, origin: &Origin<'_>) -> Value {
    match name {
        "aws.events.rule-arn" => json!(origin.rule_arn),
        "aws.events.rule-name" => json!(origin.rule_name),
        "aws.events.event.ingestion-time" => event["time"].clone(),
        "aws.events.event.json" => event.clone(),
        "aws.events.event" => {
            let mut envelope = event.clone();
            envelope.as_object_mut().map(|members| members.remove("detail"));
            envelope
        }
        _ => {
            let path = transformer.input_paths_map.get(name).map_or("$", String::as_str);
            // "If a variable's path names nothing, that variable isn't created": it is empty.
            json_path::find(event, path).cloned().unwrap_or(Value::Null)
        }
    }
}

fn written(value: &Value, quoted: bool) -> String {
    match value {
        Value::Null if quoted => String::new(),
        Value::String(text) if quoted => {
            let escaped = json!(text).to_string();
            escaped[1..escaped.len() - 1].to_owned()
        }
        Value::Null => "\"\"".to_owned(),
        value => value.to_string(),
    }
}
