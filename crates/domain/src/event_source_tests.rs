use super::*;
use proptest::prelude::*;

const ACCOUNT: &str = "111122223333";
const ARN: &str = "arn:aws:events:eu-west-1:444455556666:rule/canyon/deploys";

/// `source("ci", "com.acme.ci deploys pay/eu")`: source, rule and project; `*` stands for any.
fn source(id: &str, scope: &str) -> EventSource {
    fn part<T: FromStr<Err: fmt::Debug>>(text: &str) -> Option<T> {
        (text != "*").then(|| text.parse().unwrap())
    }
    let [source, rule, project] = scope.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{scope}")
    };
    EventSource {
        id: id.parse().unwrap(),
        uuid: Uuid::nil(),
        scope: Scope {
            account: ACCOUNT.parse().unwrap(),
            source: part(source),
            rule: part(rule),
            project: part(project),
        },
        role: Role::Deployer,
        created_at: Timestamp::UNIX_EPOCH,
        updated_at: Timestamp::UNIX_EPOCH,
        version: 1,
    }
}

fn origin<'a>(source: &'a str, rule: Option<&'a str>) -> Origin<'a> {
    Origin { account: ACCOUNT, source, rule }
}

fn project(text: &str) -> ProjectId {
    text.parse().unwrap()
}

#[test]
fn the_rule_counts_more_than_the_source_and_both_more_than_the_project() {
    let arn = format!("* {ARN} *");
    let cases: [(&[&str], &str); 6] = [
        (&["* * *", "* * pay"], "* * pay"),
        (&["* * pay/eu/api", "com.acme.ci * *"], "com.acme.ci * *"),
        (&["com.acme.ci * pay", "* deploys *"], "* deploys *"),
        (&["com.acme.ci deploys pay/eu", &arn], &arn),
        (&["* * pay", "* * pay/eu", "* * shop"], "* * pay/eu"),
        (&["com.acme.other * *", "* others *", "* * *"], "* * *"),
    ];
    for (scopes, winner) in cases {
        let mut sources: Vec<_> =
            (10..).zip(scopes).map(|(n, scope)| source(&format!("s{n}"), scope)).collect();
        for _ in 0..sources.len() {
            sources.rotate_left(1);
            let origin = origin("com.acme.ci", Some(ARN));
            let chosen = choose(&sources, origin, &project("pay/eu/api")).unwrap();
            assert_eq!(chosen.scope, source("xx", winner).scope, "{scopes:?}");
        }
    }
}

#[test]
fn another_account_source_rule_or_project_is_not_covered() {
    let narrow = [source("ci", &format!("com.acme.ci {ARN} pay"))];
    let good = origin("com.acme.ci", Some(ARN));
    assert!(choose(&narrow, good, &project("pay/eu")).is_some());
    let other_bus = ARN.replace("canyon", "default");
    for bad in [
        Origin { account: "111122223334", ..good },
        Origin { account: "", ..good },
        origin("com.acme.ci.more", Some(ARN)),
        origin("com.acme", Some(ARN)),
        origin("COM.ACME.CI", Some(ARN)),
        origin("com.acme.ci", None),
        origin("com.acme.ci", Some(&other_bus)),
        origin("com.acme.ci", Some("deploys")),
    ] {
        assert_eq!(choose(&narrow, bad, &project("pay/eu")), None, "{bad:?}");
        assert_eq!(sender(&narrow, bad), None, "{bad:?}");
    }
    for bad in ["pa", "payments", "shop", "eu/pay"] {
        assert_eq!(choose(&narrow, good, &project(bad)), None, "{bad}");
        assert_eq!(sender(&narrow, good), Some(&narrow[0]), "the sender is known anyway");
    }
}

#[test]
fn a_rule_is_named_by_its_name_on_any_bus_or_by_its_arn() {
    let name: RuleRef = "deploys".parse().unwrap();
    for arn in [ARN, "arn:aws:events:eu-west-1:444455556666:rule/deploys", "deploys"] {
        assert!(name.is(arn), "{arn}");
    }
    for arn in ["", "rule/deploys-not", "arn:aws:events:eu-west-1:444455556666:rule/x-deploys"] {
        assert!(!name.is(arn), "{arn}");
    }
    let arn: RuleRef = ARN.parse().unwrap();
    assert!(arn.is(ARN) && !arn.is("deploys"));
}

