//! What an environment ignores of its drift.

use crate::field_error::FieldErrors;
use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

/// Maximum number of rules of an environment.
pub const MAX_IGNORED: usize = 50;
/// Maximum length of a pattern and of an attribute's name, in bytes.
const MAX_TEXT: usize = 300;
/// Maximum number of attributes in a rule.
const MAX_NAMES: usize = 20;

/// Changes that count for nothing: of resources, or of some of their attributes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IgnoreRule {
    /// The resources: an address in which `*` stands for any text.
    pub address: String,
    /// The attributes. Without one, every change of such a resource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<String>,
}

impl IgnoreRule {
    /// Whether a change of these attributes of a resource counts for nothing. `attributes` is all of them: a change of one that
    /// the rule does not name counts.
    pub fn covers(&self, address: &str, attributes: &[String]) -> bool {
        let is_named = |attribute: &String| self.attributes.contains(attribute);
        let every_one = self.attributes.is_empty()
            || (!attributes.is_empty() && attributes.iter().all(is_named));
        every_one && WildMatch::new(&self.address).matches(address)
    }

    /// Finds what is wrong with `rules`, below `path`.
    pub fn check(rules: &[Self], path: &str, faults: &mut FieldErrors) {
        if rules.len() > MAX_IGNORED {
            faults.add(path, format!("has at most {MAX_IGNORED} rules"));
        }
        for (at, rule) in rules.iter().enumerate().take(MAX_IGNORED) {
            if !(1..=MAX_TEXT).contains(&rule.address.len()) {
                let path = format!("{path}[{at}].address");
                faults.add(path, format!("has 1 to {MAX_TEXT} bytes, such as `module.cdn.*`"));
            }
            if rule.attributes.len() > MAX_NAMES {
                let path = format!("{path}[{at}].attributes");
                faults.add(path, format!("has at most {MAX_NAMES} names"));
            }
            for (number, name) in rule.attributes.iter().enumerate().take(MAX_NAMES) {
                if !(1..=MAX_TEXT).contains(&name.len()) {
                    let path = format!("{path}[{at}].attributes[{number}]");
                    faults.add(path, format!("has 1 to {MAX_TEXT} bytes"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_covers_the_resources_of_its_pattern_if_it_names_all_that_changes() {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (pattern, of, address, changed, covers) in [
            ("aws_instance.web", &[][..], "aws_instance.web", &["tags"][..], true),
            ("aws_instance.web", &[], "aws_instance.web2", &["tags"], false),
            ("module.cdn.*", &[], "module.cdn.aws_s3_bucket.a[\"x\"]", &[], true),
            ("module.cdn.*", &[], "module.cdn2.aws_s3_bucket.a", &[], false),
            ("*", &["tags"], "a.b", &["tags"], true),
            ("*", &["tags", "etag"], "a.b", &["tags"], true),
            ("*", &["tags"], "a.b", &["tags", "size"], false),
            ("*", &["tags"], "a.b", &[], false),
        ] {
            let rule = IgnoreRule { address: pattern.to_owned(), attributes: names(of) };
            assert_eq!(rule.covers(address, &names(changed)), covers, "{pattern} {of:?} {address}");
        }
    }
}
