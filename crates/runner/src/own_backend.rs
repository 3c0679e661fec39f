//! The place for the state that a module names itself. Canyon does not use it: the runner says where states are.

use crate::hcl_blocks::{self, Block};
use crate::module_files::{self, Syntax};
use serde_json::Value;
use std::path::Path;

/// The first `backend` or `cloud` block of the module, with the file that has it.
pub fn of(module: &Path) -> Option<String> {
    let files = module_files::of(module)?;
    files.into_iter().find_map(|file| {
        let block = match file.syntax {
            Syntax::Hcl => in_hcl(&file.text),
            Syntax::Json => in_json(&serde_json::from_str(&file.text).ok()?),
        };
        block.map(|block| format!("`{block}` in {}", file.name))
    })
}

fn in_hcl(text: &str) -> Option<String> {
    let terraform = |block: &Block<'_>| block.header == ["terraform"];
    hcl_blocks::blocks(text).iter().filter(|block| terraform(block)).find_map(|block| {
        // The body begins with `{`, and its `}` ends nothing that is open here.
        let inner = hcl_blocks::blocks(block.body.get(1..)?);
        inner.into_iter().find_map(|block| match &*block.header {
            [kind, of] if kind == "backend" => Some(format!("backend \"{of}\"")),
            [kind] if kind == "cloud" => Some("cloud".to_owned()),
            _ => None,
        })
    })
}

/// The same in `{"terraform": {"backend": {"s3": {…}}}}`, where each object may be a list of such objects.
fn in_json(document: &Value) -> Option<String> {
    let in_terraform = |terraform: &Value| {
        if terraform.get("cloud").is_some() {
            return Some("cloud".to_owned());
        }
        let of = each(terraform.get("backend")?).find_map(|of| of.as_object()?.keys().next())?;
        Some(format!("backend \"{of}\""))
    };
    each(document).filter_map(|part| part.get("terraform")).flat_map(each).find_map(in_terraform)
}

fn each(value: &Value) -> impl Iterator<Item = &Value> {
    let one = std::slice::from_ref(value);
    value.as_array().map_or(one, Vec::as_slice).iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn found(name: &str, text: &str) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(name), text).unwrap();
        of(folder.path())
    }

    #[test]
    fn a_block_for_the_state_is_found_in_each_syntax() {
        let s3 = "# backend \"no\" {}\nterraform {\n  required_version = \">= 1.6\"\n  required_providers {\n    backend = {}\n  }\n\
                  \n  backend \"s3\" {\n    bucket = \"b\"\n  }\n}\n";
        for (name, text, expected) in [
            ("main.tf", s3, Some("`backend \"s3\"` in main.tf")),
            ("main.tofu", "terraform {\n  cloud {\n  }\n}\n", Some("`cloud` in main.tofu")),
            (
                "a.tf.json",
                r#"{"terraform": [{"backend": {"gcs": {}}}]}"#,
                Some("`backend \"gcs\"` in a.tf.json"),
            ),
            ("a.tf.json", r#"[{"terraform": {"cloud": {}}}]"#, Some("`cloud` in a.tf.json")),
            ("main.tf", "terraform {\n  required_version = \"1\"\n}\nbackend \"s3\" {\n}\n", None),
            ("main.txt", s3, None),
        ] {
            assert_eq!(found(name, text).as_deref(), expected, "{text}");
        }
    }
}
