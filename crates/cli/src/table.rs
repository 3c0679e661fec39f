//! Results for people: aligned columns, without colour or borders.

use serde_json::Value;

/// A table of several resources; `columns` are the names of their members.
pub(crate) fn list(items: &[Value], columns: &[&str]) -> String {
    let head = columns.iter().map(|column| column.to_uppercase()).collect();
    let row = |item: &Value| columns.iter().map(|column| cell(item.get(*column))).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(items.iter().map(row)).collect();
    align(&rows)
}

/// One resource: a line for each member, with its path.
pub(crate) fn resource(value: &Value) -> String {
    let mut rows = Vec::new();
    flatten("", value, &mut rows);
    align(&rows)
}

fn flatten(path: &str, value: &Value, rows: &mut Vec<Vec<String>>) {
    let below =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                flatten(&below(name), member, rows);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{path}[{index}]"), item, rows);
            }
        }
        other => rows.push(vec![printable(path), cell(Some(other))]),
    }
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) if text.is_empty() => "-".to_owned(),
        Some(Value::String(text)) => printable(text),
        Some(other) => printable(&other.to_string()),
    }
}

/// `text` without control characters, so that text from other systems cannot control the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}

/// Pads each column to its widest cell; the last one is not padded.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn columns_are_aligned_and_control_characters_are_replaced() {
        let items = [json!({"id": "a", "n": 1}), json!({"id": "longer", "x": "\u{1b}[31m"})];
        insta::assert_snapshot!(list(&items, &["id", "n", "x"]), @r"
        ID      N  X
        a       1  -
        longer  -  �[31m
        ");
    }
}
