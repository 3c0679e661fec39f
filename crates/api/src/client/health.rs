//! The server's health, which needs no token.

use super::{Client, ClientError};
use serde::Deserialize;

#[derive(Deserialize)]
struct Health {
    version: String,
}

impl Client {
    /// The version of the server.
    ///
    /// # Errors
    ///
    /// No status of its own; see [`ClientError`].
    pub async fn server_version(&self) -> Result<String, ClientError> {
        let health: Health =
            self.read(self.http.to_canyon.get(format!("{}/health", self.url))).await?;
        Ok(health.version)
    }
}
