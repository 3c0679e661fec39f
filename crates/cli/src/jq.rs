//! `--jq`: filters a result in JSON, in the language of jq, by the library jaq.

use crate::error::CliError;
use jaq_core::compile::Filter;
use jaq_core::data::JustLut;
use jaq_core::load::{Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Native, Vars, unwrap_valr};
use jaq_json::{Val, read};
use std::fmt::Write as _;

type Data = JustLut<Val>;

/// Checks `filter`, before a command sends anything.
///
/// # Errors
///
/// [`CliError::Usage`].
pub(crate) fn check(filter: &str) -> Result<(), CliError> {
    compile(filter).map(drop)
}

/// The results of `filter` for `json`, a line for each. A text is printed without quotes, as `gh` does.
///
/// # Errors
///
/// [`CliError::Usage`] if the filter fails.
pub(crate) fn apply(filter: &str, json: &str) -> Result<String, CliError> {
    let compiled = compile(filter)?;
    let failed = |reason: String| CliError::usage(format!("--jq `{filter}` fails: {reason}"));
    let input = read::parse_single(json.as_bytes()).map_err(|error| failed(error.to_string()))?;
    let context = Ctx::<Data>::new(&compiled.lut, Vars::new([]));
    let mut text = String::new();
    for result in compiled.id.run((context, input)).map(unwrap_valr) {
        let line = match result.map_err(|error| failed(error.to_string()))? {
            Val::TStr(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            other => other.to_string(),
        };
        let _ = writeln!(text, "{line}");
    }
    Ok(text)
}

fn compile(filter: &str) -> Result<Filter<Native<Data>>, CliError> {
    let refused = |reason: String| {
        CliError::usage_with_hint(
            format!("--jq `{filter}` is not a filter: {reason}"),
            "write it in the language of jq, such as `.[].id`",
        )
    };
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let functions = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    let arena = Arena::default();
    let modules = Loader::new(definitions)
        .load(&arena, File { code: filter, path: () })
        .map_err(|_| refused("its syntax is wrong".to_owned()))?;
    Compiler::default().with_funs(functions).compile(modules).map_err(|errors| {
        let undefined =
            errors.iter().flat_map(|(_, errors)| errors).map(|(name, _)| format!("`{name}`"));
        refused(format!("nothing is named {}", undefined.collect::<Vec<_>>().join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_prints_text_without_quotes_and_every_digit() {
        let json = r#"{"a": [{"id": "x"}, {"id": "y"}], "n": 18446744073709551617, "f": 0.10}"#;
        for (filter, expected) in [
            (".a[].id", "x\ny\n"),
            (".a | length", "2\n"),
            (".n", "18446744073709551617\n"),
            (".f", "0.10\n"),
            (".a[0]", "{\"id\":\"x\"}\n"),
            (".missing", "null\n"),
            (".a[] | select(.id == \"z\")", ""),
            ("[.a[].id] | join(\" \")", "x y\n"),
        ] {
            assert_eq!(apply(filter, json).unwrap(), expected, "{filter}");
        }
    }

    #[test]
    fn a_faulty_filter_is_refused_before_it_is_needed() {
        let reason = |filter: &str| check(filter).unwrap_err().to_string();
        insta::assert_snapshot!(reason(".["), @"--jq `.[` is not a filter: its syntax is wrong");
        insta::assert_snapshot!(reason("lenght"), @"--jq `lenght` is not a filter: nothing is named `lenght`");
        let fails = apply(".a", "[1]").unwrap_err().to_string();
        assert!(fails.starts_with("--jq `.a` fails: "), "{fails}");
    }
}
