//! Verifiers of the published keys accept what KMS signs.

use crate::moto::{answering, kms, make_key, signing_key};
use aws_sdk_kms::types::{KeySpec, KeyUsageType};
use canyon_aws::kms_signer::KmsSigner;
use canyon_identity::assertion::AssertionRequest;
use canyon_identity::issuer::Issuer;
use canyon_identity::signer::{Signer, SignerError};
use canyon_identity::system::System;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const URL: &str = "https://canyon.example.com";

fn issuer(kms: &aws_sdk_kms::Client, keys: &[&str]) -> Issuer {
    let mut signers =
        keys.iter().map(|key| Arc::new(KmsSigner::new(kms.clone(), *key)) as Arc<dyn Signer>);
    let active = signers.next().unwrap();
    Issuer::new(URL, active, signers.collect(), Arc::new(System), Arc::new(System))
}

async fn token(issuer: &Issuer) -> String {
    let statement = AssertionRequest {
        subject: "org:1:runner:2".to_owned(),
        audience: "sts.amazonaws.com".to_owned(),
        claims: Map::new(),
        lifetime: Duration::from_mins(5),
    };
    issuer.assertion(&statement).await.unwrap().expose_secret().to_owned()
}

fn verified(token: &str, keys: &Value) -> Option<Value> {
    let keys: JwkSet = serde_json::from_value(keys.clone()).unwrap();
    let key = keys.find(&decode_header(token).unwrap().kid.unwrap())?;
    let mut validation = Validation::new(Algorithm::RS256);
    validation.set_audience(&["sts.amazonaws.com"]);
    validation.set_issuer(&[URL]);
    let decoded = decode::<Value>(token, &DecodingKey::from_jwk(key).unwrap(), &validation);
    Some(decoded.unwrap().claims)
}

#[tokio::test]
async fn a_token_of_either_key_is_valid_while_both_are_published() {
    let kms = kms();
    let (old, new) = (signing_key(&kms).await, signing_key(&kms).await);
    let (before, after) = (issuer(&kms, &[&old, &new]), issuer(&kms, &[&new, &old]));
    let tokens = [token(&before).await, token(&after).await];
    let kids = tokens.each_ref().map(|token| decode_header(token).unwrap().kid.unwrap());
    assert_ne!(kids[0], kids[1]);
    for keys in [before.jwks().await.unwrap(), after.jwks().await.unwrap()] {
        for token in &tokens {
            assert_eq!(verified(token, &keys).unwrap()["sub"], "org:1:runner:2");
        }
    }
    let withdrawn = issuer(&kms, &[&new]).jwks().await.unwrap();
    assert_eq!(verified(&tokens[0], &withdrawn), None);
}

#[tokio::test]
async fn an_alias_that_changes_causes_no_tokens_of_an_unpublished_key() {
    let kms = kms();
    let (one, other) = (signing_key(&kms).await, signing_key(&kms).await);
    let alias = format!("alias/{}", &one[one.len() - 12..]);
    kms.create_alias().alias_name(&alias).target_key_id(&one).send().await.unwrap();
    let issuer = issuer(&kms, &[&alias]);
    let keys = issuer.jwks().await.unwrap();
    kms.update_alias().alias_name(&alias).target_key_id(&other).send().await.unwrap();
    assert!(verified(&token(&issuer).await, &keys).is_some());
}

#[tokio::test]
async fn a_key_that_cannot_sign_is_named_with_the_key_to_create_instead() {
    let kms = kms();
    let kinds = [
        make_key(&kms, KeySpec::EccNistP256, KeyUsageType::SignVerify).await,
        make_key(&kms, KeySpec::Rsa2048, KeyUsageType::EncryptDecrypt).await,
    ];
    for key in kinds {
        let error = KmsSigner::new(kms.clone(), &key).public_jwk().await.unwrap_err();
        assert!(matches!(error, SignerError::Unusable { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&key) && text.contains("RSA_2048"), "{text}");
    }
    let absent = "arn:aws:kms:eu-west-1:123456789012:key/00000000-0000-0000-0000-000000000000";
    let error = KmsSigner::new(kms, absent).sign(b"x").await.unwrap_err();
    assert!(matches!(error, SignerError::Unusable { .. }), "{error:?}");
}

#[tokio::test]
async fn only_a_disabled_or_deleted_key_is_unusable() {
    let refusing = |status, code: &'static str| {
        let body = json!({ "__type": code, "message": "m" }).to_string();
        let kms = answering(move |_, _| (status, body.clone()));
        // One attempt: this test is not about the SDK's retries.
        let config = kms
            .config()
            .to_builder()
            .retry_config(aws_sdk_kms::config::retry::RetryConfig::disabled());
        KmsSigner::new(aws_sdk_kms::Client::from_conf(config.build()), "k")
    };
    for code in ["DisabledException", "KMSInvalidStateException", "NotFoundException"] {
        let error = refusing(400, code).public_jwk().await.unwrap_err();
        assert!(matches!(&error, SignerError::Unusable { reason, .. } if reason.contains(code)));
    }
    for (status, code) in [
        (400, "ThrottlingException"),
        (400, "AccessDeniedException"),
        (500, "KMSInternalException"),
    ] {
        let error = refusing(status, code).public_jwk().await.unwrap_err();
        assert!(matches!(error, SignerError::Failed { .. }), "{code}: {error:?}");
    }
}

#[tokio::test]
async fn a_long_message_is_hashed_before_it_is_sent_and_the_public_key_is_fetched_once() {
    // moto hashes a digest again, so the test checks the request here.
    let moto = kms();
    let arn = signing_key(&moto).await;
    let public = moto.get_public_key().key_id(&arn).send().await.unwrap();
    let base64 = |bytes: &[u8]| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(bytes)
    };
    let public = json!({
        "KeyId": arn, "KeySpec": "RSA_2048", "KeyUsage": "SIGN_VERIFY",
        "SigningAlgorithms": ["RSASSA_PSS_SHA_256", "RSASSA_PKCS1_V1_5_SHA_256"],
        "PublicKey": base64(public.public_key.unwrap().as_ref()),
    });
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    let kms = answering(move |operation, body| {
        seen.lock().unwrap().push((operation.to_owned(), body.to_owned()));
        let signed = json!({ "Signature": "c2lnbmVk" }).to_string();
        (200, if operation == "Sign" { signed } else { public.to_string() })
    });
    let signer = KmsSigner::new(kms, "alias/canyon");
    let long = [b'x'; 4_097];
    assert_eq!(signer.sign(&long[..4_096]).await.unwrap(), b"signed");
    assert_eq!(signer.sign(&long).await.unwrap(), b"signed");
    let requests = requests.lock().unwrap();
    let operations: Vec<_> = requests.iter().map(|(operation, _)| operation.as_str()).collect();
    assert_eq!(operations, ["GetPublicKey", "Sign", "Sign"]);
    let sent = |index: usize| serde_json::from_str::<Value>(&requests[index].1).unwrap();
    let expected = |kind: &str, message: &[u8]| {
        json!({
            "KeyId": arn, "MessageType": kind, "Message": base64(message),
            "SigningAlgorithm": "RSASSA_PKCS1_V1_5_SHA_256",
        })
    };
    assert_eq!(sent(1), expected("RAW", &long[..4_096]));
    assert_eq!(sent(2), expected("DIGEST", &Sha256::digest(long)));
}
