//! Encryption to a recipient that the caller named in the request.

use age::x25519::Recipient;
use canyon_api::sealed_log::encode_frame;
use canyon_domain::failure::{Failure, FailureClass};
use std::io;

/// Encrypts to one `age` recipient.
#[derive(Clone, Debug)]
pub struct Seal(Recipient);

impl Seal {
    /// A seal for `recipient`, the value of the deployment's `field`.
    ///
    /// # Errors
    ///
    /// A [`Failure`] of class `user` if it is not an `age` public key.
    pub fn new(field: &str, recipient: &str) -> Result<Self, Failure> {
        recipient.parse().map(Self).map_err(|reason| {
            Failure::new(
                FailureClass::User,
                format!(
                    "`{field}` is not an age public key ({reason}); make one with `age-keygen`"
                ),
            )
        })
    }

    /// Encrypts `content` as one `age` file.
    ///
    /// # Errors
    ///
    /// When the machine has no randomness.
    pub fn file(&self, content: &[u8]) -> io::Result<Vec<u8>> {
        age::encrypt(&self.0, content).map_err(io::Error::other)
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
