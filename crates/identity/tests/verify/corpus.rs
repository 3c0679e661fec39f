//! Forged and malformed tokens, from known attacks on other verifiers (RFC 8725, CVE-2015-9235,
//! CVE-2018-0114, CVE-2026-25537, and the classes of JSON and base64 ambiguity).

use crate::issuer::{AUDIENCE, Issuer, SUBJECT, TestClock, URL, encode, judge, offline};
use aws_lc_rs::hmac;
use canyon_domain::ports::Clock as _;
use canyon_identity::verify::{InvalidKeySet, KeySet, Refusal};
use serde_json::{Value, json};

const RSA: &str = r#"{"alg":"RS256","kid":"rsa"}"#;

fn payload(now: i64) -> Value {
    json!({ "iss": URL, "aud": AUDIENCE, "sub": SUBJECT, "iat": now, "nbf": now, "exp": now + 600 })
}

fn with(now: i64, name: &str, value: Value) -> String {
    let mut claims = payload(now);
    claims[name] = value;
    claims.to_string()
}

fn without(now: i64, name: &str) -> String {
    let mut claims = payload(now);
    claims.as_object_mut().unwrap().remove(name);
    claims.to_string()
}

#[tokio::test]
async fn a_valid_token_is_accepted_in_every_form_that_issuers_use() {
    let (issuer, clock) = (Issuer::new(), TestClock::new());
    let (verifier, policy) = (offline(clock.clone()), issuer.policy());
    let now = clock.now().as_second();
    let good = payload(now).to_string();
    let headers = [
        (RSA, "rsa"),
        (r#"{"alg":"ES256","kid":"ec"}"#, "ec"),
        (r#"{"alg":"EdDSA","kid":"ed"}"#, "ed"),
        (r#"{"kid":"rsa","typ":"JWT","alg":"RS256"}"#, "rsa"),
        (r#"{"typ":"at+jwt","alg":"RS256","kid":"rsa"}"#, "rsa"),
        (r#"{"typ":"application/at+JWT","alg":"RS256","kid":"rsa"}"#, "rsa"),
        (r#"{"typ":"JWT","alg":"RS256","x5t":"eBZ_cn3sXYAd0ch4THBKHIgOwOE","kid":"rsa"}"#, "rsa"),
        (" {\n\"alg\": \"RS256\", \"kid\": \"rsa\" }", "rsa"),
    ];
    for (header, by) in headers {
        let token = issuer.sign(header, &good, by);
        assert_eq!(judge(&verifier, &token, &policy).await, Ok(0), "{header}");
    }
    for payload in [
        with(now, "aud", json!([AUDIENCE])),
        with(now, "aud", json!(["other", AUDIENCE])),
        with(now, "exp", json!(now + 1)),
        with(now, "exp", json!(now - 59)),
        with(now, "nbf", json!(now + 60)),
        with(now, "iat", json!(now + 60)),
        with(now, "exp", json!(1_900_000_000.75)),
        with(now, "more", json!({ "nested": [1, { "a": null }], "a": "\u{e4}" })),
        without(now, "nbf"),
        without(now, "iat"),
    ] {
        let token = issuer.sign(RSA, &payload, "rsa");
        assert_eq!(judge(&verifier, &token, &policy).await, Ok(0), "{payload}");
    }
}

#[tokio::test]
async fn a_token_of_more_than_16_kib_is_refused_although_its_signature_is_valid() {
    let (issuer, clock) = (Issuer::new(), TestClock::new());
    let (verifier, policy) = (offline(clock.clone()), issuer.policy());
    let of_size = |bytes| {
        let claims = with(clock.now().as_second(), "more", json!("x".repeat(bytes)));
        issuer.sign(RSA, &claims, "rsa")
    };
    assert_eq!(judge(&verifier, &of_size(8_000), &policy).await, Ok(0));
    assert!(judge(&verifier, &of_size(16_000), &policy).await.is_err());
}

/// Header of a token, and the key that signs it.
fn bad_headers() -> Vec<(String, &'static str)> {
    let long = "k".repeat(129);
    let jwk = r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#;
    let headers: Vec<(String, &'static str)> = [
        (r#"{"alg":"RS256"}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"RSA"}"#, "rsa"),
        (r#"{"alg":"RS256","kid":""}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"ec"}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa/../rsa"}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"' OR 1=1 --"}"#, "rsa"),
        (r#"{"alg":"RS256","kid":["rsa"]}"#, "rsa"),
        (r#"{"alg":"RS256","kid":null}"#, "rsa"),
        (r#"{"alg":"RS256","kid":1}"#, "rsa"),
        (r#"{"kid":"rsa"}"#, "rsa"),
        (r#"{"alg":"","kid":"rsa"}"#, "rsa"),
        (r#"{"alg":"none","kid":"rsa"}"#, "rsa"),
        (r#"{"alg":"None","kid":"rsa"}"#, "rsa"),
        (r#"{"alg":"nOnE"}"#, "rsa"),
        (r#"{"alg":"rs256","kid":"rsa"}"#, "rsa"),
        (r#"{"alg":"RS256 ","kid":"rsa"}"#, "rsa"),
        (r#"{"alg":["RS256"],"kid":"rsa"}"#, "rsa"),
        (r#"{"alg":"RS384","kid":"rsa"}"#, "rsa"),
        (r#"{"alg":"RS512","kid":"rsa"}"#, "rsa512"),
        (r#"{"alg":"RS256","kid":"rsa"}"#, "rsa512"),
        (r#"{"alg":"PS256","kid":"rsa"}"#, "pss"),
        (r#"{"alg":"RS256","kid":"rsa"}"#, "pss"),
        (r#"{"alg":"ES256","kid":"rsa"}"#, "ec"),
        (r#"{"alg":"RS256","kid":"ec"}"#, "ec"),
        (r#"{"alg":"ES384","kid":"ec"}"#, "ec"),
        (r#"{"alg":"ES256K","kid":"ec"}"#, "ec"),
        (r#"{"alg":"EdDSA","kid":"ec"}"#, "ed"),
        (r#"{"alg":"Ed25519","kid":"ed"}"#, "ed"),
        (r#"{"alg":"RS256","kid":"rsa","alg":"RS256"}"#, "rsa"),
        (r#"{"alg":"none","kid":"rsa","alg":"RS256"}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa","typ":"JWE"}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa","typ":"dpop+jwt"}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa","typ":1}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa","cty":"JWT"}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa","crit":["exp"]}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa","crit":["b64"],"b64":false}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa","b64":true}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa","zip":"DEF"}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa","enc":"A256GCM"}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa","jku":"https://issuer.example.com/jwks"}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa","x5u":"https://issuer.example.com/x"}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa","x5c":["MIIB"]}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa","x5t":1}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa","":""}"#, "rsa"),
        (r#"["RS256","rsa"]"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa"}{}"#, "rsa"),
        (r#"{"alg":"RS256","kid":"rsa""#, "rsa"),
        ("null", "rsa"),
        ("", "rsa"),
    ]
    .map(|(header, by)| (header.to_owned(), by))
    .into();
    let more = [
        format!(r#"{{"alg":"RS256","kid":"{long}"}}"#),
        format!(r#"{{"alg":"RS256","kid":"rsa","jwk":{jwk}}}"#),
        format!(r#"{{"alg":"RS256","kid":"rsa","jwk":"{}"}}"#, jwk.replace('"', "\\\"")),
    ];
    headers.into_iter().chain(more.map(|header| (header, "rsa"))).collect()
}

#[tokio::test]
async fn a_header_that_instructs_the_verifier_is_rejected() {
    let (issuer, clock) = (Issuer::new(), TestClock::new());
    let (verifier, policy) = (offline(clock.clone()), issuer.policy());
    let good = payload(clock.now().as_second()).to_string();
    let headers = bad_headers();
    assert!(headers.len() >= 50);
    for (header, by) in headers {
        let judged = judge(&verifier, &issuer.sign(&header, &good, by), &policy).await;
        assert!(matches!(judged, Err(Refusal::NotVerified(_))), "{header}: {judged:?}");
    }
}

#[tokio::test]
async fn a_signature_that_is_not_of_the_key_is_rejected() {
    let (issuer, other_issuer, clock) = (Issuer::new(), Issuer::new(), TestClock::new());
    let (verifier, policy) = (offline(clock.clone()), issuer.policy());
    let now = clock.now().as_second();
    let good = payload(now).to_string();
    let token = issuer.sign(RSA, &good, "rsa");
    let (signed, signature) = token.rsplit_once('.').unwrap();
    // The public key as a shared secret: an attack on verifiers that let the token choose the
    // algorithm.
    let jwks = issuer.jwks();
    let confused = |secret: &[u8], header: &str| {
        let signed = format!("{}.{}", encode(header), encode(&good));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
        format!("{signed}.{}", encode(tag))
    };
    let der_like = jwks["keys"][0]["n"].as_str().unwrap().as_bytes();
    let zero_ec = format!("{}.{}", encode(r#"{"alg":"ES256","kid":"ec"}"#), encode(&good));
    let ec = issuer.sign(r#"{"alg":"ES256","kid":"ec"}"#, &good, "ec");
    let other = issuer.sign(RSA, &with(now, "sub", json!("other")), "rsa");
    let bad = [
        other_issuer.sign(RSA, &good, "rsa"),
        other_issuer.sign(r#"{"alg":"ES256","kid":"ec"}"#, &good, "ec"),
        other_issuer.sign(r#"{"alg":"EdDSA","kid":"ed"}"#, &good, "ed"),
        confused(der_like, r#"{"alg":"HS256","kid":"rsa"}"#),
        confused(jwks.to_string().as_bytes(), r#"{"alg":"HS256","kid":"rsa"}"#),
        confused(b"", r#"{"alg":"HS256","kid":"rsa"}"#),
        confused(der_like, RSA),
        format!("{signed}."),
        signed.to_owned(),
        format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode(&good)),
        format!("{}.{}.", encode(RSA), encode(&good)),
        format!("{signed}.{signature}="),
        format!("{signed}.{signature}.{signature}"),
        format!("{signed}.{signature}\n"),
        format!(" {token}"),
        format!("{token} "),
        format!("{signed}.{}", &signature[..signature.len() - 2]),
        format!("{signed}.{signature}AA"),
        format!("{signed}.{}", signature.replace('-', "+").replace('_', "/") + "+"),
        format!("{}.{signature}", other.rsplit_once('.').unwrap().0),
        format!("{signed}.{}", other.rsplit_once('.').unwrap().1),
        format!("{zero_ec}.{}", encode([0; 64])),
        format!("{zero_ec}.{}", encode([0; 0])),
        format!("{zero_ec}.{}", encode([0xff; 64])),
        format!("{ec}x"),
        token.replacen('.', "..", 1),
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "...".to_owned(),
        "x".repeat(20_000),
        // Encrypted (RFC 7516): five parts.
        format!("{token}.{signature}.{signature}"),
        // As JSON (RFC 7515, section 7.2).
        json!({ "payload": encode(&good), "protected": encode(RSA), "signature": signature })
            .to_string(),
    ];
    for token in bad {
        let judged = judge(&verifier, &token, &policy).await;
        assert!(matches!(judged, Err(Refusal::NotVerified(_))), "{token}: {judged:?}");
    }
    assert_eq!(judge(&verifier, &token, &policy).await, Ok(0));
}

#[tokio::test]
async fn a_signed_token_with_invalid_claims_is_rejected() {
    let (issuer, clock) = (Issuer::new(), TestClock::new());
    let (verifier, policy) = (offline(clock.clone()), issuer.policy());
    let now = clock.now().as_second();
    let good = payload(now).to_string();
    let end = good.trim_end_matches('}');
    let bad = [
        without(now, "exp"),
        with(now, "exp", json!(null)),
        with(now, "exp", json!((now + 600).to_string())),
        with(now, "exp", json!([now + 600])),
        with(now, "exp", json!({ "$numberLong": "1900000000" })),
        with(now, "exp", json!(true)),
        with(now, "exp", json!(-1)),
        with(now, "exp", json!(0)),
        with(now, "exp", json!(now - 60)),
        with(now, "exp", json!(u64::MAX)),
        with(now, "exp", json!(i64::MAX)),
        with(now, "exp", json!(1e300)),
        with(now, "exp", json!(1.0e15)),
        with(now, "nbf", json!(now + 61)),
        with(now, "nbf", json!("0")),
        with(now, "nbf", json!(null)),
        with(now, "iat", json!(now + 61)),
        with(now, "iat", json!("0")),
        with(now, "iat", json!({})),
        with(now, "jti", json!(1)),
        with(now, "sub", json!([SUBJECT])),
        with(now, "sub", json!(format!("{SUBJECT}\n"))),
        with(now, "iss", json!([URL])),
        with(now, "iss", json!(format!("{URL}/"))),
        with(now, "iss", json!("HTTPS://ISSUER.EXAMPLE.COM")),
        with(now, "iss", json!("https://issuer.example.com.evil.example")),
        with(now, "iss", json!(null)),
        without(now, "iss"),
        without(now, "sub"),
        without(now, "aud"),
        with(now, "aud", json!([])),
        with(now, "aud", json!({ "0": AUDIENCE })),
        format!("{end},\"sub\":\"{SUBJECT}\"}}"),
        format!("{end},\"exp\":1900000000}}"),
        format!("{end},\"x\":{{\"a\":1,\"a\":2}}}}"),
        format!("{end},\"\\u0073ub\":\"{SUBJECT}\"}}"),
        format!("{good} x"),
        format!("[{good}]"),
        format!("\u{feff}{good}"),
        "null".to_owned(),
        String::new(),
        "[".repeat(5_000),
    ];
    for payload in bad {
        let token = issuer.sign(RSA, &payload, "rsa");
        assert!(judge(&verifier, &token, &policy).await.is_err(), "{payload}");
    }
}

#[test]
fn a_key_set_is_accepted_if_it_has_a_usable_public_key() {
    let issuer = Issuer::new();
    let rsa = issuer.rsa_jwk("a");
    let changed = |name: &str, value: Value| {
        let mut key = rsa.clone();
        key[name] = value;
        json!({ "keys": [key] })
    };
    assert!(
        KeySet::from_value(
            &json!({ "keys": [rsa, { "kty": "new" }, { "kty": "EC", "crv": "P-521" }] })
        )
        .is_ok()
    );
    assert!(KeySet::from_value(&json!({ "keys": vec![rsa.clone(); 64] })).is_ok());
    let none = Err(InvalidKeySet::NoneUsable);
    for (set, expected) in [
        (json!({ "keys": [] }), none.clone()),
        (json!({ "keys": {} }), Err(InvalidKeySet::NoSet)),
        (json!({ "keys": [1] }), Err(InvalidKeySet::NoSet)),
        (json!([]), Err(InvalidKeySet::NoSet)),
        (json!({ "keys": vec![rsa.clone(); 65] }), Err(InvalidKeySet::TooMany)),
        (changed("d", json!("AQAB")), Err(InvalidKeySet::Secret)),
        (json!({ "keys": [{ "kty": "oct", "k": "AAAA" }] }), Err(InvalidKeySet::Secret)),
        (changed("use", json!("enc")), none.clone()),
        (changed("alg", json!("RS512")), none.clone()),
        (changed("alg", json!("HS256")), none.clone()),
        (changed("key_ops", json!(["sign"])), none.clone()),
        (changed("n", json!("AQAB")), none.clone()),
        (changed("n", json!(encode([0xff; 128]))), none.clone()),
        (changed("e", json!("")), none.clone()),
        (changed("kid", json!(1)), none.clone()),
        (changed("kty", json!("EC")), none),
    ] {
        assert_eq!(KeySet::from_value(&set), expected, "{set}");
    }
    let twice = r#"{"keys":[],"keys":[]}"#;
    assert_eq!(KeySet::from_bytes(twice.as_bytes()), Err(InvalidKeySet::NoSet));
}
