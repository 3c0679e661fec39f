//! Encryption to the recipients that the caller named in the request.

use age::Encryptor;
use age::x25519::Recipient;
use canyon_api::sealed_log::encode_frame;
use canyon_domain::age_recipients;
use canyon_domain::failure::{Failure, FailureClass};
use std::io::{self, Write};

/// Encrypts to `age` recipients: each of them alone can read it.
#[derive(Clone, Debug)]
pub struct Seal(Vec<Recipient>);

impl Seal {
    /// A seal for `recipients`, the value of the deployment's `field`.
    ///
    /// # Errors
    ///
    /// A [`Failure`] of class `user` if one is not an `age` public key.
    pub fn new(field: &str, recipients: &str) -> Result<Self, Failure> {
        let parse = |key: &str| {
            key.parse().map_err(|reason| {
                let what = format!("`{field}` has a text that is not an age public key ({reason})");
                Failure::new(FailureClass::User, format!("{what}; make one with `age-keygen`"))
            })
        };
        age_recipients::split(recipients).map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Encrypts `content` as one `age` file.
    ///
    /// # Errors
    ///
    /// When the machine has no randomness.
    pub fn file(&self, content: &[u8]) -> io::Result<Vec<u8>> {
        let recipients = self.0.iter().map(|recipient| recipient as &dyn age::Recipient);
        let encryptor = Encryptor::with_recipients(recipients).map_err(io::Error::other)?;
        let mut file = Vec::with_capacity(content.len());
        let mut writer = encryptor.wrap_output(&mut file)?;
        writer.write_all(content)?;
        writer.finish()?;
        Ok(file)
    }

    /// Encrypts `content` as one frame of a log.
    ///
    /// # Errors
    ///
    /// When the machine has no randomness.
    pub fn frame(&self, content: &[u8]) -> io::Result<Vec<u8>> {
        self.file(content).map(|file| encode_frame(&file))
    }
}
