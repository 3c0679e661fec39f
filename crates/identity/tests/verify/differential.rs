//! Compares Canyon's verifier with `PyJWT`: every token that Canyon accepts, `PyJWT` accepts too.

use crate::issuer::{AUDIENCE, Issuer, SUBJECT, URL, encode, judge, offline};
use canyon_domain::ports::Clock as _;
use canyon_identity::system::System;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

const TOKENS: usize = 50_000;
const GOOD: usize = 300;

/// Pseudo-random numbers, equal in each run (xorshift64*, Vigna 2016).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(number).unwrap() % sides
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())].clone()
    }
}

/// Valid tokens, then tokens with changed contents or changed bytes.
fn tokens(issuer: &Issuer, now: i64) -> Vec<String> {
    let mut dice = Dice(0x00ca_1107);
    let headers = [
        (r#"{"alg":"RS256","kid":"rsa"}"#, "rsa"),
        (r#"{"alg":"ES256","kid":"ec","typ":"JWT"}"#, "ec"),
        (r#"{"alg":"EdDSA","kid":"ed"}"#, "ed"),
    ];
    let claims =
        json!({ "iss": URL, "aud": AUDIENCE, "sub": SUBJECT, "iat": now, "exp": now + 7_200 });
    let mut tokens = Vec::new();
    for n in 0..GOOD {
        let (header, by) = headers[n % 3];
        let mut claims = claims.clone();
        claims["n"] = json!(n);
        tokens.push(issuer.sign(header, &claims.to_string(), by));
    }
    while tokens.len() < TOKENS {
        let token = if dice.roll(3) == 0 {
            let (header, by) = changed_header(&mut dice, &headers);
            issuer.sign(&header, &changed_claims(&mut dice, &claims, now), by)
        } else {
            let good = tokens[dice.roll(GOOD)].clone();
            changed_bytes(&mut dice, &good)
        };
        tokens.push(token);
    }
    tokens
}

fn changed_header(
    dice: &mut Dice,
    good: &[(&'static str, &'static str)],
) -> (String, &'static str) {
    let (header, by) = dice.pick(good);
    let by = if dice.roll(4) == 0 { dice.pick(&["rsa", "ec", "ed", "pss", "rsa512"]) } else { by };
    let mut header: Value = serde_json::from_str(header).unwrap();
    if dice.roll(2) == 0 {
        let algs = ["RS256", "ES256", "EdDSA", "HS256", "none", "PS256", "RS512", ""];
        let (alg, kid) = (dice.pick(&algs), dice.pick(&["rsa", "ec", "ed", "", "x"]));
        let (name, value) = dice.pick(&[
            ("alg", json!(alg)),
            ("kid", json!(kid)),
            ("kid", json!(1)),
            ("typ", json!("x")),
            ("crit", json!(["exp"])),
            ("b64", json!(false)),
        ]);
        header[name] = value;
    }
    (header.to_string(), by)
}

fn changed_claims(dice: &mut Dice, good: &Value, now: i64) -> String {
    let mut claims = good.clone();
    for _ in 0..dice.roll(3) {
        let name = dice.pick(&["iss", "aud", "sub", "exp", "nbf", "iat", "jti"]);
        let values = [
            json!(null),
            json!(1),
            json!(-1),
            json!(now - 7_200),
            json!(now + 7_200),
            json!(1.9e9),
            json!(1e300),
            json!("1900000000"),
            json!(true),
            json!([]),
            json!({}),
            json!(""),
            json!(URL),
            json!([URL]),
            json!(AUDIENCE),
            json!([AUDIENCE]),
            json!([AUDIENCE, "x"]),
            json!([AUDIENCE, 1]),
            json!(SUBJECT),
            json!([SUBJECT]),
        ];
        claims[name] = dice.pick(&values);
        if dice.roll(4) == 0 {
            claims.as_object_mut().unwrap().remove(name);
        }
    }
    claims.to_string()
}

fn changed_bytes(dice: &mut Dice, good: &str) -> String {
    let mut bytes = good.as_bytes().to_vec();
    let at = dice.roll(bytes.len());
    match dice.roll(6) {
        0 => bytes[at] ^= 1 << dice.roll(7),
        1 => {
            bytes.remove(at);
        }
        2 => bytes.insert(at, dice.pick(b"A=.-_+/ \n{\"")),
        3 => bytes.truncate(at),
        4 => bytes.extend(encode([u8::try_from(dice.roll(256)).unwrap()]).bytes()),
        _ => {
            let other = dice.roll(bytes.len());
            bytes.swap(at, other);
        }
    }
    // Each line has one token.
    String::from_utf8_lossy(&bytes).replace(['\n', '\r', '\0'], " ")
}

/// `1` or `0` for each token.
fn pyjwt(jwks: &Value, tokens: &[String]) -> Vec<bool> {
    let python = std::env::var("CANYON_TEST_AWS_PYTHON")
        .expect("set CANYON_TEST_AWS_PYTHON; scripts/test does, scripts/setup installs it");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/verify/judge.py");
    let mut child = Command::new(python)
        .args(["-B", script, &jwks.to_string(), URL, AUDIENCE, SUBJECT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = tokens.join("\n") + "\n";
    let writing = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    assert!(output.status.success());
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| line == "1").collect()
}

#[tokio::test]
async fn every_accepted_token_is_accepted_by_another_verifier() {
    let issuer = Issuer::new();
    let (verifier, policy) = (offline(Arc::new(System)), issuer.policy());
    let tokens = tokens(&issuer, System.now().as_second());
    let judged = pyjwt(&issuer.jwks(), &tokens);
    assert_eq!(judged.len(), tokens.len());
    let (mut both, mut ours_alone) = (0, Vec::new());
    for (n, (token, theirs)) in tokens.iter().zip(judged).enumerate() {
        let ours = judge(&verifier, token, &policy).await;
        assert!(n >= GOOD || ours.is_ok() && theirs, "{n}: {ours:?} {token}");
        both += usize::from(ours.is_ok() && theirs);
        if ours.is_ok() && !theirs {
            ours_alone.push(token);
        }
    }
    assert!(ours_alone.is_empty(), "{ours_alone:#?}");
    // Otherwise the changed tokens prove nothing.
    assert!(both > GOOD + 100 && both < tokens.len() / 2, "{both}");
}
