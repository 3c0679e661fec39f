//! Undoes what programs do to a text before they print it: one layer of escapes, base64, or hexadecimal digits.
//!
//! A [`Layer`] is a decoded text in which each byte knows the bytes of the stream that it was decoded from.

use std::ops::Range;

/// Between two decoded texts that do not follow each other. No UTF-8 text has this byte.
const BREAK: u8 = 0xff;

/// Base64 of the shortest secret (6 bytes) has so many characters.
const SHORTEST_BASE64: usize = 8;

/// The same for hexadecimal digits.
const SHORTEST_HEX: usize = 12;

/// The longest HTML entity that is decoded, such as `&#x1F600;`.
const LONGEST_ENTITY: usize = 10;

/// A decoded text.
#[derive(Debug, Default)]
pub(super) struct Layer {
    bytes: Vec<u8>,
    /// For each byte, where its source begins and ends. `None` if each byte is its own source.
    spans: Option<Vec<(u32, u32)>>,
}

impl Layer {
    /// The text as it is in the stream.
    pub(super) fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), spans: None }
    }

    /// The decoded text.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The part of the stream that the byte at `at` was decoded from.
    pub(super) fn source(&self, at: usize) -> Range<usize> {
        match &self.spans {
            None => at..at + 1,
            Some(spans) => spans[at].0 as usize..spans[at].1 as usize,
        }
    }

    /// This text with one layer of escapes removed: of JSON and HCL strings, of addresses, and of HTML. `None` if it
    /// has none. What is farther than `margin` bytes from every escape is left out, because it is in this layer too.
    pub(super) fn unescaped(&self, margin: usize) -> Option<Self> {
        let mut target = Self::decoded();
        let (mut from, mut at) = (0, 0);
        while let Some(next) = self.bytes[at..].iter().position(|byte| b"\\%&$".contains(byte)) {
            at += next;
            let Some((character, length)) = escape(&self.bytes[at..]) else {
                at += 1;
                continue;
            };
            self.copy(from..at, margin, from == 0, &mut target);
            let source = self.source(at).start..self.source(at + length - 1).end;
            character.bytes().for_each(|byte| target.push(byte, source.clone()));
            at += length;
            from = at;
        }
        if from == 0 {
            return None;
        }
        let rest = from..self.bytes.len().min(from + margin);
        self.copy(rest, margin, false, &mut target);
        Some(target)
    }

    /// What the runs of base64 and of hexadecimal digits in this text decode to, wherever in a run the encoded text
    /// begins. Line breaks and indentation may divide a run.
    pub(super) fn decoded_runs(&self) -> Vec<Self> {
        let base64 = self.runs(base64_value, SHORTEST_BASE64);
        let hexadecimal = self.runs(hex_value, SHORTEST_HEX);
        let mut layers = Vec::new();
        if !base64.is_empty() {
            layers.extend((0..4).map(|phase| self.of_base64(&base64, phase)));
        }
        if !hexadecimal.is_empty() {
            layers.extend((0..2).map(|phase| self.of_hexadecimal(&hexadecimal, phase)));
        }
        layers
    }

    /// The groups of four characters begin at `phase` of each run.
    fn of_base64(&self, runs: &[Run], phase: usize) -> Self {
        let mut target = Self::decoded();
        for run in runs {
            for group in run.get(phase..).unwrap_or_default().chunks(4) {
                let bits = group.iter().fold(0, |bits, (value, _)| bits << 6 | u32::from(*value));
                let bits = bits << (6 * (4 - group.len()));
                for (index, byte) in bits.to_be_bytes().into_iter().skip(1).enumerate() {
                    if let Some((_, last)) = group.get(index + 1) {
                        let first = self.source(group[index].1).start;
                        target.push(byte, first..self.source(*last).end);
                    }
                }
            }
            target.push(BREAK, 0..0);
        }
        target
    }

    /// The pairs of digits begin at `phase` of each run.
    fn of_hexadecimal(&self, runs: &[Run], phase: usize) -> Self {
        let mut target = Self::decoded();
        for run in runs {
            for pair in run.get(phase..).unwrap_or_default().chunks_exact(2) {
                let source = self.source(pair[0].1).start..self.source(pair[1].1).end;
                target.push(pair[0].0 << 4 | pair[1].0, source);
            }
            target.push(BREAK, 0..0);
        }
        target
    }

    fn decoded() -> Self {
        Self { bytes: Vec::new(), spans: Some(Vec::new()) }
    }

    fn push(&mut self, byte: u8, source: Range<usize>) {
        self.bytes.push(byte);
        if let Some(spans) = &mut self.spans {
            let position = |at| u32::try_from(at).unwrap_or(u32::MAX);
            spans.push((position(source.start), position(source.end)));
        }
    }

    /// Appends `range` of this text to `target`, without what is farther than `margin` from both of its ends. The
    /// first range of a text has an escape only at its end.
    fn copy(&self, range: Range<usize>, margin: usize, is_first: bool, target: &mut Self) {
        let head = if is_first { 0 } else { margin };
        if range.len() > head + margin {
            self.copy_all(range.start..range.start + head, target);
            target.push(BREAK, 0..0);
            self.copy_all(range.end - margin..range.end, target);
        } else {
            self.copy_all(range, target);
        }
    }

    fn copy_all(&self, range: Range<usize>, target: &mut Self) {
        range.for_each(|at| target.push(self.bytes[at], self.source(at)));
    }

    /// Each run of at least `shortest` characters that have a value.
    fn runs(&self, value: impl Fn(u8) -> Option<u8>, shortest: usize) -> Vec<Run> {
        let mut runs = Vec::new();
        let mut run = Run::new();
        let mut is_after_break = false;
        for (at, byte) in self.bytes.iter().enumerate() {
            match (value(*byte), byte) {
                (Some(value), _) => {
                    run.push((value, at));
                    is_after_break = false;
                }
                (None, b'\n' | b'\r') => is_after_break = true,
                (None, b' ' | b'\t') if is_after_break => {}
                (None, _) => {
                    if run.len() >= shortest {
                        runs.push(std::mem::take(&mut run));
                    }
                    run.clear();
                    is_after_break = false;
                }
            }
        }
        if run.len() >= shortest {
            runs.push(run);
        }
        runs
    }
}

