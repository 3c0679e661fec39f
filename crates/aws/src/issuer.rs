//! The issuer whose keys are in KMS.

use crate::kms_signer::KmsSigner;
use crate::settings::Settings;
use canyon_identity::issuer::Issuer;
use canyon_identity::signer::Signer;
use canyon_identity::system::System;
use std::sync::Arc;

/// The issuer that the settings describe. The first of its keys signs; the others stay published for
/// what they have signed. Nothing is asked of KMS yet.
pub fn issuer(settings: &Settings, kms: &aws_sdk_kms::Client) -> Issuer {
    let signer = |key: &String| Arc::new(KmsSigner::new(kms.clone(), key)) as Arc<dyn Signer>;
    let mut signers = settings.signing_keys.iter().map(signer);
    // The function `events` has no signing key, and publishes none.
    let active = signers.next().unwrap_or_else(|| signer(&String::new()));
    Issuer::new(&settings.issuer_url, active, signers.collect(), Arc::new(System), Arc::new(System))
}
