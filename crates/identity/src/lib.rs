//! Who is calling and who Canyon is: bearer secrets, the keys that Canyon holds, what it publishes
//! as an OIDC issuer, and what it signs as one.

pub mod agent_key;
pub mod assertion;
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
pub mod signer;
pub mod system;
#[cfg(test)]
mod test_signer;
#[cfg(feature = "verify")]
pub mod verify;
