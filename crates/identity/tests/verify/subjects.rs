//! The holders of tokens that stand for one service account are distinguished.

use crate::issuer::{AUDIENCE, Issuer, SUBJECT, TestClock, URL, offline};
use canyon_domain::ports::Clock as _;
use canyon_domain::principal::SubjectDigest;
use canyon_domain::trust_policy::TrustPolicy;
use canyon_identity::verify::Verifier;
use serde_json::{Value, json};

/// One issuer, and policies of one service account that trust it.
struct Bench {
    issuer: Issuer,
    verifier: Verifier,
    clock: std::sync::Arc<TestClock>,
    policies: Vec<TrustPolicy>,
}

impl Bench {
    async fn subject(&self, claims: Value) -> SubjectDigest {
        let now = self.clock.now().as_second();
        let mut payload = json!({ "iss": URL, "aud": AUDIENCE, "sub": SUBJECT, "exp": now + 600 });
        payload.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        let header = r#"{"alg":"EdDSA","kid":"ed"}"#;
        let token = self.issuer.sign(header, &payload.to_string(), "ed");
        self.verifier.verify(&token, &self.policies).await.unwrap().subject
    }
}

#[tokio::test]
async fn a_renewed_token_has_the_subject_of_the_first_and_another_holders_has_another() {
    let (issuer, clock) = (Issuer::new(), TestClock::new());
    let bound = |claims: &[(&str, &str)]| {
        let mut policy = issuer.policy();
        policy.bound_claims =
            claims.iter().map(|(name, it)| ((*name).to_owned(), vec![(*it).to_owned()])).collect();
        policy
    };
    let policies = vec![
        bound(&[("sub", SUBJECT), ("workflow", "deploy")]),
        bound(&[("sub", SUBJECT), ("workflow", "test")]),
        bound(&[("sub", "other"), ("workflow", "deploy")]),
        bound(&[("project_id", "7")]),
    ];
    let verifier = offline(clock.clone());
    let mut bench = Bench { issuer, verifier, clock, policies };
    let holders = [
        json!({ "workflow": "deploy" }),
        json!({ "workflow": "test" }),
        json!({ "workflow": "deploy", "sub": "other" }),
        json!({ "project_id": "7", "sub": "one" }),
        json!({ "project_id": "7", "sub": "two" }),
    ];
    let mut first = Vec::new();
    for holder in &holders {
        first.push(bench.subject(holder.clone()).await);
    }
    let different =
        |one: usize| (0..first.len()).all(|it| (first[it] == first[one]) == (it == one));
    assert!((0..first.len()).all(different), "{first:?}");

    // Later, by another run, and after an administrator has changed the order of the policies and their keys.
    bench.clock.advance(3_600);
    bench.policies.reverse();
    for policy in &mut bench.policies {
        let keys = policy.jwks.as_mut().unwrap()["keys"].as_array_mut().unwrap();
        keys.retain(|key| key["kid"] == "ed");
    }
    for (holder, first) in holders.into_iter().zip(&first) {
        let mut renewed = holder;
        renewed["jti"] = json!("another");
        renewed["run_id"] = json!("8");
        assert_eq!(bench.subject(renewed.clone()).await, *first, "{renewed}");
    }
}
