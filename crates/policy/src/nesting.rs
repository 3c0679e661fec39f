//! How deeply the brackets of a text are nested. The interpreter's parser tries what stands in brackets as a comprehension and
//! then as a list, so its time doubles with each level: at 20 levels it takes seconds, at 40 years.

/// Maximum number of brackets within each other. A rule's body is the first.
const MAX_DEPTH: u32 = 10;

/// The line and the column of the first bracket that is too deep.
pub(crate) fn too_deep(text: &str) -> Option<(u32, u32)> {
    let (mut depth, mut line, mut column) = (0_u32, 1, 0);
    let mut within = Within::Text;
    for c in text.chars() {
        (line, column) = if c == '\n' { (line + 1, 0) } else { (line, column + 1) };
        within = match (within, c) {
            (Within::Comment, '\n') | (Within::String, '"' | '\n') | (Within::Raw, '`') => {
                Within::Text
            }
            (Within::String, '\\') => Within::Escape,
            (Within::Text, '#') => Within::Comment,
            (Within::Escape, _) | (Within::Text, '"') => Within::String,
            (Within::Text, '`') => Within::Raw,
            (Within::Text, '[' | '{' | '(') => {
                depth += 1;
                Within::Text
            }
            (Within::Text, ']' | '}' | ')') => {
                depth = depth.saturating_sub(1);
                Within::Text
            }
            (same, _) => same,
        };
        if depth > MAX_DEPTH {
            return Some((line, column));
        }
    }
    None
}

/// Why such a text is refused.
pub(crate) fn reason() -> String {
    format!("brackets are nested more than {MAX_DEPTH} levels deep; give an inner part a name")
}

#[derive(Clone, Copy)]
enum Within {
    Text,
    Comment,
    String,
    Escape,
    Raw,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_count_only_where_they_are_brackets() {
        let (open, close) = ("[{(".repeat(4), ")}]".repeat(4));
        for (text, expected) in [
            (format!("x := {}", "[]".repeat(100)), None),
            (format!("x := \"{open}\""), None),
            (format!("x := `{open}\n{open}`"), None),
            (format!("x := \"\\\"{open}\""), None),
            (format!("# {open}\n# \" `\nx := 1"), None),
            (format!("x := {}1{}", &open[..10], &close[2..]), None),
            (format!("# \"\nx := {open}{close}"), Some((2, 16))),
            (format!("x := \"\\\\\"{open}{close}"), Some((1, 20))),
        ] {
            assert_eq!(too_deep(&text), expected, "{text}");
        }
    }
}
