//! Event patterns, as `EventBridge` rules and Lambda's event filters use them.
//!
//! "The exists operator only works on leaf nodes"; an exact match compares numbers as text ("300, 300.0,
//! and 3.0e2 are not considered equal"); several fields mean and, several values mean or. An unknown
//! element is an error when the pattern is parsed: a filter that silently matched nothing would look like
//! a quiet stream. (`EventBridge` user guide, "Comparison operators for use in event patterns"; Lambda
//! developer guide, "Control which events Lambda sends to your function".)

use crate::wildcard;
use serde_json::{Map, Number, Value};
use std::collections::BTreeMap;

/// A parsed and valid pattern.
#[derive(Clone, Debug)]
pub struct Pattern(Node);

#[derive(Clone, Debug)]
struct Node {
    fields: BTreeMap<String, Field>,
    /// One of each list must match too.
    either: Vec<Node>,
}

#[derive(Clone, Debug)]
enum Field {
    Inner(Node),
    Leaf(Vec<Test>),
}

#[derive(Clone, Debug)]
enum Test {
    Equals(Value),
    Text(Text),
    Not(Vec<Test>),
    Numeric(Vec<(String, f64)>),
    Exists(bool),
}

#[derive(Clone, Debug)]
enum Text {
    Prefix(String),
    PrefixAnyCase(String),
    Suffix(String),
    SuffixAnyCase(String),
    AnyCase(String),
    Wildcard(String),
}

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// If an element is unknown; the error names it.
    pub fn read(pattern: &Value) -> Result<Self, String> {
        let Value::Object(fields) = pattern else {
            return Err(format!("an event pattern is an object, not {pattern}"));
        };
        read_node(fields).map(Self)
    }

    /// Parses a pattern from its JSON text.
    ///
    /// # Errors
    /// If an element is unknown; the error names it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value = serde_json::from_str(text).map_err(|error| format!("`{text}`: {error}"))?;
        Self::read(&value)
    }

    /// Whether the pattern matches this event.
    pub fn matches(&self, event: &Value) -> bool {
        node_matches(&self.0, event)
    }
}

fn read_node(fields: &Map<String, Value>) -> Result<Node, String> {
    if fields.is_empty() {
        return Err("an event pattern names at least one field".to_owned());
    }
    let mut node = Node { fields: BTreeMap::new(), either: Vec::new() };
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("$or", Value::Array(choices)) => {
                for choice in choices {
                    let Pattern(inner) = Pattern::read(choice)?;
                    node.either.push(inner);
                }
            }
            (_, Value::Object(inner)) => {
                node.fields.insert(name.clone(), Field::Inner(read_node(inner)?));
            }
            (_, Value::Array(tests)) if !tests.is_empty() => {
                let tests = tests.iter().map(read_test).collect::<Result<_, _>>();
                let tests = tests.map_err(|error| format!("`{name}`: {error}"))?;
                node.fields.insert(name.clone(), Field::Leaf(tests));
            }
            _ => return Err(format!("`{name}`: a list of values or an object, not {value}")),
        }
    }
    Ok(node)
}

fn read_test(test: &Value) -> Result<Test, String> {
    let Value::Object(operator) = test else {
        return match test {
            Value::Array(_) => Err(format!("no list within a list: {test}")),
            _ => Ok(Test::Equals(test.clone())),
        };
    };
    let mut operators = operator.iter();
    let (Some((name, value)), None) = (operators.next(), operators.next()) else {
        return Err(format!("one operator, not {test}"));
    };
    match (name.as_str(), value) {
        ("exists", Value::Bool(exists)) => Ok(Test::Exists(*exists)),
        ("anything-but", Value::Array(values)) if !values.is_empty() => {
            values.iter().map(read_test).collect::<Result<_, _>>().map(Test::Not)
        }
        ("anything-but", Value::Object(inner)) => match inner.iter().next() {
            // A list inside means: none of these.
            Some((name, Value::Array(values))) => values
                .iter()
                .map(|value| read_text(name, value))
                .collect::<Result<_, _>>()
                .map(Test::Not),
            _ => read_test(value).map(|test| Test::Not(vec![test])),
        },
        ("anything-but", Value::String(_) | Value::Number(_) | Value::Bool(_)) => {
            Ok(Test::Not(vec![Test::Equals(value.clone())]))
        }
        ("numeric", Value::Array(bounds)) => read_bounds(bounds).map(Test::Numeric),
        _ => read_text(name, value),
    }
}

