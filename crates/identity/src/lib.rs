//! Authentication of callers, and Canyon's own identity: bearer secrets, the keys that Canyon
//! holds, its documents as an OIDC issuer, and its signatures.

pub mod agent_key;
pub mod assertion;
#[cfg(feature = "aws-http")]
pub mod aws_http;
pub mod bearer;
#[cfg(feature = "federation")]
pub mod federation;
pub mod file_signer;
pub mod issuer;
pub mod job_environment;
pub mod job_name;
pub mod jwk;
pub mod key_file;
pub mod master_key;
pub mod master_keys;
#[cfg(feature = "federation")]
pub mod signed_request;
pub mod signer;
pub mod system;
#[cfg(test)]
mod test_signer;
#[cfg(feature = "verify")]
pub mod verify;