/// The values and positions of the characters of an encoded text.
type Run = Vec<(u8, usize)>;

/// The character that the escape at the beginning of `bytes` stands for, and the length of the escape.
fn escape(bytes: &[u8]) -> Option<(Escaped, usize)> {
    match bytes {
        [b'\\', b'u', ..] => utf16_escape(bytes),
        // OpenTofu prints control characters as Go's `%q` does, and `yamlencode` as YAML does.
        [b'\\', b'x', first, second, ..]
            if first.is_ascii_hexdigit() && second.is_ascii_hexdigit() =>
        {
            let code = hex_value(*first)? << 4 | hex_value(*second)?;
            Some((Escaped::Character(char::from(code)), 4))
        }
        [b'\\', b'N', ..] => Some((Escaped::Character('\u{85}'), 2)),
        [b'\\', b'L', ..] => Some((Escaped::Character('\u{2028}'), 2)),
        [b'\\', b'P', ..] => Some((Escaped::Character('\u{2029}'), 2)),
        [b'\\', next, ..] => {
            let byte = match next {
                b'"' | b'\\' | b'/' | b'\'' => *next,
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'b' => 8,
                b'f' => 12,
                b'a' => 7,
                b'v' => 11,
                b'e' => 27,
                b'0' => 0,
                _ => return None,
            };
            Some((Escaped::Byte(byte), 2))
        }
        [b'%', first, second, ..] if first.is_ascii_hexdigit() && second.is_ascii_hexdigit() => {
            Some((Escaped::Byte(hex_value(*first)? << 4 | hex_value(*second)?), 3))
        }
        // HCL writes `${` and `%{` of a text so.
        [b'$', b'$', b'{', ..] | [b'%', b'%', b'{', ..] => Some((Escaped::Byte(bytes[0]), 2)),
        [b'&', ..] => entity(bytes),
        _ => None,
    }
}