fn read_text(name: &str, value: &Value) -> Result<Test, String> {
    let any_case = value.get("equals-ignore-case").and_then(Value::as_str);
    let text = match (name, value.as_str(), any_case) {
        ("prefix", Some(text), _) => Text::Prefix(text.to_owned()),
        ("prefix", _, Some(text)) => Text::PrefixAnyCase(text.to_lowercase()),
        ("suffix", Some(text), _) => Text::Suffix(text.to_owned()),
        ("suffix", _, Some(text)) => Text::SuffixAnyCase(text.to_lowercase()),
        ("equals-ignore-case", Some(text), _) => Text::AnyCase(text.to_lowercase()),
        ("wildcard", Some(text), _) => Text::Wildcard(text.to_owned()),
        _ => return Err(format!("this operator is not known here: {{\"{name}\": {value}}}")),
    };
    Ok(Test::Text(text))
}

fn read_bounds(bounds: &[Value]) -> Result<Vec<(String, f64)>, String> {
    let wrong = || format!("`numeric` is a list of operator and number: {bounds:?}");
    let mut read = Vec::new();
    for pair in bounds.chunks(2) {
        let [Value::String(operator), Value::Number(bound)] = pair else { return Err(wrong()) };
        if !matches!(operator.as_str(), "=" | "<" | "<=" | ">" | ">=") {
            return Err(wrong());
        }
        read.push((operator.clone(), bound.as_f64().ok_or_else(wrong)?));
    }
    if read.is_empty() { Err(wrong()) } else { Ok(read) }
}

fn node_matches(node: &Node, event: &Value) -> bool {
    // An array of objects matches if one of them does.
    if let Value::Array(events) = event {
        return events.iter().any(|event| node_matches(node, event));
    }
    let all = node.fields.iter().all(|(name, field)| {
        let found = event.get(name);
        match field {
            Field::Inner(inner) => node_matches(inner, found.unwrap_or(&Value::Null)),
            Field::Leaf(tests) => tests.iter().any(|test| leaf_matches(test, found)),
        }
    });
    all && (node.either.is_empty() || node.either.iter().any(|inner| node_matches(inner, event)))
}

fn leaf_matches(test: &Test, found: Option<&Value>) -> bool {
    match (test, found) {
        (Test::Exists(wanted), None | Some(Value::Object(_))) => !wanted,
        (Test::Exists(wanted), Some(_)) => *wanted,
        (_, None | Some(Value::Object(_))) => false,
        (_, Some(Value::Array(many))) => many.iter().any(|one| value_matches(test, one)),
        (_, Some(one)) => value_matches(test, one),
    }
}

fn value_matches(test: &Test, found: &Value) -> bool {
    match test {
        Test::Equals(wanted) => wanted == found,
        Test::Text(wanted) => found.as_str().is_some_and(|found| text_matches(wanted, found)),
        Test::Not(tests) => !tests.iter().any(|test| value_matches(test, found)),
        // A number in a string is a string: DynamoDB's numbers cannot be compared this way.
        Test::Numeric(bounds) => {
            found.as_number().and_then(Number::as_f64).is_some_and(|found| within(bounds, found))
        }
        Test::Exists(wanted) => *wanted,
    }
}

fn text_matches(text: &Text, value: &str) -> bool {
    match text {
        Text::Prefix(start) => value.starts_with(start),
        Text::PrefixAnyCase(start) => value.to_lowercase().starts_with(start),
        Text::Suffix(end) => value.ends_with(end),
        Text::SuffixAnyCase(end) => value.to_lowercase().ends_with(end),
        Text::AnyCase(whole) => value.to_lowercase() == *whole,
        Text::Wildcard(pattern) => wildcard::stars_match(pattern, value),
    }
}

fn within(bounds: &[(String, f64)], value: f64) -> bool {
    bounds.iter().all(|(operator, bound)| match operator.as_str() {
        "<" => value < *bound,
        "<=" => value <= *bound,
        ">" => value > *bound,
        ">=" => value >= *bound,
        _ => value.total_cmp(bound).is_eq(),
    })
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
