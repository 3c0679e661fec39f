//! Canyon's adapters for AWS: settings, clients, keys in KMS, the event bus.
pub mod clients;
pub mod event_bus;
pub mod issuer;
mod kms_failure;
pub mod kms_signer;
pub mod logging;
pub mod master_key;
mod s3_http;
pub mod settings;
