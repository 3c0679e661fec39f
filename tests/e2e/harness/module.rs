//! Modules to deploy. None needs a provider from the network: `terraform_data` is built in.

use canyon_domain::job::{Inputs, Module};
use serde_json::Value;
use std::path::Path;

/// A module whose text is in the request.
pub(crate) fn inline(code: impl Into<String>) -> Module {
    Module {
        source: "inline".parse().unwrap(),
        source_code: Some(code.into()),
        inputs: Inputs::new(),
    }
}

/// A module from another source.
pub(crate) fn from(source: &str) -> Module {
    Module { source: source.parse().unwrap(), source_code: None, inputs: Inputs::new() }
}

/// The same module with a value for a variable.
pub(crate) fn with(mut module: Module, name: &str, value: impl Into<Value>) -> Module {
    module.inputs.insert(name.to_owned(), value.into().into());
    module
}

/// 30 resources, and outputs that show the input.
pub(crate) const THIRTY: &str = r#"
variable "greeting" {
  type    = string
  default = "hello"
}

resource "terraform_data" "thing" {
  count = 30
  input = "${var.greeting} ${count.index}"
}

output "first" { value = terraform_data.thing[0].output }
output "count" { value = length(terraform_data.thing) }
"#;

/// `count` resources that write their number and `round` into a ledger, `seconds` after they have
/// begun. In another round, all are replaced.
pub(crate) fn ledger(path: &Path, count: u32, seconds: &str, round: u32) -> Module {
    let path = path.display();
    inline(format!(
        r#"
resource "terraform_data" "step" {{
  count            = {count}
  triggers_replace = {round}
  provisioner "local-exec" {{
    command = "echo begin {round} ${{count.index}} >> '{path}'; sleep {seconds}; echo end {round} ${{count.index}} >> '{path}'"
  }}
}}
"#
    ))
}

/// A resource whose creation ends when the file exists, or after five minutes with a failure.
pub(crate) fn waiting_for(file: &Path) -> Module {
    let wait = format!(
        "for i in $(seq 3000); do if [ -e '{}' ]; then exit 0; fi; sleep 0.1; done; exit 1",
        file.display()
    );
    inline(format!(
        "resource \"terraform_data\" \"gate\" {{\n  provisioner \"local-exec\" {{\n    command = {wait:?}\n  }}\n}}\n"
    ))
}
