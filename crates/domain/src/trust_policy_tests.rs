use super::*;
use proptest::prelude::*;
use serde_json::json;

const ISSUER: &str = "https://issuer.example.com";

fn order(matching: ClaimMatching, claims: &[(&str, &str)]) -> PolicyRequest {
    let mut bound_claims: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in claims {
        bound_claims.entry((*name).to_owned()).or_default().push((*value).to_owned());
    }
    PolicyRequest {
        issuer: ISSUER.to_owned(),
        audience: "canyon-acme".to_owned(),
        bound_claims_type: matching,
        bound_claims,
        jwks: None,
        scoped_roles: Vec::new(),
    }
}

fn policy(matching: ClaimMatching, claims: &[(&str, &str)]) -> Result<TrustPolicy, FieldErrors> {
    TrustPolicy::new(order(matching, claims), |_| false)
}

fn glob(name: &str, value: &str) -> Result<TrustPolicy, FieldErrors> {
    match name {
        "sub" => policy(ClaimMatching::Glob, &[(name, value)]),
        // Next to a valid identity, so that only the other claim decides.
        _ => policy(ClaimMatching::Glob, &[("sub", "repo:acme/api:ref:x"), (name, value)]),
    }
}

fn claims(value: Value) -> Map<String, Value> {
    let Value::Object(mut map) = value else { panic!("{value}") };
    map.entry("iss").or_insert(json!(ISSUER));
    map.entry("aud").or_insert(json!("canyon-acme"));
    map
}

/// Each would admit foreign tokens.
const TOO_WIDE: [(&str, &str); 40] = [
    ("sub", "*"),
    ("sub", "**"),
    ("sub", "*:*"),
    ("sub", "*/*"),
    ("sub", "*:*:*"),
    ("sub", "repo:*"),
    ("sub", "repo:*/*"),
    ("sub", "repo:*/api:ref:refs/heads/main"),
    ("sub", "repo:acme*"),
    ("sub", "repo:acme*/api:ref:x"),
    ("sub", "repo:acme-c*/api:*"),
    ("sub", "repo:acme**/api"),
    ("sub", "*acme/api:ref:x"),
    ("sub", "rep*:acme/api:ref:x"),
    ("sub", "project_path:*"),
    ("sub", "project_path:acme*"),
    ("sub", "project_path:acme*/api:ref_type:branch:ref:main"),
    ("sub", "organization:*"),
    ("sub", "organization:acme*:project:x:workspace:y:run_phase:apply"),
    ("sub", "organization:*:pipeline:deploy"),
    ("sub", "repository_owner:*"),
    ("sub", "repository_owner:acme*"),
    ("sub", "system:serviceaccount:*"),
    ("sub", "system:serviceaccount:*:canyon-agent"),
    ("sub", "system:serviceaccount:team-*:canyon-agent"),
    ("sub", "system:serviceaccount:*:*"),
    ("sub", "system:*:canyon:canyon-agent"),
    ("sub", "system:node:*"),
    ("sub", "spiffe://*"),
    ("sub", "spiffe://acme.example*"),
    ("sub", "spiffe://acme.example/*"),
    ("sub", "spiffe://acme.example/ns/*/sa/agent"),
    ("sub", "https://github.example/*"),
    ("sub", "abcdefghij*"),
    ("repository", "acme*"),
    ("repository", "acme-corporation*"),
    ("repository_owner", "acme-corporation*"),
    ("environment", "production*"),
    ("email", "*@acme.example"),
    ("ref", "refs/*"),
];

/// Each covers names of one owner only.
const NARROW: [(&str, &str); 12] = [
    ("sub", "repo:acme/*:ref:refs/heads/main"),
    ("sub", "repo:acme/api:ref:refs/heads/*"),
    ("sub", "repo:acme/api-*:environment:production"),
    ("sub", "repo:acme/api:*"),
    ("sub", "project_path:acme/*:ref_type:branch:ref:main"),
    ("sub", "organization:acme:project:x:workspace:*:run_phase:apply"),
    ("sub", "system:serviceaccount:canyon:*"),
    ("sub", "system:serviceaccount:canyon:agent-*"),
    ("sub", "spiffe://acme.example/ns/canyon/sa/*"),
    ("repository", "acme-corp/*"),
    ("ref", "refs/heads/*"),
    ("job_workflow_ref", "acme/build/.github/workflows/deploy.yml@refs/heads/*"),
];

