//! `--secret-var` and `--secret-var-file`: secret values are never arguments, which other users of the machine can read.

use crate::body::{read_file, read_file_or_stdin};
use crate::commands::variables::without_last_end;
use crate::error::CliError;
use canyon_domain::json::Json;
use canyon_domain::variables::secret_json::SecretJson;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _};
use std::path::Path;

/// Which variables of the module are secret, and where their values are.
#[derive(Debug, Default, clap::Args)]
pub(super) struct SecretFlags {
    /// Set a secret variable of the module, by its name alone: the command asks for the value, or reads it from stdin
    #[arg(long, value_name = "NAME", requires = "module")]
    secret_var: Vec<String>,
    /// Set a secret variable of the module to the text of a file, without the end of its last line
    #[arg(long, value_name = "NAME=FILE", requires = "module")]
    secret_var_file: Vec<String>,
}

impl SecretFlags {
    /// The values by name. `stdin_is_taken` if stdin has the module.
    pub(super) fn read(
        &self,
        stdin_is_taken: bool,
    ) -> Result<BTreeMap<String, SecretJson>, CliError> {
        let mut values = BTreeMap::new();
        let mut insert = |name: &str, text: String| {
            let value = Json::String(without_last_end(text)).into();
            match values.insert(name.to_owned(), value) {
                None => Ok(()),
                Some(_) => Err(CliError::usage(format!("the secret `{name}` is given twice"))),
            }
        };
        if self.secret_var.iter().any(|name| name.contains('=')) {
            return Err(CliError::usage_with_hint(
                "--secret-var: give the name alone; other users of the machine can read arguments",
                "the value comes from stdin; or give --secret-var-file NAME=FILE",
            ));
        }
        let is_terminal = io::stdin().is_terminal();
        if !is_terminal && self.secret_var.len() + usize::from(stdin_is_taken) > 1 {
            return Err(CliError::usage_with_hint(
                "--secret-var: stdin has one value",
                "give the others by --secret-var-file NAME=FILE",
            ));
        }
        for name in &self.secret_var {
            insert(name, asked(name, is_terminal)?)?;
        }
        for assignment in &self.secret_var_file {
            let (name, file) = assignment
                .split_once('=')
                .ok_or_else(|| CliError::usage("--secret-var-file: write it as name=file"))?;
            insert(name, read_file(Path::new(file))?)?;
        }
        Ok(values)
    }
}

fn asked(name: &str, is_terminal: bool) -> Result<String, CliError> {
    if is_terminal {
        let stdin = |source| CliError::file("read", Path::new("stdin"), source);
        return rpassword::prompt_password(format!("{name}: ")).map_err(stdin);
    }
    let text = read_file_or_stdin(Path::new("-"))?;
    if text.is_empty() {
        return Err(CliError::usage(format!("the secret `{name}` has no value: stdin is empty")));
    }
    Ok(text)
}
