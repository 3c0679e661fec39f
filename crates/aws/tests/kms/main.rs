//! Keys in KMS, against moto's KMS; what moto does not do is answered by the test itself.

#![expect(clippy::unwrap_used, reason = "the helpers of tests may panic as the tests do")]

mod master_key;
mod moto;
mod signer;
