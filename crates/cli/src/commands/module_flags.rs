//! The flags of commands that run a module: which one, and the values of its variables.

use super::exposed_variables;
use super::secret_flags::SecretFlags;
use crate::error::CliError;
use crate::output::Output;
use crate::{module_argument, variables};
use canyon_api::client::Client;
use canyon_domain::job::Module;
use canyon_domain::variables::secret_json::SecretJson;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The module, and the values of its variables.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ModuleFlags {
    /// `./folder[//sub]`, `git::<https|ssh>://...[//sub][?ref=...]`, `oci://...[//sub][?tag=...]`,
    /// `sha256:<digest>`, or `-` for the text of main.tf on stdin
    #[arg(long, allow_hyphen_values = true)]
    module: Option<String>,
    /// Set a variable of the module: `name=value`, where lists and maps are written in HCL
    #[arg(long, value_name = "NAME=VALUE", requires = "module")]
    var: Vec<String>,
    /// Read variables from a .tfvars, .tfvars.json or .yaml file
    #[arg(long, value_name = "FILE", requires = "module")]
    var_file: Vec<PathBuf>,
    #[command(flatten)]
    secrets: SecretFlags,
}

/// A module that the API can fetch, with the values of its variables.
#[derive(Debug, Default)]
pub(crate) struct ModuleOfRequest {
    pub(crate) module: Option<Module>,
    pub(crate) secret_inputs: BTreeMap<String, SecretJson>,
}

impl ModuleFlags {
    /// Whether stdin has the text of the module.
    pub(crate) fn is_on_stdin(&self) -> bool {
        self.module.as_deref() == Some("-")
    }

    /// Reads the values, and makes the module available to the API.
    pub(crate) async fn resolve(
        &self,
        client: &Client,
        output: Output,
    ) -> Result<ModuleOfRequest, CliError> {
        let secret_inputs = self.secrets.read(self.is_on_stdin())?;
        let folder = self.module.as_deref().and_then(module_argument::folder);
        let inputs = variables::values(&self.var_file, &self.var, folder.as_deref())?;
        exposed_variables::warn_of_inputs(&inputs, output);
        let Some(given) = &self.module else { return Ok(ModuleOfRequest::default()) };
        let source = module_argument::resolve(given, client, output).await?;
        let module = Module { source: source.source, source_code: source.source_code, inputs };
        Ok(ModuleOfRequest { module: Some(module), secret_inputs })
    }
}
