//! Results for people: aligned columns, without colour or borders.

use canyon_domain::review::is_invisible;
use serde_json::Value;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// A table of several resources, as [`fit`] makes it; `columns` are the names of their members.
pub(crate) fn list(items: &[Value], columns: &[&str], limit: Option<usize>) -> String {
    let head = columns.iter().map(|column| column.to_uppercase()).collect();
    let row = |item: &Value| columns.iter().map(|column| cell(item.get(*column))).collect();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(items.iter().map(row)).collect();
    fit(&rows, limit)
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
        // A tab has no width of its own.
        Some(Value::String(text)) => printable(&text.replace('\t', " ")),
        Some(other) => printable(&other.to_string()),
    }
}

/// `text` without control characters, so that text from other systems cannot control the terminal, and without those that
/// change the order of others or are not seen. Tabs and the ends of lines stay.
pub(crate) fn printable(text: &str) -> String {
    let is_hidden = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || is_invisible(c);
    let shown = |c: char| if is_hidden(c) { '\u{fffd}' } else { c };
    text.replace("\r\n", "\n").chars().map(shown).collect()
}

/// Pads each column to its widest cell; the last one is not padded.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
    padded(rows, &widths(rows))
}

/// The same within `limit` columns of a terminal. It shortens the widest columns except the first, which has ids to copy,
/// and leaves out the last ones, which say least, if that is not enough. Without a limit, cells stay whole, for programs.
pub(crate) fn fit(rows: &[Vec<String>], limit: Option<usize>) -> String {
    let Some(limit) = limit else { return align(rows) };
    let line = |row: &Vec<String>| row.iter().map(|cell| cell.replace('\n', " ")).collect();
    let mut lines: Vec<Vec<String>> = rows.iter().map(line).collect();
    let widths = loop {
        let all = widths(&lines);
        let columns = all.len();
        let shrunk = shrink(all, limit);
        if columns <= 2 || total(&shrunk) <= limit {
            break shrunk;
        }
        for line in &mut lines {
            line.truncate(columns - 1);
        }
    };
    let short = |row: &Vec<String>| -> Vec<String> {
        row.iter().zip(&widths).map(|(cell, width)| shortened(cell, *width)).collect()
    };
    padded(&lines.iter().map(short).collect::<Vec<_>>(), &widths)
}

/// Narrower columns, until they fit or each has [`MIN_WIDTH`].
fn shrink(mut widths: Vec<usize>, limit: usize) -> Vec<usize> {
    while total(&widths) > limit {
        let columns = widths.iter_mut().skip(1).filter(|width| **width > MIN_WIDTH);
        // Of equally wide columns the last.
        let Some(widest) = columns.max_by_key(|width| **width) else { break };
        *widest -= 1;
    }
    widths
}

/// The width of a line.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
}

/// What separates two columns.
const GAP: &str = "  ";
/// A status such as `succeeded` stays whole.
const MIN_WIDTH: usize = 10;

fn widths(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max()
    };
    (0..columns).map(|column| width(column).unwrap_or_default()).collect()
}

fn padded(rows: &[Vec<String>], widths: &[usize]) -> String {
    let pad = |(cell, width): (&String, &usize)| {
        format!("{cell}{}", " ".repeat(width.saturating_sub(cell.width())))
    };
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row.iter().zip(widths).map(pad).collect();
        format!("{}\n", cells.join(GAP).trim_end())
    };
    rows.iter().map(line).collect::<Vec<_>>().concat()
}

/// `cell`, with `…` in place of what exceeds `width`.
fn shortened(cell: &str, width: usize) -> String {
    if cell.width() <= width {
        return cell.to_owned();
    }
    let mut text = String::new();
    for character in cell.chars() {
        if text.width() + character.width().unwrap_or_default() + 1 > width {
            break;
        }
        text.push(character);
    }
    text + "…"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tabs_and_ends_of_lines_stay_and_no_other_control_character_does() {
        assert_eq!(printable("\tat a\r\n\tb\rc\u{1b}[2J\u{7}"), "\tat a\n\tb�c�[2J�");
        let items = [json!({"id": "a\tb"})];
        assert_eq!(list(&items, &["id"], None), "ID\na b\n");
    }

    #[test]
    fn columns_are_aligned_and_control_characters_are_replaced() {
        let items = [json!({"id": "a", "n": 1}), json!({"id": "longer", "x": "\u{1b}[31m"})];
        insta::assert_snapshot!(list(&items, &["id", "n", "x"], None), @r"
        ID      N  X
        a       1  -
        longer  -  �[31m
        ");
    }

    #[test]
    fn a_table_fits_the_terminal_and_keeps_the_ids() {
        let item = |id: &str, text: &str| json!({"id": id, "status": "failed", "message": text});
        let items = [
            item("0197a1b2-c3d4", "provider\nerror: the bucket exists already"),
            item("0197a1b2-ffff", "日本語のメッセージはとても長い"),
        ];
        let columns = ["id", "status", "message"];
        let shown = list(&items, &columns, Some(40));
        insta::assert_snapshot!(shown, @r"
        ID             STATUS  MESSAGE
        0197a1b2-c3d4  failed  provider error: …
        0197a1b2-ffff  failed  日本語のメッセー…
        ");
        assert!(shown.lines().all(|line| line.width() <= 40), "{shown}");
        // The last column goes before the ids do. A terminal that is too narrow for them wraps; programs get whole cells.
        assert!(list(&items, &columns, Some(24)).starts_with("ID             STATUS\n"));
        assert!(list(&items, &columns, Some(5)).contains("0197a1b2-c3d4"));
        assert!(list(&items, &columns, None).contains("exists already"));
    }
}
