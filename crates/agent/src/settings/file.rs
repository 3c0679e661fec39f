//! The file of settings: YAML with one name and value in each line, and the settings of the jobs' platform below
//! `job_dispatcher_data`. Other features of YAML are refused, with the line.

use super::faults::Faults;
use super::layers::{Given, Layer};
use super::names::{DATA, NAMES};
use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use std::path::Path;

/// The most bytes of a file of settings.
const MAX_LENGTH: usize = 64 * 1024;

/// Reads the file at `path`.
pub fn read(path: &Path, faults: &mut Faults) -> Layer {
    let origin = format!("`{}`", path.display());
    match std::fs::read_to_string(path) {
        Ok(text) if text.len() > MAX_LENGTH => faults.add(&origin, "is too long for settings"),
        Ok(text) => return parse(&text, &origin, faults),
        Err(error) => faults.add(&origin, format!("cannot be read: {error}")),
    }
    Layer::default()
}

/// Reads `text`. `origin` names the file in messages.
pub fn parse(text: &str, origin: &str, faults: &mut Faults) -> Layer {
    let mut layer = Layer::default();
    let mut reader = Reader { parser: Parser::new_from_str(text), origin, faults };
    if let Some(Err((line, reason))) = reader.document(&mut layer) {
        faults.add(&format!("line {line} of {origin}"), reason);
    }
    layer
}

type Fault = (usize, String);

struct Reader<'t, 'o> {
    parser: Parser<'t, saphyr_parser::StrInput<'t>>,
    origin: &'o str,
    faults: &'o mut Faults,
}

impl<'t> Reader<'t, '_> {
    fn next(&mut self) -> Result<(Event<'t>, Span), Fault> {
        match self.parser.next_event() {
            Some(Ok(next)) => Ok(next),
            Some(Err(error)) => {
                Err((error.marker().line(), format!("is not valid YAML: {}", error.info())))
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn document(&mut self, layer: &mut Layer) -> Option<Result<(), Fault>> {
        loop {
            match self.next() {
                Ok((Event::StreamStart | Event::DocumentStart(_) | Event::Nothing, _)) => {}
                Ok((Event::MappingStart(0, None), _)) => return Some(self.mapping("", layer)),
                // An empty file, or one with only comments.
                Ok((Event::StreamEnd | Event::DocumentEnd, _)) => return None,
                Ok((Event::Scalar(text, ..), _)) if text.is_empty() || text == "~" => {}
                Ok((_, at)) => {
                    return Some(Err((at.start.line(), "is not a line NAME: VALUE".to_owned())));
                }
                Err(fault) => return Some(Err(fault)),
            }
        }
    }

    fn mapping(&mut self, prefix: &str, layer: &mut Layer) -> Result<(), Fault> {
        loop {
            let (key, at) = match self.next()? {
                (Event::MappingEnd, _) => return Ok(()),
                (Event::Scalar(key, _, 0, None), at) => (format!("{prefix}{key}"), at.start.line()),
                (_, at) => return Err((at.start.line(), "is not a line NAME: VALUE".to_owned())),
            };
            match self.next()? {
                (Event::MappingStart(0, None), _) if key == DATA => {
                    self.mapping(&format!("{DATA}."), layer)?;
                }
                (Event::Scalar(value, style, 0, None), _) => {
                    let is_null =
                        style == ScalarStyle::Plain && matches!(&*value, "" | "~" | "null");
                    if !is_null {
                        self.set(layer, &key, value.into_owned(), at)?;
                    }
                }
                (_, at) => {
                    let reason = "has a list, a map or an alias instead of a value";
                    return Err((at.start.line(), reason.to_owned()));
                }
            }
        }
    }

    fn set(&mut self, layer: &mut Layer, key: &str, value: String, at: usize) -> Result<(), Fault> {
        let origin = format!("`{key}` in {}", self.origin);
        let in_data = key.strip_prefix(DATA).is_some_and(|rest| rest.starts_with('.'));
        if !in_data && !NAMES.iter().any(|name| name.key == key) {
            self.faults.add(&origin, "is not a setting of the agent");
            return Ok(());
        }
        let before = layer.0.insert(key.to_owned(), Given { value, origin });
        if before.is_some() { Err((at, format!("sets `{key}` a second time"))) } else { Ok(()) }
    }
}
