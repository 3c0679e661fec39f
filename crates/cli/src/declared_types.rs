//! The types of the variables that a module on this machine declares, as far as they decide how `--var` is read.

use hcl_edit::parser::parse_body;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// How Terraform reads a value on the command line
/// (<https://developer.hashicorp.com/terraform/language/values/variables#complex-typed-values>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// As it is: for `string`, `number`, `bool`, and without a type.
    Literal,
    /// As HCL: for every other type.
    Hcl,
}

/// The variables of the module in `folder`. A file that cannot be read declares nothing here: the run says why.
pub(crate) fn of(folder: &Path) -> BTreeMap<String, Reading> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_hcl = |name: &str| [".tf", ".tofu"].iter().any(|end| name.ends_with(end));
    let texts = files
        .filter(|file| is_hcl(&file.file_name().to_string_lossy()) && file.path().is_file())
        .filter_map(|file| fs::read_to_string(file.path()).ok());
    let bodies = texts.filter_map(|text| parse_body(&text).ok());
    let mut declared = BTreeMap::new();
    for body in bodies {
        for block in body.get_blocks("variable") {
            let Some(name) = block.labels.first() else { continue };
            let kind = block.body.get_attribute("type").map(|kind| kind.value.to_string());
            let is_literal = match kind.as_deref().map(|kind| kind.trim().trim_matches('"')) {
                None | Some("string" | "number" | "bool") => true,
                Some(_) => false,
            };
            let reading = if is_literal { Reading::Literal } else { Reading::Hcl };
            declared.insert(name.as_str().to_owned(), reading);
        }
    }
    declared
}

#[cfg(test)]
mod tests {
    use super::Reading::{Hcl, Literal};
    use super::*;

    #[test]
    fn a_declared_type_says_how_a_value_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let text = "variable \"a\" {}\nvariable \"b\" {\n  type = string # text\n}\nvariable \"c\" { type = list(string) }\n\
                    variable \"d\" {\n  type = any\n}\nvariable \"e\" { type = \"number\" }\noutput \"f\" { value = 1 }\n";
        fs::write(folder.path().join("main.tf"), text).unwrap();
        fs::write(folder.path().join("broken.tf"), "variable \"g\" {").unwrap();
        let found = of(folder.path());
        let expected = [("a", Literal), ("b", Literal), ("c", Hcl), ("d", Hcl), ("e", Literal)];
        let expected = expected.map(|(name, reading)| (name.to_owned(), reading));
        assert_eq!(found, BTreeMap::from(expected));
        assert!(of(&folder.path().join("none")).is_empty());
    }
}
