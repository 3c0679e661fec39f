//! The blocks of an HCL file, with their headers: `resource "aws_vpc" "main" {`.
//!
//! A full parser of HCL recurses, so that a deeply nested file could end the runner. This reader keeps what is open in a
//! list, knows comments, texts with templates and heredocs
//! (<https://github.com/hashicorp/hcl/blob/main/hclsyntax/spec.md>), and leaves the rest to OpenTofu.

/// A block that is in no other block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// Its type and its labels.
    pub header: Vec<String>,
    /// The text from `{` to its `}`, or to the end of the file.
    pub body: &'a str,
}

/// The blocks that are in no other block.
pub fn blocks(text: &str) -> Vec<Block<'_>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (open, header, found) = (Vec::new(), Vec::new(), Vec::new());
    let mut reader = Reader { rest: text, open, header, begun: None, found };
    while reader.step() {}
    reader.close();
    reader.found
}

/// What a closing character ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    /// `{`, of a block, an object or a template.
    Brace,
    /// `"`.
    Quote,
}

struct Reader<'a> {
    rest: &'a str,
    /// The last is the innermost.
    open: Vec<Open>,
    /// The words of the line so far, outside of all blocks; `None` for what is in no header.
    header: Vec<Option<String>>,
    /// The block that is open, with the text from its `{` on.
    begun: Option<Block<'a>>,
    found: Vec<Block<'a>>,
}

