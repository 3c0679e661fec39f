//! A program that prints a token, or `{"token": "…"}`, on its standard output: for identities that are not in a file, such as an IAM
//! role that an OIDC provider represents.
//!
//! It is started without a shell, so its arguments are passed unchanged.

use super::SignInError;
use super::source::MAX_LENGTH;
use secrecy::SecretString;
use serde::Deserialize;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

/// The most characters of its error output that a message repeats.
const MAX_ERROR_CHARS: usize = 300;

/// The program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialHelper {
    /// Its path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How long it may run.
    pub timeout: Duration,
}

impl CredentialHelper {
    pub(super) async fn token(&self) -> Result<SecretString, SignInError> {
        match tokio::time::timeout(self.timeout, self.run()).await {
            Ok(result) => result,
            Err(_) => Err(self.failed(&format!("it took more than {} s", self.timeout.as_secs()))),
        }
    }

    fn failed(&self, reason: &str) -> SignInError {
        SignInError(format!("the credential helper `{}`: {reason}", self.program.display()))
    }

    async fn run(&self) -> Result<SecretString, SignInError> {
        let failed = |error: std::io::Error| self.failed(&error.to_string());
        // If this future is dropped, the program is killed.
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (stdout, stderr) = tokio::join!(bounded(stdout), bounded(stderr));
        let (stdout, stderr) = (stdout.map_err(failed)?, stderr.map_err(failed)?);
        if stdout.len() > MAX_LENGTH {
            return Err(self.failed("it printed more than a token"));
        }
        let status = child.wait().await.map_err(failed)?;
        if !status.success() {
            let error: String = String::from_utf8_lossy(&stderr)
                .trim()
                .chars()
                .filter(|c| !c.is_control())
                .take(MAX_ERROR_CHARS)
                .collect();
            return Err(self.failed(&format!("it ended with {status}, and printed: {error}")));
        }
        let text = String::from_utf8(stdout).map_err(|_| self.failed("it printed no text"))?;
        let text = text.trim();
        if !text.starts_with('{') {
            return Ok(text.to_owned().into());
        }
        let printed: Option<Printed> = serde_json::from_str(text).ok();
        let no_token = || self.failed("it printed JSON, but no text `token`");
        printed.map(|printed| printed.token).ok_or_else(no_token)
    }
}

/// What the credential helpers of Tharsis print instead of the token alone.
#[derive(Deserialize)]
struct Printed {
    token: SecretString,
}

/// Reads a pipe up to one byte more than [`MAX_LENGTH`]; then the pipe is closed.
async fn bounded(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let limit = u64::try_from(MAX_LENGTH).unwrap_or(u64::MAX) + 1;
        pipe.take(limit).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}