/// What an escape stands for.
#[derive(Clone, Copy)]
enum Escaped {
    Byte(u8),
    Character(char),
}

impl Escaped {
    fn bytes(self) -> impl Iterator<Item = u8> {
        let mut buffer = [0; 4];
        let length = match self {
            Self::Byte(byte) => {
                buffer[0] = byte;
                1
            }
            Self::Character(character) => character.encode_utf8(&mut buffer).len(),
        };
        buffer.into_iter().take(length)
    }
}

/// `\uXXXX`, or two of these for a character beyond U+FFFF.
fn utf16_escape(bytes: &[u8]) -> Option<(Escaped, usize)> {
    let unit = |at: usize| -> Option<u16> {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | u16::from(hex_value(*digit)?)))
    };
    let units = [unit(0)?, unit(6).unwrap_or_default()];
    let first = char::decode_utf16(units).next()?.ok()?;
    Some((Escaped::Character(first), 6 * first.len_utf16()))
}

/// An entity of HTML or XML: those that escaping needs, and every number.
fn entity(bytes: &[u8]) -> Option<(Escaped, usize)> {
    let length = bytes.iter().take(LONGEST_ENTITY).position(|byte| *byte == b';')? + 1;
    let name = std::str::from_utf8(&bytes[1..length - 1]).ok()?;
    let character = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    };
    Some((Escaped::Character(character), length))
}

fn hex_value(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// The value of a character of base64, of both alphabets.
fn base64_value(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_layer_of_escapes_is_removed_and_each_byte_knows_its_source() {
        for (given, expected) in [
            (r#"a\"b"#, "a\"b"),
            (r"\u003c\u00E9\ud83d\ude00\/", "<é😀/"),
            (r"\\u003c \\\\n", r"\u003c \\n"),
            ("%3c%3C%zz%4", "<<%zz%4"),
            ("&lt;&#39;&#x27;&amp;lt;&none;", "<''&lt;&none;"),
            ("$${a} %%{b}", "${a} %{b}"),
        ] {
            let layer = Layer::new(given.as_bytes()).unescaped(100).unwrap();
            assert_eq!(String::from_utf8_lossy(layer.bytes()), expected);
            let last = layer.bytes().len() - 1;
            assert_eq!(
                (layer.source(0).start, layer.source(last).end),
                (0, given.len()),
                "{given}"
            );
        }
        assert!(Layer::new(br"C:\Windows 5% a & b \ud83d").unescaped(100).is_none());
    }

    #[test]
    fn text_far_from_every_escape_is_left_out() {
        let text = format!("{}\\n{}%41{}", "x".repeat(50), "y".repeat(50), "z".repeat(50));
        let layer = Layer::new(text.as_bytes()).unescaped(2).unwrap();
        assert_eq!(layer.bytes(), b"\xffxx\nyy\xffyyAzz");
    }

    #[test]
    fn encoded_runs_decode_at_each_phase_and_over_line_breaks() {
        let layers = Layer::new(b"x: AAdG9r\r\n  ZW4tMTIz\n==").decoded_runs();
        let found = |layers: &[Layer], text: &[u8]| -> Vec<usize> {
            (0..layers.len()).filter(|index| layers[*index].bytes() == text).collect()
        };
        assert_eq!(found(&layers, b"token-123\xff"), [2], "{layers:?}");
        assert_eq!((layers[2].source(0), layers[2].source(8)), (5..7, 19..21));
        let layers = Layer::new(b"0746f6b656e2D31").decoded_runs();
        assert_eq!(found(&layers, b"token-1\xff"), [5], "{layers:?}");
        assert!(Layer::new(b"short words only").decoded_runs().is_empty());
    }
}