impl Reader<'_> {
    /// Ends the open block at the end of what is read.
    fn close(&mut self) {
        let Some(mut block) = self.begun.take() else { return };
        block.body = &block.body[..block.body.len() - self.rest.len()];
        self.found.push(block);
    }

    /// Reads one thing. Returns whether there is more.
    fn step(&mut self) -> bool {
        let Some(next) = self.rest.chars().next() else { return false };
        if self.open.last() == Some(&Open::Quote) {
            self.in_text(next);
            return true;
        }
        let is_outside = self.open.is_empty();
        match next {
            '\n' => {
                self.header.clear();
                self.skip(1);
            }
            '#' => self.skip_past_line(),
            '/' if self.rest.starts_with("//") => self.skip_past_line(),
            '/' if self.rest.starts_with("/*") => {
                self.rest = self.rest[2..].split_once("*/").map_or("", |(_, rest)| rest);
            }
            '<' if self.rest.starts_with("<<") => self.skip_heredoc(),
            '{' => {
                if is_outside {
                    let words: Option<Vec<_>> = self.header.drain(..).collect();
                    let words = words.filter(|words| !words.is_empty());
                    self.begun = words.map(|header| Block { header, body: self.rest });
                }
                self.open.push(Open::Brace);
                self.skip(1);
            }
            '}' => {
                self.open.pop();
                self.skip(1);
                if self.open.is_empty() {
                    self.close();
                }
            }
            '"' if is_outside => {
                let word = label(&self.rest[1..]);
                self.header.push(word);
                self.open.push(Open::Quote);
                self.skip(1);
            }
            '"' => {
                self.open.push(Open::Quote);
                self.skip(1);
            }
            c if is_outside && is_of_word(c) => {
                let end = self.rest.find(|c| !is_of_word(c)).unwrap_or(self.rest.len());
                self.header.push(Some(self.rest[..end].to_owned()));
                self.rest = &self.rest[end..];
            }
            c => {
                if !c.is_whitespace() {
                    self.header.push(None);
                }
                self.skip(c.len_utf8());
            }
        }
        true
    }

    /// Reads one thing of a text, which ends at `"`. `$${` and `%%{` are no templates.
    fn in_text(&mut self, next: char) {
        match next {
            '\\' => {
                self.skip(1);
                self.skip(self.rest.chars().next().map_or(0, char::len_utf8));
            }
            '"' => {
                self.open.pop();
                self.skip(1);
            }
            '$' | '%' if self.rest.starts_with("$${") || self.rest.starts_with("%%{") => {
                self.skip(3);
            }
            '$' | '%' if self.rest[1..].starts_with('{') => {
                self.open.push(Open::Brace);
                self.skip(2);
            }
            c => self.skip(c.len_utf8()),
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    /// Skips to the end of the line, which belongs to no comment.
    fn skip_past_line(&mut self) {
        let end = self.rest.find('\n').unwrap_or(self.rest.len());
        self.skip(end);
    }

    /// Skips `<<WORD` or `<<-WORD`, and the lines to the one that is `WORD`.
    fn skip_heredoc(&mut self) {
        let after = self.rest[2..].strip_prefix('-').unwrap_or(&self.rest[2..]);
        let end = after.find(|c| !is_of_word(c)).unwrap_or(after.len());
        let (word, mut rest) = after.split_at(end);
        if word.is_empty() {
            return self.skip(2);
        }
        while let Some((_, lines)) = rest.split_once('\n') {
            let end = lines.find('\n').unwrap_or(lines.len());
            rest = lines;
            if lines[..end].trim() == word {
                rest = &lines[end..];
                break;
            }
        }
        self.rest = if rest.contains('\n') { rest } else { "" };
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-'
}

/// The text up to the next `"`, if it is one that a label can be: without escapes and templates.
fn label(text: &str) -> Option<String> {
    let (label, _) = text.split_once('"')?;
    let is_plain = !label.is_empty() && !label.contains(['\\', '\n', '$', '%']);
    is_plain.then(|| label.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(text: &str) -> Vec<String> {
        blocks(text).iter().map(|block| block.header.join(" ")).collect()
    }

    #[test]
    fn a_body_ends_with_its_own_brace() {
        let text = "a \"b\" {\n x = \"}${{}}\" # }\n y { }\n} z = {}\nc {\n open";
        let bodies: Vec<_> = blocks(text).into_iter().map(|block| block.body).collect();
        assert_eq!(bodies, ["{\n x = \"}${{}}\" # }\n y { }\n}", "{\n open"]);
    }

    #[test]
    fn comments_and_white_space_hide_no_block() {
        for text in [
            "variable \"a\" {}",
            "\u{feff}variable \"a\" {",
            "variable a{",
            "\tvariable\t\"a\"  {\r\n}",
            "/* one\ntwo */ variable \"a\" {}",
            "variable /* x */ \"a\" /* { */ { }",
            "# \"\nvariable \"a\" { }",
            "// {\nvariable \"a\" { # }\n}",
            "locals {}\nvariable \"a\" {}\n",
            "locals {\n x = \"}${\"{\"}\"\n}\nvariable \"a\" {}",
            "locals {\n x = \"$${ \\\" %%{\"\n}\nvariable \"a\" {}",
            "locals {\n x = <<EOT\n}\nEOT\n}\nvariable \"a\" {}",
            "locals {\n x = <<-EOT\n  { \" /*\n  EOT\n}\nvariable \"a\" {}",
            "locals {\n x = 1 << 2\n}\nvariable \"a\" {}",
        ] {
            let found = found(text);
            assert_eq!(found.last().map(String::as_str), Some("variable a"), "{text}: {found:?}");
        }
    }

    #[test]
    fn what_only_looks_like_a_block_is_none() {
        for text in [
            "# variable \"a\" {}",
            "/* \nvariable \"a\" {}\n*/",
            "x = <<EOT\nvariable \"a\" {\nEOT\n",
            "x = \"\nvariable \\\"a\\\" {\n\"",
            "x = { variable = 1 }",
            "variable = {",
            "variable \"a\"\n{",
            "variable \"a${b}\" {",
            "locals {\n variable \"a\" {}\n}",
        ] {
            assert!(!found(text).contains(&"variable a".to_owned()), "{text}: {:?}", found(text));
        }
        assert_eq!(
            found("variables \"a\" {}\nresource \"b\" \"c\" {}"),
            ["variables a", "resource b c"]
        );
    }

    #[test]
    fn a_deeply_nested_file_is_read() {
        let deep = format!("locals {{\n x = {}\n}}\nvariable \"a\" {{}}", "\"${".repeat(100_000));
        assert_eq!(found(&deep), ["locals"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_to_its_end(text in "([a-z\"{}<\\-\\\\$%#/*\n =é]|EOT|<<EOT){0,200}") {
            blocks(&text);
        }
    }
}