#[test]
fn a_glob_that_foreign_names_could_match_is_refused_when_it_is_saved() {
    for (name, value) in TOO_WIDE {
        let refused = glob(name, value).expect_err(value).to_string();
        assert!(refused.contains(&format!("`bound_claims.{name}")), "{value}: {refused}");
        assert!(!refused.contains(value) || value.len() < 8, "repeats the value: {refused}");
    }
    for (name, value) in NARROW {
        glob(name, value).unwrap_or_else(|error| panic!("{value}: {error}"));
    }
}

#[test]
fn a_policy_that_would_trust_unknown_tokens_is_refused_with_the_field() {
    let good = || order(ClaimMatching::String, &[("sub", "system:serviceaccount:canyon:agent")]);
    assert!(TrustPolicy::new(good(), |_| false).is_ok());
    let issuer = |text: &str| PolicyRequest { issuer: text.to_owned(), ..good() };
    let audience = |text: &str| PolicyRequest { audience: text.to_owned(), ..good() };
    let bound = |claims: &[(&str, &str)]| order(ClaimMatching::String, claims);
    let empty =
        PolicyRequest { bound_claims: BTreeMap::from([("sub".to_owned(), Vec::new())]), ..good() };
    let cases = [
        (issuer("http://issuer.example.com"), "issuer"),
        (issuer("https://169.254.169.254"), "issuer"),
        (issuer("https://[::ffff:127.0.0.1]"), "issuer"),
        (issuer("https://u@issuer.example.com"), "issuer"),
        (issuer(""), "issuer"),
        (audience(""), "audience"),
        (audience("*"), "audience"),
        (audience("canyon acme"), "audience"),
        (audience("c\u{430}nyon"), "audience"),
        (audience("sts.amazonaws.com"), "audience"),
        (audience("https://kubernetes.default.svc.cluster.local"), "audience"),
        (audience(ISSUER), "audience"),
        (bound(&[]), "bound_claims"),
        (bound(&[("repository", "acme/api")]), "bound_claims"),
        (bound(&[("aud", "x"), ("sub", "y")]), "bound_claims.aud"),
        (bound(&[("iss", "x"), ("sub", "y")]), "bound_claims.iss"),
        (bound(&[("exp", "1"), ("sub", "y")]), "bound_claims.exp"),
        (bound(&[("", "x"), ("sub", "y")]), "bound_claims."),
        (bound(&[("a b", "x"), ("sub", "y")]), "bound_claims.a b"),
        (bound(&[("sub", "")]), "bound_claims.sub"),
        (bound(&[("sub", " x")]), "bound_claims.sub"),
        (bound(&[("sub", "x\n")]), "bound_claims.sub"),
        (bound(&[("sub", "repo:\u{430}cme/api")]), "bound_claims.sub"),
        (bound(&[("sub", "repo:acme/*:ref:x")]), "bound_claims.sub"),
        (bound(&[("sub", "fine"), ("sub", "")]), "bound_claims.sub[1]"),
        (empty, "bound_claims.sub"),
        (order(ClaimMatching::Glob, &[("repository_id", "12345678/*")]), "bound_claims"),
        (PolicyRequest { jwks: Some(json!("x".repeat(MAX_KEY_SET))), ..good() }, "jwks"),
    ];
    for (order, path) in cases {
        let faults = TrustPolicy::new(order.clone(), |_| false).expect_err(path);
        let paths: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(paths, [path], "{order:?}");
    }
}

#[test]
fn an_issuer_has_at_most_255_characters() {
    let of = |length: usize| {
        let start = "https://issuer.example.com/";
        IssuerUrl::new(&format!("{start}{}", "a".repeat(length - start.len())))
    };
    assert!(of(255).is_ok());
    assert!(of(256).is_err());
}

#[test]
fn an_issuer_at_a_private_address_needs_inline_keys_or_the_operators_permission() {
    let inner = || PolicyRequest {
        issuer: "https://10.0.0.1:6443".to_owned(),
        ..order(ClaimMatching::String, &[("sub", "system:serviceaccount:canyon:agent")])
    };
    assert!(TrustPolicy::new(inner(), |_| false).is_err());
    assert!(TrustPolicy::new(inner(), |_| true).is_ok());
    let given = PolicyRequest { jwks: Some(json!({ "keys": [] })), ..inner() };
    assert!(TrustPolicy::new(given, |_| false).is_ok());
}

