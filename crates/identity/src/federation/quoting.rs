//! Quotes messages of clouds safely.

/// Most characters of a quote.
const MAX_CHARACTERS: usize = 400;

/// The first line of `text`, shortened, with a placeholder for everything that looks like a token,
/// because some clouds return context of the request.
pub(super) fn quote(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let shown = |word: &str| if is_secret(word) { "(token)".to_owned() } else { plain(word) };
    let words: Vec<_> = line.split_whitespace().map(shown).collect();
    let text = words.join(" ");
    let text = text.strip_suffix('.').unwrap_or(&text);
    if text.chars().count() <= MAX_CHARACTERS {
        return text.to_owned();
    }
    text.chars().take(MAX_CHARACTERS).chain(['…']).collect()
}

/// Every JWT begins with `eyJ`, which is `{"` in base64. Google's access tokens begin with `ya29.`.
fn is_secret(word: &str) -> bool {
    word.len() > 20 && (word.contains("eyJ") || word.contains("ya29."))
}

fn plain(word: &str) -> String {
    word.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_one_short_line_without_tokens() {
        let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJvcmcifQ.c2ln";
        let cases = [
            ("Not found.", "Not found"),
            ("\r\n AADSTS90002: No tenant.\r\nTrace ID: 1", "AADSTS90002: No tenant"),
            ("a\u{7}b\tc", "a\u{fffd}b c"),
            ("", ""),
        ];
        for (text, quoted) in cases {
            assert_eq!(quote(text), quoted);
        }
        assert_eq!(quote(&format!("bad token='{token}' given")), "bad (token) given");
        assert_eq!(quote(&"ä".repeat(1_000)).chars().count(), MAX_CHARACTERS + 1);
    }
}
