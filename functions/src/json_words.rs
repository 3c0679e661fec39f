//! serde's messages about a value, in the words of JSON: its errors have no structured form.

/// How serde's messages begin that repeat the faulty value.
const REPEATS_VALUE: [&str; 3] = ["invalid type: ", "invalid value: ", "unknown variant "];

/// What serde says of a faulty value.
pub(crate) struct Fault<'t> {
    /// Whether its type is at fault, and not only its form.
    is_of_type: bool,
    value: &'t str,
    expected: &'t str,
}

impl<'t> Fault<'t> {
    /// Reads serde's message; none if it is not about a value. The value may contain anything, and the end of the message
    /// nothing of it.
    pub(crate) fn read(message: &'t str) -> Option<Self> {
        let about = REPEATS_VALUE.iter().find_map(|beginning| message.strip_prefix(beginning))?;
        let (value, expected) = about.rsplit_once(", expected ")?;
        let is_of_type = message.starts_with("invalid type: ");
        Some(Self { is_of_type, value, expected })
    }

    /// Whether a message is one about a value, which may be cut.
    pub(crate) fn repeats_value(message: &str) -> bool {
        REPEATS_VALUE.iter().any(|beginning| message.starts_with(beginning))
    }

    /// What the value must be.
    pub(crate) fn requirement(&self) -> String {
        format!("must be {}", expected(self.expected))
    }

    /// The same, and what it is.
    pub(crate) fn with_value(&self) -> String {
        let (requirement, found) = (self.requirement(), found(self.value));
        // A number in quotes looks like a number.
        let kind = if self.is_of_type && found.starts_with('"') { "the text " } else { "" };
        format!("{requirement}, not {kind}{found}")
    }
}

fn expected(words: &str) -> String {
    let range = |most: u64| format!("a whole number from 0 to {most}");
    match words {
        "u8" => range(u8::MAX.into()),
        "u16" => range(u16::MAX.into()),
        "u32" => range(u32::MAX.into()),
        "u64" | "usize" => "a whole number from 0 on".to_owned(),
        "i8" | "i16" | "i32" | "i64" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a string" => "text".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        "string or map" => "text or an object".to_owned(),
        _ if words.starts_with("struct ") => "an object".to_owned(),
        _ => words.to_owned(),
    }
}

fn found(words: &str) -> &str {
    match words {
        "map" => "an object",
        "sequence" => "a list",
        "boolean `true`" => "`true`",
        "boolean `false`" => "`false`",
        _ => {
            let kinds = ["string ", "integer ", "floating point "];
            kinds.iter().find_map(|kind| words.strip_prefix(kind)).unwrap_or(words)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_the_value_must_be_in_the_words_of_json() {
        for (said, meant) in [
            (
                "invalid type: null, expected u32",
                "must be a whole number from 0 to 4294967295, not null",
            ),
            (
                "invalid value: integer `-1`, expected u64",
                "must be a whole number from 0 on, not `-1`",
            ),
            (
                "invalid type: string \"[latop]\", expected a sequence",
                "must be a list, not the text \"[latop]\"",
            ),
            (
                "invalid type: string \"2\", expected u8",
                "must be a whole number from 0 to 255, not the text \"2\"",
            ),
            ("invalid value: string \"x\", expected a digest", "must be a digest, not \"x\""),
            ("invalid type: map, expected a string", "must be text, not an object"),
            (
                "invalid type: floating point `1.5`, expected i64",
                "must be a whole number, not `1.5`",
            ),
            ("invalid type: boolean `true`, expected struct Body", "must be an object, not `true`"),
            (
                "unknown variant `depoyer`, expected one of `viewer`, `deployer`",
                "must be one of `viewer`, `deployer`, not `depoyer`",
            ),
        ] {
            assert_eq!(Fault::read(said).unwrap().with_value(), meant);
        }
        assert!(Fault::read("duplicate field `a`").is_none());
    }
}
