//! `${…}` in the texts of a definition: references to the run, and to the outputs of other resources.
//!
//! | text | stands for |
//! |---|---|
//! | `${context.app.id}`, `${context.env.id}`, `${context.org.id}`, … | what the run knows of itself |
//! | `${context.res.id}`, `${context.res.guresid}` | the resource: its id, and an id that no other resource has |
//! | `${resources['type.class#id'].outputs.KEY}` | an output of another resource; without class or id, those of this one |
//! | `${resources.TYPE.outputs.KEY}` | the same |
//! | `$\{` | the text `${` |
//!
//! A text that is one placeholder becomes the value that it stands for, of any JSON type. In other texts the value is written
//! as text.

use serde_json::{Map, Value};

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Text(String),
    /// `context.` and this key.
    Context(String),
    /// An output of a resource.
    Output(OutputReference),
}

/// A reference to an output of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputReference {
    /// Its type.
    pub resource_type: String,
    /// Its class, if it is given.
    pub class: Option<String>,
    /// Its id, if it is given.
    pub id: Option<String>,
    /// The output, and the members to follow in it.
    pub path: Vec<String>,
}

/// Why a text has no valid placeholders. The message has only the placeholder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceholderError {
    /// The end is missing.
    #[error("has a placeholder without its `}}`; write `$\\{{` for the text `${{`")]
    Unclosed,
    /// It is none that is known.
    #[error(
        "has the placeholder `${{{0}}}`, which is not known: there are `context.KEY` and `resources['TYPE.CLASS#ID'].outputs.KEY`; write \
         `$\\{{` for the text `${{`"
    )]
    Unknown(String),
    /// The context has no such key.
    #[error("has the placeholder `${{context.{0}}}`, which is not known: there are {keys}", keys = known_keys())]
    UnknownKey(String),
}

/// The keys of the context: those of the format, with what Canyon calls them.
const KEYS: [(&str, &str); 9] = [
    ("org.id", "org.id"),
    ("app.id", "project.id"),
    ("project.id", "project.id"),
    ("env.id", "env.id"),
    ("env.type", "env_type.id"),
    ("env_type.id", "env_type.id"),
    ("deploy.id", "deployment.id"),
    ("deployment.id", "deployment.id"),
    ("runner.id", "runner.id"),
];
/// The keys that are of the resource.
const RESOURCE_KEYS: [&str; 2] = ["res.id", "res.guresid"];

fn known_keys() -> String {
    let keys = KEYS.iter().map(|(key, _)| *key).chain(RESOURCE_KEYS);
    keys.map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}

/// What Canyon calls the key `key` of the context, unless it is of the resource.
pub fn canyons_key(key: &str) -> Option<&'static str> {
    KEYS.iter().find(|(known, _)| *known == key).map(|(_, ours)| *ours)
}

/// The parts of a text.
///
/// # Errors
///
/// [`PlaceholderError`] for the first placeholder that is none.
pub fn parse(text: &str) -> Result<Vec<Part>, PlaceholderError> {
    let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find('$') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("$\\{") {
            plain.push_str("${");
            rest = after;
        } else if let Some(inner) = rest.strip_prefix("${") {
            let (inner, after) = inner.split_once('}').ok_or(PlaceholderError::Unclosed)?;
            if !plain.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut plain)));
            }
            parts.push(reference(inner)?);
            rest = after;
        } else {
            plain.push('$');
            rest = &rest[1..];
        }
    }
    plain.push_str(rest);
    if !plain.is_empty() || parts.is_empty() {
        parts.push(Part::Text(plain));
    }
    Ok(parts)
}

fn reference(inner: &str) -> Result<Part, PlaceholderError> {
    let unknown = || PlaceholderError::Unknown(inner.chars().take(100).collect());
    if let Some(key) = inner.strip_prefix("context.") {
        return if canyons_key(key).is_some() || RESOURCE_KEYS.contains(&key) {
            Ok(Part::Context(key.to_owned()))
        } else {
            Err(PlaceholderError::UnknownKey(key.chars().take(100).collect()))
        };
    }
    let (name, path) = resource(inner).ok_or_else(unknown)?;
    let (what, id) = match name.split_once('#') {
        Some((what, id)) => (what, Some(id)),
        None => (name, None),
    };
    let (resource_type, class) = match what.split_once('.') {
        Some((resource_type, class)) => (resource_type, Some(class)),
        None => (what, None),
    };
    let path = path.strip_prefix("outputs.").ok_or_else(unknown)?;
    let path: Vec<_> = path.split('.').map(str::to_owned).collect();
    if resource_type.is_empty() || path.iter().any(String::is_empty) {
        return Err(unknown());
    }
    Ok(Part::Output(OutputReference {
        resource_type: resource_type.to_owned(),
        class: class.map(str::to_owned),
        id: id.map(str::to_owned),
        path,
    }))
}

/// The name of the resource in `resources['NAME'].REST` or `resources.NAME.REST`, and the rest.
fn resource(inner: &str) -> Option<(&str, &str)> {
    if let Some(rest) = inner.strip_prefix("resources.") {
        return rest.split_once('.');
    }
    let rest = inner.strip_prefix("resources[")?;
    let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
    let (name, rest) = rest[1..].split_once(quote)?;
    Some((name, rest.strip_prefix("].")?))
}

/// Calls `visit` with every text in `value`, and its path.
///
/// # Errors
///
/// The first error of `visit`.
pub fn each_text<E>(
    value: &mut Value,
    path: &str,
    visit: &mut dyn FnMut(&str, &mut Value) -> Result<(), E>,
) -> Result<(), E> {
    match value {
        Value::String(_) => visit(path, value),
        Value::Array(items) => {
            let mut items = items.iter_mut().enumerate();
            items.try_for_each(|(at, item)| each_text(item, &format!("{path}[{at}]"), visit))
        }
        Value::Object(members) => each_text_of(members, path, visit),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// The same for the members of an object.
///
/// # Errors
///
/// The first error of `visit`.
pub fn each_text_of<E>(
    members: &mut Map<String, Value>,
    path: &str,
    visit: &mut dyn FnMut(&str, &mut Value) -> Result<(), E>,
) -> Result<(), E> {
    members.iter_mut().try_for_each(|(name, member)| {
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        let shown: String = name.chars().take(80).collect();
        let at = if is_plain { format!(".{shown}") } else { format!("[{shown:?}]") };
        each_text(member, format!("{path}{at}").trim_start_matches('.'), visit)
    })
}
