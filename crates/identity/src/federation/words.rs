//! The words of a cloud, fit to be shown.

/// The most characters that are quoted.
const MOST: usize = 400;

/// The first line of `text`, bounded, and without anything that looks like a token: some clouds
/// answer with what they were sent.
pub(super) fn quote(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let shown = |word: &str| if is_secret(word) { "(token)".to_owned() } else { plain(word) };
    let words: Vec<_> = line.split_whitespace().map(shown).collect();
    let text = words.join(" ");
    let text = text.strip_suffix('.').unwrap_or(&text);
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain(['…']).collect()
}

/// `eyJ` is how every JWT begins: `{"` in base64. The other is how Google's access tokens do.
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
    fn a_quote_is_one_line_bounded_and_holds_no_token() {
        let token = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJvcmcifQ.c2ln";
        let cases = [
            ("Not found.", "Not found"),
            ("\r\n AADSTS90002: No tenant.\r\nTrace ID: 1", "AADSTS90002: No tenant"),
            ("a\u{7}b\tc", "a\u{fffd}b c"),
            ("", ""),
        ];
        for (said, quoted) in cases {
            assert_eq!(quote(said), quoted);
        }
        assert_eq!(quote(&format!("bad token='{token}' given")), "bad (token) given");
        assert_eq!(quote(&"ä".repeat(1_000)).chars().count(), MOST + 1);
    }
}
