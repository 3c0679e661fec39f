//! Tokens that another library signs, and forged ones.

use super::*;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};

struct Agent {
    pair: Ed25519KeyPair,
    signing: EncodingKey,
}

impl Agent {
    fn new() -> Self {
        let document =
            Ed25519KeyPair::generate_pkcs8(&aws_lc_rs::rand::SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        Self { pair, signing: EncodingKey::from_ed_der(document.as_ref()) }
    }

    fn key(&self) -> AgentKey {
        AgentKey(self.pair.public_key().as_ref().try_into().unwrap())
    }

    fn token(&self, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some(self.key().fingerprint());
        encode(&header, claims, &self.signing).unwrap()
    }

    /// Signs these exact parts, whatever they contain.
    fn signed(&self, header: &str, claims: &str) -> String {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let signed = format!("{}.{}", part(header), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.pair.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

fn verified(key: AgentKey, token: &str) -> Option<Value> {
    KeyToken::parse(token).and_then(|token| key.verify(&token).ok())
}

#[test]
fn a_token_of_another_library_is_valid_and_every_change_to_it_is_rejected() {
    let agent = Agent::new();
    let claims = json!({ "sub": "berlin-1", "exp": 60 });
    let token = agent.token(&claims);
    assert_eq!(verified(agent.key(), &token), Some(claims));
    assert_eq!(verified(Agent::new().key(), &token), None, "another key");
    for at in 0..token.len() {
        for bit in 0..7 {
            let mut changed = token.clone().into_bytes();
            changed[at] ^= 1 << bit;
            let Ok(changed) = String::from_utf8(changed) else { continue };
            assert_eq!(verified(agent.key(), &changed), None, "{changed}");
        }
    }
    for cut in 0..token.len() {
        assert_eq!(verified(agent.key(), &token[..cut]), None, "{cut}");
    }
}

#[test]
fn a_signed_header_that_instructs_the_verifier_is_rejected() {
    let agent = Agent::new();
    let kid = agent.key().fingerprint();
    let good = format!(r#"{{"alg":"EdDSA","kid":"{kid}"}}"#);
    assert_eq!(verified(agent.key(), &agent.signed(&good, "{}")), Some(json!({})));
    let headers = [
        format!(r#"{{"alg":"none","kid":"{kid}"}}"#),
        format!(r#"{{"alg":"HS256","kid":"{kid}"}}"#),
        format!(r#"{{"alg":"eddsa","kid":"{kid}"}}"#),
        format!(r#"{{"alg":"EdDSA","alg":"none","kid":"{kid}"}}"#),
        format!(r#"{{"alg":"EdDSA","kid":"{kid}","typ":"at+jwt"}}"#),
        format!(r#"{{"alg":"EdDSA","kid":"{kid}","jku":"https://acme.com"}}"#),
        format!(r#"{{"alg":"EdDSA","kid":"{kid}","jwk":{{}}}}"#),
        format!(r#"{{"alg":"EdDSA","kid":"{kid}","x5c":[]}}"#),
        format!(r#"{{"alg":"EdDSA","kid":"{kid}","crit":["b64"],"b64":false}}"#),
        format!(r#"{{"alg":"EdDSA","kid":"{}"}}"#, kid.to_uppercase()),
        format!(r#"{{"alg":"EdDSA","kid":"{}"}}"#, "0".repeat(64)),
        r#"{"alg":"EdDSA"}"#.to_owned(),
        r#"["EdDSA"]"#.to_owned(),
    ];
    for header in headers {
        assert_eq!(verified(agent.key(), &agent.signed(&header, "{}")), None, "{header}");
    }
    for text in ["", ".", "..", "...", "a.b.c", &".".repeat(3000)] {
        assert!(KeyToken::parse(text).is_none(), "{text}");
    }
}

#[test]
fn a_key_reads_back_from_pem_and_other_texts_are_no_keys() {
    let key = Agent::new().key();
    assert_eq!(AgentKey::from_pem(&key.to_pem()), Ok(key));
    assert_eq!(AgentKey::from_pem(key.to_pem().trim_end()), Ok(key));
    // RFC 8410, 10.1.
    let known = "-----BEGIN PUBLIC KEY-----\n\
                 MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
                 -----END PUBLIC KEY-----\n";
    let known = AgentKey::from_pem(known).unwrap();
    assert_eq!(known.0[..4], [0x19, 0xbf, 0x44, 0x09]);
    // An X25519 key differs in one byte.
    let other = key.to_pem().replace("K2Vw", "K2Vu");
    for text in ["", "x", other.as_str(), &key.to_pem()[1..]] {
        assert_eq!(AgentKey::from_pem(text), Err(InvalidAgentKey), "{text}");
    }
}
