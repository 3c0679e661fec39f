//! The encodings in which a secret is masked.

use super::*;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use proptest::prelude::*;

/// What a program may do to a text before it prints it.
#[derive(Clone, Copy, Debug)]
enum Encoding {
    Json,
    JsonOfGo,
    JsonOfEachCharacter,
    Query,
    QueryOfLowerCase,
    EachSecondByteInQuery,
    Html,
    Base64,
    Base64OfAddresses,
    Base64InLines(usize),
    Hexadecimal,
}

impl Encoding {
    fn of(self, text: &str) -> String {
        match self {
            Self::Json => in_json(text),
            Self::JsonOfGo => in_json_of_go(text).replace('/', "\\/"),
            Self::JsonOfEachCharacter => text
                .encode_utf16()
                .map(|unit| format!("\\u{unit:04X}"))
                .collect::<Vec<_>>()
                .concat(),
            Self::Query => in_query(text),
            Self::QueryOfLowerCase => {
                text.bytes().map(|byte| format!("%{byte:02x}")).collect::<Vec<_>>().concat()
            }
            Self::EachSecondByteInQuery => {
                let mut is_second = false;
                let mut write = |character: char| {
                    is_second = !is_second;
                    let is_plain = is_second && !"% +".contains(character);
                    if is_plain {
                        character.to_string()
                    } else {
                        in_query(&character.to_string()).replace('+', "%20")
                    }
                };
                text.chars().map(&mut write).collect()
            }
            Self::Html => in_html(text),
            Self::Base64 => STANDARD.encode(text),
            Self::Base64OfAddresses => URL_SAFE.encode(text),
            Self::Base64InLines(length) => {
                let lines = STANDARD.encode(text).into_bytes();
                let lines = lines.chunks(length).map(|line| String::from_utf8_lossy(line));
                lines.collect::<Vec<_>>().join("\n")
            }
            Self::Hexadecimal => hex::encode(text),
        }
    }
}

fn any_encoding() -> impl Strategy<Value = Encoding> {
    prop_oneof![
        Just(Encoding::Json),
        Just(Encoding::JsonOfGo),
        Just(Encoding::JsonOfEachCharacter),
        Just(Encoding::Query),
        Just(Encoding::QueryOfLowerCase),
        Just(Encoding::EachSecondByteInQuery),
        Just(Encoding::Html),
        Just(Encoding::Base64),
        Just(Encoding::Base64OfAddresses),
        prop_oneof![Just(Encoding::Base64InLines(64)), Just(Encoding::Base64InLines(76))],
        Just(Encoding::Hexadecimal),
    ]
}

/// The text of `bytes`, masked as it is shipped: in chunks, of which each is read with what is around it.
fn masked_in_chunks(mask: &Mask, bytes: &[u8], chunk: usize) -> Vec<u8> {
    let mut all = Vec::new();
    for begin in (0..bytes.len()).step_by(chunk) {
        let end = bytes.len().min(begin + chunk);
        let from = begin.saturating_sub(mask.reach());
        let mut read = bytes[from..bytes.len().min(end + mask.reach())].to_vec();
        mask.apply(&mut read);
        all.extend_from_slice(&read[begin - from..end - from]);
    }
    all
}

