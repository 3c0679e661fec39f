//! A program that writes a token to its standard output: for identities that no file has, such as an IAM
//! role by way of an OIDC provider.
//!
//! It is started without a shell, so its arguments mean what they say.

use super::SignInError;
use super::source::MAX_LENGTH;
use secrecy::SecretString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;

/// The most of its complaint that is repeated, in characters.
const WORDS: usize = 300;

/// The program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialHelper {
    /// Its path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How long it may take.
    pub patience: Duration,
}

impl CredentialHelper {
    pub(super) async fn token(&self) -> Result<SecretString, SignInError> {
        match tokio::time::timeout(self.patience, self.run()).await {
            Ok(result) => result,
            Err(_) => Err(self.failed(&format!("it took more than {} s", self.patience.as_secs()))),
        }
    }

    fn failed(&self, why: &str) -> SignInError {
        SignInError(format!("the credential helper `{}`: {why}", self.program.display()))
    }

    async fn run(&self) -> Result<SecretString, SignInError> {
        let failed = |error: std::io::Error| self.failed(&error.to_string());
        // When this is given up, the program is killed.
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (said, complained) = (child.stdout.take(), child.stderr.take());
        let (said, complained) = tokio::join!(bounded(said), bounded(complained));
        let (said, complained) = (said.map_err(failed)?, complained.map_err(failed)?);
        if said.len() > MAX_LENGTH {
            return Err(self.failed("it wrote more than a token"));
        }
        let status = child.wait().await.map_err(failed)?;
        if !status.success() {
            let words: String = String::from_utf8_lossy(&complained)
                .trim()
                .chars()
                .filter(|c| !c.is_control())
                .take(WORDS)
                .collect();
            return Err(self.failed(&format!("it ended with {status}, and said: {words}")));
        }
        let text = String::from_utf8(said).map_err(|_| self.failed("it wrote no text"))?;
        Ok(text.trim().to_owned().into())
    }
}

/// What a pipe brings, up to a byte more than is taken; then it is closed.
async fn bounded(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let limit = u64::try_from(MAX_LENGTH).unwrap_or(u64::MAX) + 1;
        pipe.take(limit).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}
