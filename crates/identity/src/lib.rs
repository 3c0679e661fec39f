//! Who is calling and who Canyon is: bearer secrets, the keys that Canyon holds, and what it
//! publishes as an OIDC issuer.

pub mod bearer;
pub mod issuer;
pub mod key_file;
pub mod master_key;
pub mod system;