#[test]
fn an_invalid_account_source_or_rule_is_refused_without_being_repeated() {
    for text in [
        "",
        "12345678901",
        "1234567890123",
        "12345678901x",
        "１２３４５６７８９０１２",
        " 11122223333",
    ] {
        let error = text.parse::<AccountId>().unwrap_err().to_string();
        assert!(text.is_empty() || !error.contains(text), "{text}");
    }
    let long = "a".repeat(257);
    for text in ["", " x", "x ", "aws.ecs", "a\nb", "ü", &long] {
        assert!(text.parse::<SourceName>().is_err(), "{text:?}");
    }
    for text in ["com.acme.ci", "Pipe ci#1", "acme"] {
        assert!(text.parse::<SourceName>().is_ok(), "{text:?}");
    }
    let bad_arns =
        ["lambda:x:444455556666:rule/r", "events:x:4444:rule/r", "events:x:444455556666:r"];
    let bad_arns = bad_arns.map(|rest| format!("arn:aws:{rest}"));
    let more = ["", "a b", "a/b", "a*", "arn:", "arn:aws:events:x:444455556666:rule/"];
    for text in bad_arns.iter().map(String::as_str).chain(more).chain([&long[..65]]) {
        assert!(text.parse::<RuleRef>().is_err(), "{text:?}");
    }
    for text in ["deploys", ARN, "arn:aws-cn:events:cn-north-1:444455556666:rule/aws.partner/a/b/c"]
    {
        assert!(text.parse::<RuleRef>().is_ok(), "{text:?}");
    }
}

/// The reference model: look up each scope that could cover, the most specific first.
fn reference<'s>(
    sources: &'s [EventSource],
    origin: Origin<'_>,
    project: &ProjectId,
) -> Option<&'s EventSource> {
    let name = origin.rule.and_then(|arn| arn.rsplit('/').next());
    let mut rules: Vec<Option<RuleRef>> =
        [origin.rule, name].into_iter().flatten().map(|text| text.parse().ok()).collect();
    rules.push(None);
    for rule in rules {
        for named in [origin.source.parse().ok(), None] {
            let mut path = Some(project.as_str());
            loop {
                let scope = Scope {
                    account: origin.account.parse().unwrap(),
                    source: named.clone(),
                    rule: rule.clone(),
                    project: path.map(|text| text.parse().unwrap()),
                };
                if let Some(found) = sources.iter().find(|source| source.scope == scope) {
                    return Some(found);
                }
                let Some(text) = path else { break };
                path = text.rsplit_once('/').map(|(parent, _)| parent);
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn choosing_agrees_with_looking_up_each_scope_in_order(
        scopes in prop::collection::hash_set(
            ("(\\*|s1|s2)", "(\\*|r1|r2|ARN1|ARN2)", "(\\*|aa(/bb(/cc)?)?|aa/dd|ee)"), 0..10),
        named in "s1|s2|s3", rule in prop::option::of("r1|r2|r3"),
        to in "aa(/bb(/cc)?)?|ee|ff",
    ) {
        let arn = |name: &str| format!("arn:aws:events:x:444455556666:rule/bus/{name}");
        let full = |rule: &str| rule.strip_prefix("ARN").map_or(rule.to_owned(), |n| arn(&format!("r{n}")));
        let sources: Vec<_> = scopes
            .iter()
            .enumerate()
            .map(|(n, (s, r, p))| source(&format!("e{n}"), &format!("{s} {} {p}", full(r))))
            .collect();
        let rule = rule.map(|name| arn(&name));
        let (origin, to) = (origin(&named, rule.as_deref()), project(&to));
        prop_assert_eq!(choose(&sources, origin, &to), reference(&sources, origin, &to));
        let other_account = Origin { account: "999988887777", ..origin };
        prop_assert_eq!(choose(&sources, other_account, &to), None);
    }
}
