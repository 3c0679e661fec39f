//! The OIDC issuer with keys in KMS.

use crate::kms_signer::KmsSigner;
use crate::settings::Settings;
use canyon_identity::issuer::{self, Issuer};
use canyon_identity::signer::Signer;
use canyon_identity::system::System;
use std::sync::Arc;

/// The issuer of tokens about runners. Does not call KMS yet.
pub fn issuer(settings: &Settings, kms: &aws_sdk_kms::Client) -> Issuer {
    with_keys(&settings.issuer_url, &settings.signing_keys, kms)
}

/// The issuer of jobs' tokens.
pub fn jobs_issuer(settings: &Settings, kms: &aws_sdk_kms::Client) -> Issuer {
    with_keys(&issuer::jobs_issuer_url(&settings.issuer_url), &settings.job_signing_keys, kms)
}

/// The first key signs; the others stay published for the tokens that they signed.
fn with_keys(url: &str, keys: &[String], kms: &aws_sdk_kms::Client) -> Issuer {
    let signer = |key: &String| Arc::new(KmsSigner::new(kms.clone(), key)) as Arc<dyn Signer>;
    let mut signers = keys.iter().map(signer);
    // The function `events` has no signing key and publishes none.
    let active = signers.next().unwrap_or_else(|| signer(&String::new()));
    Issuer::new(url, active, signers.collect(), Arc::new(System), Arc::new(System))
}
