//! Reads YAML: exactly the part of it that JSON can express.
//!
//! Requests are JSON; only some texts in them are YAML, as some files of the command line are. This module refuses the surprising and dangerous
//! parts of YAML, with their line: anchors and aliases (a few lines can stand for gigabytes,
//! CVE-2019-11253), merge keys, tags, duplicate keys, several documents, deep nesting. Plain scalars
//! follow the core schema of YAML 1.2 (10.3.2), in which `no` and `on` are text.

mod scalar;
mod tree;

pub use scalar::typed;
pub use tree::Tree;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput};
use std::collections::HashMap;

/// Deepest nesting; the server has the same limit for JSON.
const MAX_DEPTH: usize = 64;
const TOO_DEEP: &str = "nested more than 64 levels deep";
const ALIAS: &str = "an alias (`*name`); write the value out";

/// Why a text was refused, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}, line {line}, column {column}: {reason}")]
pub struct YamlError {
    /// The name of the file, or of another source of the text.
    pub origin: String,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1.
    pub column: usize,
    /// What is wrong; never the value, which may be a secret.
    pub reason: String,
}

/// Reads the one document in `text`; an empty one is null. `origin` names the text in errors.
///
/// # Errors
///
/// [`YamlError`] when the text is not YAML, or is YAML that this module refuses.
pub fn parse<T: Tree>(text: &str, origin: &str) -> Result<T, YamlError> {
    read(text, origin, Reader::document)
}

/// Reads every document in `text`, without the empty ones.
///
/// # Errors
///
/// As [`parse`].
pub fn parse_all<T: Tree>(text: &str, origin: &str) -> Result<Vec<T>, YamlError> {
    read(text, origin, Reader::documents)
}

fn read<'t, T>(
    text: &'t str,
    origin: &str,
    how: impl FnOnce(&mut Reader<'t>) -> Result<T, Fault>,
) -> Result<T, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader { parser: Parser::new_from_str(text) };
    how(&mut reader).map_err(|fault| YamlError {
        origin: origin.to_owned(),
        line: fault.at.line(),
        column: fault.at.col() + 1,
        reason: fault.reason,
    })
}

struct Fault {
    at: Marker,
    reason: String,
}

impl Fault {
    fn new(at: Marker, reason: impl Into<String>) -> Self {
        Self { at, reason: reason.into() }
    }
}

impl From<ScanError> for Fault {
    fn from(error: ScanError) -> Self {
        // `MAX_DEPTH` is below the parser's own limit, but the parser's scanner reads ahead and may reach it first.
        let reason = match error.info() {
            info if info.contains("unknown anchor") => ALIAS,
            info if info.contains("recursion limit") => TOO_DEEP,
            info => info,
        };
        Self::new(*error.marker(), reason)
    }
}

struct Reader<'t> {
    parser: Parser<'t, StrInput<'t>>,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Fault> {
        match self.parser.next_event() {
            Some(event) => Ok(event?),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn document<T: Tree>(&mut self) -> Result<T, Fault> {
        let mut value = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::DocumentStart(_) if value.is_some() => {
                    return Err(Fault::new(span.start, "a second document; give one per file"));
                }
                Event::StreamEnd => return Ok(value.unwrap_or_else(T::null)),
                Event::StreamStart
                | Event::DocumentStart(_)
                | Event::DocumentEnd
                | Event::Nothing => {}
                node => value = Some(self.node(node, span, 1)?),
            }
        }
    }

    fn documents<T: Tree>(&mut self) -> Result<Vec<T>, Fault> {
        let mut values = Vec::new();
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(values),
                Event::StreamStart
                | Event::DocumentStart(_)
                | Event::DocumentEnd
                | Event::Nothing => {}
                // What stands between two `---`.
                Event::Scalar(text, ScalarStyle::Plain, ..) if text.is_empty() => {}
                node => values.push(self.node(node, span, 1)?),
            }
        }
    }

    fn node<T: Tree>(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<T, Fault> {
        let at = span.start;
        let refused = match &event {
            Event::Alias(_) => Some(ALIAS),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if *anchor > 0 =>
            {
                Some("an anchor (`&name`); write the value out where it is needed")
            }
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => Some("a tag (`!name`); remove it"),
            _ if depth > MAX_DEPTH => Some(TOO_DEEP),
            _ => None,
        };
        if let Some(reason) = refused {
            return Err(Fault::new(at, reason));
        }
        match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => {
                scalar::typed(&text).map_err(|reason| Fault::new(at, reason))
            }
            Event::Scalar(text, ..) => Ok(T::text(text.into_owned())),
            Event::SequenceStart(..) => self.sequence(depth),
            Event::MappingStart(..) => self.mapping(depth),
            other => Err(Fault::new(at, format!("unexpected {other:?}"))),
        }
    }

    fn sequence<T: Tree>(&mut self, depth: usize) -> Result<T, Fault> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(T::list(items)),
                (event, span) => items.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn mapping<T: Tree>(&mut self, depth: usize) -> Result<T, Fault> {
        let mut members = Vec::new();
        let mut lines = HashMap::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(T::object(members));
            }
            let at = span.start;
            let key = key(event, at)?;
            if let Some(line) = lines.insert(key.clone(), at.line()) {
                let reason = format!("the key {key:?} is already used in line {line}");
                return Err(Fault::new(at, reason));
            }
            let (event, span) = self.next()?;
            members.push((key, self.node(event, span, depth + 1)?));
        }
    }
}

/// A key as text: JSON has no other keys, so `80:` and `no:` keep their spelling.
fn key(event: Event<'_>, at: Marker) -> Result<String, Fault> {
    match event {
        Event::Scalar(text, ScalarStyle::Plain, 0, None) if text == "<<" => {
            Err(Fault::new(at, "a merge key (`<<`); write the values out"))
        }
        Event::Scalar(text, _, 0, None) => Ok(text.into_owned()),
        Event::Alias(_) => Err(Fault::new(at, ALIAS)),
        Event::Scalar(..) => Err(Fault::new(at, "a key with an anchor or a tag; remove it")),
        _ => Err(Fault::new(at, "a key that is not text")),
    }
}

#[cfg(test)]
mod tests;
