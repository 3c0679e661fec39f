//! Decrypts what a runner encrypted to the caller's `age` key.

use crate::body::read_file;
use crate::error::CliError;
use age::x25519::Identity;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use canyon_api::sealed_log::decode_frames;
use std::path::Path;

/// A secret key.
pub(crate) struct Key(Identity);

impl Key {
    /// A new key, for this process alone.
    pub(crate) fn generate() -> Self {
        Self(Identity::generate())
    }

    /// Its public key.
    pub(crate) fn recipient(&self) -> String {
        self.0.to_public().to_string()
    }

    /// Reads the first key of a file in the format of `age-keygen`.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let text = secrecy::SecretString::from(read_file(path)?);
        let lines = secrecy::ExposeSecret::expose_secret(&text).lines().map(str::trim);
        let mut keys = lines.filter(|line| line.starts_with("AGE-SECRET-KEY-"));
        // The parser's reason is left out: it could quote the key.
        keys.next().and_then(|key| key.parse().ok()).map(Self).ok_or_else(|| {
            CliError::usage_with_hint(
                format!("--identity: `{}` holds no age secret key", path.display()),
                "create a key with `age-keygen -o key.txt`, and deploy with its public key",
            )
        })
    }

    /// Decrypts one `age` file.
    pub(crate) fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, CliError> {
        age::decrypt(&self.0, sealed).map_err(|error| {
            CliError::usage_with_hint(
                format!("--identity: cannot decrypt: {error}"),
                "use the secret key that belongs to the public key of the deployment",
            )
        })
    }

    /// Decrypts one `age` file in base64.
    pub(crate) fn open_base64(&self, sealed: &str) -> Result<Vec<u8>, CliError> {
        let bytes = BASE64_STANDARD.decode(sealed.trim());
        self.open(&bytes.map_err(|_| CliError::usage("the encrypted outputs are not base64"))?)
    }
}

/// Decrypts an encrypted log from parts that may be cut anywhere.
pub(crate) struct SealedLog {
    key: Key,
    rest: Vec<u8>,
}

impl SealedLog {
    pub(crate) fn new(key: Key) -> Self {
        Self { key, rest: Vec::new() }
    }

    /// Adds `bytes`, and returns the text of all frames that are complete now.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<Vec<u8>, CliError> {
        self.rest.extend(bytes);
        let (frames, rest) = decode_frames(&self.rest).map_err(|error| {
            CliError::usage_with_hint(
                error.to_string(),
                "read an unencrypted log without --identity",
            )
        })?;
        let mut text = Vec::new();
        for frame in frames {
            text.extend(self.key.open(frame)?);
        }
        self.rest = rest.to_vec();
        Ok(text)
    }
}

/// Whether `bytes` are the beginning of an encrypted log: the first frame is an `age` file.
pub(crate) fn is_sealed(bytes: &[u8]) -> bool {
    const LENGTH_BYTES: usize = 4;
    bytes.get(LENGTH_BYTES..).is_some_and(|file| file.starts_with(b"age-encryption.org/v1"))
}