proptest! {
    #[test]
    fn a_secret_is_masked_in_every_encoding_within_another(
        secret in "[ -~é\u{2028}\n]{6,40}",
        around in ("[ -~]{0,9}[ ,:]", "[ ,:][ -~]{0,9}"),
        encodings in prop::collection::vec(any_encoding(), 0..=2),
    ) {
        prop_assume!(secret.trim().len() >= SHORTEST);
        // What looks like an escape is ambiguous where only parts of it are encoded.
        prop_assume!(Layer::new(secret.as_bytes()).unescaped(0).is_none());
        let mask = Mask::of_values([secret.as_str()]);
        let mut text = secret.clone();
        for encoding in &encodings {
            text = encoding.of(&format!("{}{text}{}", around.0, around.1));
        }
        let masked = mask.text(&text);
        let stars = masked.bytes().filter(|byte| *byte == b'*').count();
        prop_assert!(stars >= secret.len(), "{encodings:?}: {text}: {masked}");
        prop_assert_eq!(masked.len(), text.len());
    }

    #[test]
    fn chunks_of_every_size_are_masked_as_the_whole(
        secret in "[a-z\"\\\\&<%+/é ]{6,12}",
        parts in prop::collection::vec((any_encoding(), "[a-z0-9+/\n\"\\\\ ]{0,30}"), 1..12),
        chunk in 1..300_usize,
    ) {
        let mask = Mask::of_values([secret.as_str()]);
        let text: String =
            parts.iter().map(|(encoding, other)| format!("{other} {} ", encoding.of(&secret))).collect::<Vec<_>>().concat();
        let mut whole = text.clone().into_bytes();
        mask.apply(&mut whole);
        let chunks = masked_in_chunks(&mask, text.as_bytes(), chunk);
        prop_assert_eq!(String::from_utf8_lossy(&chunks), String::from_utf8_lossy(&whole));
    }

    #[test]
    fn text_without_a_secret_stays(text in "[ -~\n]{0,200}") {
        let mask = Mask::of_values(["\u{1}not printed\u{2}"]);
        prop_assert_eq!(mask.text(&text), text);
    }

    #[test]
    fn a_secret_is_masked_in_json_within_json(secret in "[a-z\"\\\\&<>\u{2028}\n=+/é ]{6,20}", levels in prop::collection::vec(any::<bool>(), 0..=NESTED)) {
        let mask = Mask::new([secret.as_str()], &BTreeMap::new());
        let mut text = secret.clone();
        for is_of_go in levels {
            let quoted = if is_of_go { in_json_of_go(&text) } else { in_json(&text) };
            text = format!("{{\"x\":\"{quoted}\"}}");
            // What is around the secret is quoted too, in the next level.
            let masked = mask.text(&text);
            prop_assert!(masked.contains("******"), "{text}: {masked}");
        }
    }
}

