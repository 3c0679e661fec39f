//! Writes YAML.

use canyon_domain::json::Json;
use canyon_domain::yaml::Tree;
use serde_json::Value;

/// Writes `value` so that [`canyon_domain::yaml::parse`] and any other reader of YAML returns it.
///
/// # Errors
///
/// When the value cannot be written; every JSON value can.
pub(crate) fn write(value: &Value) -> Result<String, serde_saphyr::ser::Error> {
    // Long texts stay on one line: a folded URL cannot be copied.
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(value, options)
}

/// Writes `value` with every digit of its numbers.
///
/// # Errors
///
/// The errors of [`write()`].
pub(crate) fn write_exact(value: &Json) -> Result<String, serde_saphyr::ser::Error> {
    let text = value.to_string();
    // A placeholder that occurs nowhere in the text, for each number that the writer cannot write.
    let mut placeholder = "number-x".to_owned();
    while text.contains(&placeholder) {
        placeholder.push('x');
    }
    let (value, numbers) = without_long_numbers(value, &placeholder);
    let mut written = write(&value)?;
    for (index, number) in numbers.iter().enumerate() {
        written = written.replacen(&format!("{placeholder}-{index}-"), number, 1);
    }
    Ok(written)
}

/// `value` with a placeholder text, `placeholder` and an index, for each number that does not fit into 64
/// bits; and those numbers.
fn without_long_numbers(value: &Json, placeholder: &str) -> (Value, Vec<String>) {
    let mut numbers = Vec::new();
    (short(value, placeholder, &mut numbers), numbers)
}

fn short(value: &Json, placeholder: &str, numbers: &mut Vec<String>) -> Value {
    match value {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::String(text) => Value::String(text.clone()),
        Json::Array(items) => {
            Value::Array(items.iter().map(|item| short(item, placeholder, numbers)).collect())
        }
        Json::Object(members) => Value::Object(
            members
                .iter()
                .map(|(name, member)| (name.clone(), short(member, placeholder, numbers)))
                .collect(),
        ),
        Json::Number(digits) => {
            let text = digits.as_str();
            match <Value as Tree>::number(text) {
                Some(Value::Number(number)) if number.to_string() == text => Value::Number(number),
                _ => {
                    numbers.push(text.to_owned());
                    Value::String(format!("{placeholder}-{}-", numbers.len() - 1))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use canyon_domain::yaml::parse;
    use proptest::prelude::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let words = prop_oneof![
            Just("no"),
            Just("null"),
            Just("~"),
            Just("1"),
            Just("0x1f"),
            Just("1e3"),
            Just("-"),
            Just("- a"),
            Just("a: b"),
            Just("a #b"),
            Just("<<"),
            Just("*a"),
            Just("&a"),
            Just("!a"),
            Just("%a"),
            Just("@a"),
            Just("`a"),
            Just("---"),
            Just(""),
            Just(" a "),
            Just("a\nb\n"),
            Just("007"),
            Just(".inf"),
            Just("?"),
            Just("? a"),
            Just("\u{85}"),
            Just("\u{feff}"),
        ];
        let text = prop_oneof![words.prop_map(str::to_owned), "\\PC{0,12}", ".{0,12}"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(text.clone(), inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn written_values_read_back_the_same(value in any_json()) {
            let text = write(&value).unwrap();
            prop_assert_eq!(parse(&text, "text"), Ok(value), "{}", text);
        }
    }
}
