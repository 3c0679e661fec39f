//! Keys in KMS, with moto's KMS; the tests script answers that moto does not have.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as the tests do")]

mod master_key;
mod moto;
mod signer;