#[test]
fn the_audience_is_one_text_or_one_of_a_list_of_texts() {
    let policy = policy(ClaimMatching::String, &[("sub", "x")]).unwrap();
    let ours = "canyon-acme";
    let good = [json!(ours), json!([ours]), json!(["other", ours]), json!([ours, "other"])];
    let bad = [
        json!(""),
        json!("other"),
        json!("canyon-acme "),
        json!("CANYON-ACME"),
        json!("canyon-acm"),
        json!([]),
        json!(["other"]),
        json!([[ours]]),
        json!([ours, 1]),
        json!([ours, null]),
        json!([ours, ["x"]]),
        json!({ ours: ours }),
        json!(null),
        json!(1),
        json!(true),
        json!({}),
    ];
    for aud in good {
        assert_eq!(policy.admits(&claims(json!({ "sub": "x", "aud": aud }))), Ok(()), "{aud}");
    }
    for aud in bad {
        let result = policy.admits(&claims(json!({ "sub": "x", "aud": aud })));
        assert_eq!(result, Err(Mismatch::Audience), "{aud}");
    }
    let mut without = claims(json!({ "sub": "x" }));
    without.remove("aud");
    assert_eq!(policy.admits(&without), Err(Mismatch::Audience));
}

#[test]
fn a_claim_must_be_text_and_no_other_type() {
    let policy = policy(ClaimMatching::String, &[("sub", "1"), ("tier", "true")]).unwrap();
    assert_eq!(policy.admits(&claims(json!({ "sub": "1", "tier": "true" }))), Ok(()));
    for sub in [json!(1), json!(1.0), json!(["1"]), json!({ "1": "1" }), json!(null), json!("1 ")] {
        let result = policy.admits(&claims(json!({ "sub": sub, "tier": "true" })));
        assert_eq!(result, Err(Mismatch::Claim("sub".to_owned())), "{sub}");
    }
    let result = policy.admits(&claims(json!({ "sub": "1", "tier": true })));
    assert_eq!(result, Err(Mismatch::Claim("tier".to_owned())));
    let result =
        policy.admits(&claims(json!({ "sub": "1", "tier": "true", "iss": "https://b.c" })));
    assert_eq!(result, Err(Mismatch::Issuer));
}

/// Values that an attacker without the bound `sub` might get instead.
fn near_misses(sub: &str) -> Vec<String> {
    let mut near = vec![
        String::new(),
        format!("{sub}\n"),
        format!("{sub} "),
        format!(" {sub}"),
        format!("{sub}\0"),
        format!("{sub}:x"),
        format!("{sub}/x"),
        format!("x:{sub}"),
        format!("/{sub}"),
        format!("{sub}%"),
        format!("{sub}\u{200b}"),
        sub.replace('/', "%2f"),
        sub.replace(':', "%3a"),
        sub.replacen('/', "\\", 1),
        sub.replace('/', "\u{2215}"),
        sub.replace('a', "\u{430}"),
        sub.replace("acme", "acme-evil"),
        sub.replace("acme", "evil/acme"),
        sub.replace("canyon", "canyon-evil"),
    ];
    near.push(sub.to_ascii_uppercase());
    for at in 0..sub.len() {
        let (start, end) = sub.split_at(at);
        near.push(start.to_owned());
        near.push(format!("{start}{}", &end[1..]));
        near.push(format!("{start}/{end}"));
        near.push(format!("{start}:{end}"));
    }
    near.retain(|it| it != sub);
    near
}

#[test]
fn no_subject_that_resembles_the_bound_one_is_admitted() {
    let exact = [
        "repo:acme/api:ref:refs/heads/main",
        "project_path:acme/api:ref_type:branch:ref:main",
        "system:serviceaccount:canyon:canyon-agent",
        "organization:acme:project:x:workspace:y:run_phase:apply",
        "spiffe://acme.example/ns/canyon/sa/agent",
    ];
    let mut tried = 0;
    for sub in exact {
        for matching in [ClaimMatching::String, ClaimMatching::Glob] {
            let policy = policy(matching, &[("sub", sub)]).unwrap();
            assert_eq!(policy.admits(&claims(json!({ "sub": sub }))), Ok(()));
            for near in near_misses(sub) {
                tried += 1;
                assert!(policy.admits(&claims(json!({ "sub": near }))).is_err(), "{sub}: {near:?}");
            }
        }
    }
    assert!(tried > 1_000, "{tried}");
}

