//! `canyon create -f FILE`: resource definitions from files in their published format.

use crate::body::read_file_or_stdin;
use crate::error::CliError;
use crate::exit::Exit;
use crate::output::Output;
use canyon_api::client::Client;
use canyon_domain::definition::Definition;
use canyon_domain::yaml;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

const API_VERSION: &str = "entity.humanitec.io/v1b1";
const KIND: &str = "Definition";

/// Creates the definitions in `files`, in their order. Before the first one is created, all are read and checked.
pub(super) async fn create(
    files: &[PathBuf],
    client: &Client,
    output: Output,
) -> Result<Exit, CliError> {
    let mut bodies = Vec::new();
    for file in files {
        bodies.extend(read(file)?);
    }
    for body in bodies {
        let made = client.create(&["resources", "defs"], &body).await?;
        let id = made.get("id").and_then(Value::as_str).unwrap_or_default();
        output.notice(&format!("created resource definition `{id}`"));
    }
    Ok(Exit::Ok)
}

/// The bodies of the requests for the documents of a file.
fn read(file: &Path) -> Result<Vec<Value>, CliError> {
    let shown = file.display().to_string();
    let documents: Vec<Value> = yaml::parse_all(&read_file_or_stdin(file)?, &shown)?;
    if documents.is_empty() {
        return Err(CliError::usage(format!("`{shown}` has no resource definition")));
    }
    let body = |(index, document): (usize, Value)| {
        let wrong = |reason: String| {
            CliError::usage(format!("`{shown}`, document {}: {reason}", index + 1))
        };
        let body = body_of(document).map_err(wrong)?;
        Definition::parse(body.clone()).map_err(|faults| {
            let faults: Vec<_> = faults.iter().map(|fault| format!("\n  {fault}")).collect();
            wrong(format!("it is no resource definition{}", faults.concat()))
        })?;
        Ok(body)
    };
    documents.into_iter().enumerate().map(body).collect()
}

fn body_of(document: Value) -> Result<Value, String> {
    let Value::Object(mut document) = document else { return Err("it is no object".to_owned()) };
    for (field, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        match document.remove(field) {
            Some(Value::String(text)) if text == expected => {}
            Some(_) => return Err(format!("its `{field}` must be `{expected}`")),
            None => return Err(format!("it has no `{field}`; it must be `{expected}`")),
        }
    }
    let id = match document.remove("metadata") {
        Some(Value::Object(mut metadata)) => metadata.remove("id"),
        _ => None,
    };
    let id = id.ok_or("it has no `metadata.id`")?;
    let Some(Value::Object(entity)) = document.remove("entity") else {
        return Err("it has no object `entity`".to_owned());
    };
    if let Some(unknown) = document.keys().next() {
        return Err(format!(
            "`{unknown}` is not a known field; there are `apiVersion`, `kind`, `metadata` and `entity`"
        ));
    }
    let mut body = Map::from_iter([("id".to_owned(), id)]);
    body.extend(entity);
    Ok(Value::Object(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<Value>, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, text).unwrap();
        read(&file)
            .map_err(|error| error.to_string().replace(folder.path().to_str().unwrap(), "FOLDER"))
    }

    const ONE: &str = "apiVersion: entity.humanitec.io/v1b1\nkind: Definition\nmetadata:\n  id: dns-echo\nentity:\n  name: DNS\n  \
        type: dns\n  driver_type: humanitec/echo\n";

    #[test]
    fn a_file_has_one_or_many_definitions() {
        let both = format!("---\n{ONE}---\n{}", ONE.replace("dns-echo", "dns-other"));
        let ids: Vec<_> =
            read_text(&both).unwrap().into_iter().map(|body| body["id"].clone()).collect();
        assert_eq!(ids, ["dns-echo", "dns-other"]);
    }

    #[test]
    fn what_is_no_definition_is_named_with_its_document() {
        for (text, expected) in [
            (String::new(), "has no resource definition"),
            (
                ONE.replace("kind: Definition", "kind: Workload"),
                "document 1: its `kind` must be `Definition`",
            ),
            (ONE.replace("  id: dns-echo", "  name: x"), "document 1: it has no `metadata.id`"),
            (
                format!("{ONE}---\n{}", ONE.replace("type: dns", "type: DNS")),
                "document 2: it is no resource definition\n  `type` must be",
            ),
            (format!("{ONE}spec: 1\n"), "`spec` is not a known field"),
        ] {
            let message = read_text(&text).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
