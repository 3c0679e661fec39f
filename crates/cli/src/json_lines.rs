//! A stream of JSON documents, one per line, that arrives in parts.

use serde_json::Value;

/// The longest line that is kept; a longer one is skipped.
const MAX_LINE: usize = 1 << 20;

/// The beginning of a line whose end has not arrived yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct JsonLines {
    rest: Vec<u8>,
}

impl JsonLines {
    /// The documents of the lines that `bytes` complete. Lines that are not JSON are skipped.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Value> {
        self.rest.extend(bytes);
        let mut documents = Vec::new();
        let mut begin = 0;
        while let Some(length) = self.rest[begin..].iter().position(|byte| *byte == b'\n') {
            documents.extend(serde_json::from_slice::<Value>(&self.rest[begin..begin + length]));
            begin += length + 1;
        }
        self.rest.drain(..begin);
        if self.rest.len() > MAX_LINE {
            self.rest.clear();
        }
        documents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_end_is_not_kept() {
        let mut lines = JsonLines::default();
        assert_eq!(lines.feed(&vec![b'x'; MAX_LINE + 1]), Vec::<Value>::new());
        assert!(lines.rest.is_empty());
        assert_eq!(lines.feed(b"\n1\nno json\n{\"a\""), [Value::from(1)]);
        assert_eq!(lines.feed(b": 2}\n"), [serde_json::json!({"a": 2})]);
    }
}