#[test]
fn a_star_stays_within_its_segment() {
    let cases = [
        ("repo:acme/*:ref:refs/heads/main", "repo:acme/api:ref:refs/heads/main", true),
        ("repo:acme/*:ref:refs/heads/main", "repo:acme/a/b:ref:refs/heads/main", false),
        ("repo:acme/*:ref:refs/heads/main", "repo:acme/a:ref:x:ref:refs/heads/main", false),
        ("repo:acme/*:ref:refs/heads/main", "repo:acme/a%2fb:ref:refs/heads/main", false),
        ("repo:acme/*:ref:refs/heads/main", "repo:acme/a\\b:ref:refs/heads/main", false),
        ("repo:acme/*:ref:refs/heads/main", "repo:acme/\u{e4}:ref:refs/heads/main", false),
        ("repo:acme/*:ref:refs/heads/main", "repo:acme-evil/api:ref:refs/heads/main", false),
        ("repo:acme/*:ref:refs/heads/main", "repo:ACME/api:ref:refs/heads/main", false),
        ("repo:acme/*:ref:refs/heads/main", "repo:acme/api:ref:refs/heads/main\n", false),
        ("repo:acme/api:ref:refs/heads/*", "repo:acme/api:ref:refs/heads/main", true),
        ("repo:acme/api:ref:refs/heads/*", "repo:acme/api:ref:refs/heads/feature/x", false),
        ("repo:acme/a*b*c:x", "repo:acme/a1b2c:x", true),
        ("repo:acme/a*b*c:x", "repo:acme/abc:x", true),
        ("repo:acme/a*b*c:x", "repo:acme/acb:x", false),
        ("repo:acme/ab*bc:x", "repo:acme/abc:x", false),
    ];
    for (bound, sub, fits) in cases {
        let policy = glob("sub", bound).unwrap();
        assert_eq!(policy.admits(&claims(json!({ "sub": sub }))).is_ok(), fits, "{bound} {sub:?}");
    }
}

/// The reference: matches the glob from left to right, trying every length of each star.
fn reference_like(glob: &[u8], text: &[u8]) -> bool {
    match (glob.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', glob)), Some((first, rest))) => {
            let may_cover = first.is_ascii_graphic() && !b"/:%\\".contains(first) || *first == b' ';
            reference_like(glob, text) || may_cover && reference_like(&[b"*", glob].concat(), rest)
        }
        (Some((b'*', glob)), None) => reference_like(glob, text),
        (Some((wanted, glob)), Some((first, text))) => {
            wanted == first && reference_like(glob, text)
        }
        _ => false,
    }
}

fn reference(policy: &TrustPolicy, claims: &Value) -> bool {
    let aud = match &claims["aud"] {
        Value::String(one) => vec![Some(one.as_str())],
        Value::Array(list) => list.iter().map(Value::as_str).collect(),
        _ => return false,
    };
    claims["iss"] == policy.issuer.as_str()
        && !aud.contains(&None)
        && aud.contains(&Some(&policy.audience))
        && policy.bound_claims.iter().all(|(name, bound)| {
            let Some(claim) = claims[name].as_str() else { return false };
            let trimmed = claim.trim() == claim;
            bound.iter().any(|bound| match policy.bound_claims_type {
                ClaimMatching::String => bound == claim,
                ClaimMatching::Glob => {
                    trimmed && reference_like(bound.as_bytes(), claim.as_bytes())
                }
            })
        })
}

fn any_claim() -> impl Strategy<Value = Value> {
    prop_oneof![
        6 => "repo:acme/[ab]{1,2}:ref:(refs/heads/)?[ab/%\n]{0,3}".prop_map(Value::from),
        2 => "repo:acme(-evil|/|%2f|:)?[ab]{0,2}:ref:x".prop_map(Value::from),
        1 => Just(json!(["repo:acme/a:ref:x"])),
        1 => any::<i64>().prop_map(Value::from),
        1 => Just(Value::Null),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]
    #[test]
    fn admitting_agrees_with_a_matcher_that_was_written_apart(
        is_glob in any::<bool>(),
        bound in prop::collection::vec("repo:acme/(a|b|ab|a\\*|\\*|\\*b|\\*a\\*):ref:(x|refs/heads/(a|\\*|a\\*b))", 1..3),
        sub in any_claim(),
        aud in prop_oneof![
            4 => Just(json!("canyon-acme")),
            2 => Just(json!(["other", "canyon-acme"])),
            1 => Just(json!(["other"])),
            1 => Just(json!(["canyon-acme", 1])),
            1 => Just(json!([])),
            1 => Just(json!("other")),
        ],
        issuer in prop_oneof![9 => Just(ISSUER), 1 => Just("https://issuer.example.com/")],
    ) {
        let matching = if is_glob { ClaimMatching::Glob } else { ClaimMatching::String };
        let bound: Vec<_> = bound.iter().map(|it| {
            if is_glob { it.clone() } else { it.replace('*', "a") }
        }).collect();
        let bound: Vec<_> = bound.iter().map(|value| ("sub", value.as_str())).collect();
        let policy = policy(matching, &bound).unwrap();
        let claims = json!({ "iss": issuer, "aud": aud, "sub": sub });
        let Value::Object(map) = &claims else { unreachable!() };
        prop_assert_eq!(policy.admits(map).is_ok(), reference(&policy, &claims), "{}", claims);
    }
}
