//! The token files: `identity/` in the job's folder.
//!
//! ```text
//! aws, gcp, azure     one token each
//! token-<name>        the tokens of `job.identity.tokens`
//! gcp.json            how Google's libraries exchange their token
//! ```
//!
//! Each file is replaced in one step, because a library may read it at any moment.

use canyon_domain::job_identity::{
    AWS_AUDIENCE, AZURE_AUDIENCE, JobIdentity, NamedToken, TokenPhase,
};
use serde_json::json;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The folder of the token files.
#[derive(Clone, Debug)]
pub struct Files(PathBuf);

impl Files {
    /// Uses `folder`, which [`Files::write_settings`] creates.
    pub fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// The token for AWS.
    pub fn aws(&self) -> PathBuf {
        self.0.join("aws")
    }

    /// The token for Google Cloud.
    pub fn gcp(&self) -> PathBuf {
        self.0.join("gcp")
    }

    /// The settings file that `GOOGLE_APPLICATION_CREDENTIALS` names.
    pub fn gcp_settings(&self) -> PathBuf {
        self.0.join("gcp.json")
    }

    /// The token for Azure.
    pub fn azure(&self) -> PathBuf {
        self.0.join("azure")
    }

    /// The file of one of the further tokens.
    pub fn named(&self, token: &NamedToken) -> PathBuf {
        self.0.join(format!("token-{}", token.name))
    }

    /// Writes the token for `audience` to each file that `of` needs it in.
    ///
    /// # Errors
    ///
    /// When a file cannot be written.
    pub fn write_token(&self, of: &JobIdentity, audience: &str, token: &str) -> io::Result<()> {
        let gcp = of.gcp.as_ref().filter(|gcp| gcp.audience == audience);
        let clouds = [
            (of.aws.is_some() && audience == AWS_AUDIENCE).then(|| self.aws()),
            gcp.map(|_| self.gcp()),
            (of.azure.is_some() && audience == AZURE_AUDIENCE).then(|| self.azure()),
        ];
        let named = of.tokens.iter().flatten().filter(|named| named.audience == audience);
        let named = named.map(|named| self.named(named));
        clouds.into_iter().flatten().chain(named).try_for_each(|path| write(&path, token))
    }

    /// Creates the folder, and writes the files that are not tokens.
    ///
    /// # Errors
    ///
    /// When the folder or a file cannot be written.
    pub fn write_settings(&self, of: &JobIdentity, phase: TokenPhase) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
        let Some(gcp) = &of.gcp else { return Ok(()) };
        // Google's AIP-4117, "External Account Credentials (Workload Identity Federation)". Here the provider's name
        // has no scheme; as an audience of tokens it may have one.
        let mut settings = json!({
            "type": "external_account",
            "audience": gcp.audience.strip_prefix("https:").unwrap_or(&gcp.audience),
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": "https://sts.googleapis.com/v1/token",
            "credential_source": {"file": self.gcp(), "format": {"type": "text"}},
        });
        if let Some(account) = gcp.account(phase) {
            settings["service_account_impersonation_url"] = json!(format!(
                "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/{account}:generateAccessToken"
            ));
        }
        write(&self.gcp_settings(), &settings.to_string())
    }
}

/// Replaces the file in one step. Only its owner can read it, from the first byte on.
fn write(path: &Path, content: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(content.as_bytes())?;
    fs::rename(new, path)
}