#[test]
fn a_secret_is_masked_in_every_form_and_the_length_stays() {
    let environment = BTreeMap::from(
        [("DB_PASSWORD", "p\"w-7789"), ("REGION", "eu-west-1"), ("API_KEY", "true")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    let key = "{\n  \"private_key\":   \"MIIE\"\n}\n";
    let secrets = [
        "token-123",
        "line-number-1\nline-number-2",
        "a<b>&cé",
        "two  blanks ",
        key,
        "a\u{2028}b-\u{2029}cd",
    ];
    let mask = Mask::new(secrets, &environment);
    for (given, expected) in [
        ("a token-123token-123 b", "a ****************** b"),
        (r#"say p"w-7789!"#, "say ********!"),
        (r#"{"a":"p\"w-7789"}"#, r#"{"a":"*********"}"#),
        ("dG9rZW4tMTIz", "************"),
        ("+ line-number-2", "+ *************"),
        ("eu-west-1 true token-12", "eu-west-1 true token-12"),
        (r#""{\"a\":\"p\\\"w-7789\"}""#, r#""{\"a\":\"***********\"}""#),
        ("a<b>&cé", "********"),
        (r#"{"x":"a\u003cb\u003e\u0026cé"}"#, r#"{"x":"***********************"}"#),
        ("YTxiPiZjw6k= YTxiPiZjw6k", "***********= ***********"),
        ("https://h/?p=a%3Cb%3E%26c%C3%A9&q=1", "https://h/?p=******************&q=1"),
        ("h/two++blanks+/two%20%20blanks%20", "h/************/******************"),
        (r#"{"x":"a\u2028b-\u2029cd"}"#, r#"{"x":"*****************"}"#),
        // Error messages join white space to single spaces.
        ("two blanks", "**********"),
        ("two  blanks", "***********"),
        (r#"said { "private_key": "MIIE" }"#, "said *************************"),
        (r#"said "private_key": "MIIE" and"#, "said ********************* and"),
    ] {
        assert_eq!(mask.text(given), expected);
    }
}

#[test]
fn a_secret_is_masked_where_it_is_encoded_with_what_is_around_it() {
    let mask = Mask::of_values(["token-123", "pass/word+é"]);
    for (given, expected) in [
        // One, two and three bytes are before the secret.
        (STANDARD.encode("a token-123 b"), "YS*************gYg=="),
        (STANDARD.encode("ab:token-123"), "YWI6************"),
        (STANDARD.encode("a:token-123:"), "YT*************6"),
        (r#"{"a":"pass\/word+\u00e9"}"#.to_owned(), r#"{"a":"*****************"}"#),
        (
            r#"{\"a\":\"pass\\/word\\u002B\\u00E9\"}"#.to_owned(),
            r#"{\"a\":\"*************************\"}"#,
        ),
        (
            "a=pass%2fword%2b%c3%a9&b=pass/word+%C3%a9".to_owned(),
            "a=********************&b=****************",
        ),
        ("a=pass%252fword%252B%25C3%25A9&".to_owned(), "a=****************************&"),
        ("<b>pass&#x2F;word&#43;&#233;</b>".to_owned(), "<b>*************************</b>"),
        (hex::encode_upper("a token-123"), "6120******************"),
    ] {
        assert_eq!(mask.text(&given), expected, "{given}");
    }
}

#[test]
fn a_secret_is_masked_over_the_line_breaks_of_base64() {
    let mask = Mask::of_values(["token-123"]);
    for (length, before) in [(64, 40), (64, 44), (76, 50), (76, 54)] {
        let encoded = STANDARD.encode(format!("{}token-123 and more", "x".repeat(before)));
        let (first, second) = encoded.split_at(length);
        let masked = mask.text(&format!("{first}\r\n  {second}"));
        let (kept, rest) = masked.split_once('*').unwrap();
        assert!(encoded.starts_with(kept) && kept.len() == before * 4 / 3, "{masked}");
        assert!(rest.trim_start_matches('*').starts_with("\r\n  **"), "{masked}");
        let decoded = STANDARD.decode(masked.replace(['\r', '\n', ' '], "").replace('*', "A"));
        assert!(decoded.unwrap().ends_with(b"nd more"), "{masked}");
    }
}

#[test]
fn each_line_of_an_encoded_secret_is_masked_by_itself() {
    let parts = (100..140).flat_map(|number: u32| [number.to_string(), "-kept.".to_owned()]);
    let secret: String = parts.collect();
    let mask = Mask::new([secret.as_str()], &BTreeMap::new());
    let base64 = STANDARD.encode(&secret);
    let hexadecimal = Encoding::Hexadecimal.of(&secret);
    for (text, width) in [(&base64, 76), (&base64, 72), (&base64, 64), (&hexadecimal, 60)] {
        for line in text.as_bytes().chunks(width).filter(|line| line.len() > 24) {
            let line = std::str::from_utf8(line).unwrap();
            let left = mask.text(line).replace(['*', '='], "");
            assert_eq!(left, "", "of {line}");
        }
    }
}

#[test]
fn secrets_that_overlap_are_masked_together() {
    let mask = Mask::of_values(["bcdefg", "abcdefgh", "ghijkl"]);
    assert_eq!(mask.text("-abcdefghijkl- bcdefgh"), "-************- ******h");
}

#[test]
fn the_longest_secret_is_masked_in_its_longest_encoding_over_pieces() {
    let secret = "\"<secret>".repeat(1_000);
    let mask = Mask::of_values([secret.as_str()]);
    let written = quoted(&secret).into_iter().max_by_key(String::len).unwrap();
    assert!(written.len() <= mask.reach());
    for before in [0, PIECE - 1, 2 * PIECE + 7] {
        let text = format!("{}{written} end", "x".repeat(before));
        let masked = mask.text(&text);
        assert!(masked == format!("{}{} end", "x".repeat(before), "*".repeat(written.len())));
    }
}

#[test]
fn a_secret_with_control_characters_is_masked_as_go_and_yaml_print_it() {
    let secret = "escsecret\u{1b}[31m\u{1}ESC\u{7f}\u{85}SECRET";
    let mask = Mask::new([secret], &BTreeMap::new());
    for printed in [
        r#"+ "escsecret\x1b[31m\x01ESC\x7f\u0085SECRET""#,
        r#""a": "escsecret\e[31m\x01ESC\x7F\NSECRET""#,
    ] {
        let shown = mask.text(printed);
        assert!(!shown.contains("SECRET") && !shown.contains("escsecret"), "{shown}");
        assert!(shown.starts_with(&printed[..3]), "{shown}");
    }
}
