//! Definitions that the published API accepts: stored with a warning, and not launched.

use crate::field_error::FieldErrors;
use crate::runner::RunnerDefinition;
use crate::runner::patterns;
use crate::runner::shape::Shape;
use crate::runner_profile::ProfileSettings;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use proptest::string::string_regex;
use serde_json::{Value, json};

const PEM: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==";

fn on_kubernetes() -> Value {
    json!({
        "runner_configuration": {
            "type": "kubernetes",
            "job": { "namespace": "jobs", "service_account": "runner", "pod_template": {} },
            "cluster": {
                "cluster_data": { "certificate_authority_data": PEM, "server": "https://10.0.0.1:6443" },
                "auth": { "service_account_token": "hunter2" },
            },
        },
        "state_storage_configuration": { "type": "azurerm", "storage_account_name": "states", "container_name": "states" },
    })
}

fn on_gke() -> Value {
    let audience =
        "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q";
    let auth =
        json!({ "gcp_audience": audience, "gcp_service_account": "a@p.iam.gserviceaccount.com" });
    let mut value = on_kubernetes();
    value["runner_configuration"]["type"] = json!("kubernetes-gke");
    value["runner_configuration"]["cluster"] =
        json!({ "name": "c", "project_id": "p", "location": "europe-west3", "auth": auth });
    value["state_storage_configuration"] = json!({ "type": "gcs", "bucket": "states" });
    value
}

fn on_eks() -> Value {
    let mut value = on_gke();
    value["runner_configuration"]["type"] = json!("kubernetes-eks");
    value["runner_configuration"]["cluster"] = json!({
        "name": "c", "region": "eu-west-1",
        "auth": { "role_arn": "arn:aws:iam::123456789012:role/r", "session_name": "abc" },
    });
    value
}

fn on_ecs() -> Value {
    json!({
        "runner_configuration": {
            "type": "serverless-ecs",
            "auth": { "role_arn": "arn:aws:iam::123456789012:role/r" },
            "job": {
                "region": "eu-west-1", "cluster": "c", "subnets": ["subnet-1"], "image": "a",
                "security_groups": ["sg-1"], "environment": { "A": "a" }, "secrets": {},
                "execution_role_arn": "arn:aws:iam::123456789012:role/e",
            },
        },
        "state_storage_configuration": { "type": "s3", "bucket": "states" },
    })
}

fn by_agent() -> Value {
    let key = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAc5dgCx4ano39JT0XgTsHnts3jej+5xl7ZAwSIrKpef0=\n-----END PUBLIC KEY-----\n";
    let mut value = on_gke();
    let job = value["runner_configuration"]["job"].take();
    value["runner_configuration"] = json!({ "type": "kubernetes-agent", "key": key, "job": job });
    value
}

/// `value` with `part` at `pointer`.
fn with(mut value: Value, pointer: &str, part: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}"));
    match parent {
        Value::Array(items) => items[name.parse::<usize>().unwrap()] = part,
        parent => parent[name] = part,
    }
    value
}

#[test]
fn a_value_that_only_the_published_api_accepts_is_stored_with_a_warning_and_starts_no_job() {
    let long = "x".repeat(3_000);
    let second =
        json!({ "spec": { "containers": [{ "name": "canyon-runner" }, { "name": "sidecar" }] } });
    let job = "/runner_configuration/job";
    let cluster = "/runner_configuration/cluster";
    let storage = "/state_storage_configuration";
    let cases = [
        (on_kubernetes(), format!("{cluster}/cluster_data/server"), json!("10.0.0.1:6443")),
        (on_kubernetes(), format!("{cluster}/cluster_data/server"), json!("")),
        (on_kubernetes(), format!("{cluster}/cluster_data/proxy_url"), json!("proxy:3128")),
        (
            on_kubernetes(),
            format!("{cluster}/cluster_data/certificate_authority_data"),
            json!("Y2E="),
        ),
        (on_kubernetes(), format!("{cluster}/auth/service_account_token"), json!("two words")),
        (on_kubernetes(), format!("{job}/namespace"), json!("../kube-system")),
        (on_kubernetes(), format!("{job}/namespace"), json!(long)),
        (on_kubernetes(), format!("{job}/service_account"), json!("Runner")),
        (on_kubernetes(), format!("{storage}/storage_account_name"), json!("My Account")),
        (on_kubernetes(), format!("{storage}/container_name"), json!("a--b")),
        (on_kubernetes(), format!("{storage}/resource_group_name"), json!("rg.")),
        (on_kubernetes(), format!("{job}/pod_template"), second),
        (on_kubernetes(), format!("{job}/pod_template"), json!({ "spec": { "hostNam": "a" } })),
        (on_kubernetes(), format!("{job}/pod_template"), json!({ "spec": { "containers": [{}] } })),
        (on_gke(), format!("{cluster}/name"), json!("My Cluster")),
        (on_gke(), format!("{cluster}/project_id"), json!("1/2")),
        (on_gke(), format!("{cluster}/location"), json!("Europe")),
        (on_gke(), format!("{cluster}/auth/gcp_audience"), json!("sts")),
        (on_gke(), format!("{cluster}/auth/gcp_service_account"), json!("me@example.com")),
        (on_gke(), format!("{storage}/bucket"), json!("ab")),
        (on_gke(), format!("{storage}/path_prefix"), json!("a/../b")),
        (on_eks(), format!("{cluster}/name"), json!("c/d")),
        (on_eks(), format!("{cluster}/region"), json!("eu-west-1.evil.example/")),
        (on_eks(), format!("{cluster}/region"), json!("cn-north-1")),
        (on_eks(), format!("{cluster}/auth/session_name"), json!("a/b")),
        (on_ecs(), format!("{job}/cluster"), json!("my cluster")),
        (on_ecs(), format!("{job}/subnets/0"), json!("10.0.0.0/8")),
        (on_ecs(), format!("{job}/security_groups/0"), json!("the group")),
        (on_ecs(), format!("{job}/image"), json!("-a")),
        (on_ecs(), format!("{job}/environment"), json!({ "a-b": "" })),
        (on_ecs(), format!("{job}/environment/A"), json!("a\0b")),
        (
            on_ecs(),
            format!("{job}/secrets/A"),
            json!("arn:aws:ssm:eu-west-1:123456789012:parameter/a"),
        ),
        (on_ecs(), format!("{job}/secrets/B"), json!("arn:aws:ssm:here:me:parameter/a b")),
        (
            by_agent(),
            "/runner_configuration/key".to_owned(),
            json!("-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----"),
        ),
    ];
    for (value, pointer, part) in cases {
        let value = with(value, &pointer, part.clone());
        let read =
            RunnerDefinition::parse(value.clone()).unwrap_or_else(|faults| panic!("{faults}"));
        let path = pointer[1..].replace('/', ".").replace(".0", "[0]");
        let warned = read.warnings().iter().any(|warning| warning.path.starts_with(&path));
        // If two parts do not match, the warning is about the other part.
        assert!(warned || !read.warnings().is_empty() && part == "cn-north-1", "{pointer}: {part}");
        let (bare, _) = read.split_secrets();
        let stored = RunnerDefinition::parse_stored(bare.to_value()).unwrap();
        assert_eq!(stored.to_value(), bare.to_value());
        if !pointer.ends_with("token") {
            assert!(stored.usable().is_err(), "{pointer}: {part}");
        }
    }
}

#[test]
fn a_value_that_harms_others_is_refused_although_the_published_api_accepts_it() {
    let job = "/runner_configuration/job";
    let data = "/runner_configuration/cluster/cluster_data";
    let cases = [
        (on_kubernetes(), format!("{data}/server"), json!("HTTP://10.0.0.1:6443")),
        (on_kubernetes(), format!("{data}/server"), json!("https://me:hunter2@10.0.0.1")),
        (on_kubernetes(), format!("{data}/proxy_url"), json!("http://me:hunter2@proxy")),
        (
            on_kubernetes(),
            format!("{data}/certificate_authority_data"),
            json!("-----BEGIN PRIVATE KEY-----"),
        ),
        (
            on_kubernetes(),
            format!("{job}/pod_template"),
            json!({ "spec": { "hostNetwork": true } }),
        ),
        (
            on_kubernetes(),
            format!("{job}/pod_template"),
            json!({ "spec": { "serviceAccountName": "admin" } }),
        ),
        (
            on_ecs(),
            format!("{job}/environment"),
            json!({ "CANYON_API_URL": "https://evil.example" }),
        ),
        (on_kubernetes(), format!("{job}/namespace"), json!("x".repeat(65_537))),
    ];
    let bundle =
        "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n-----BEGIN EC PRIVATE KEY-----\n";
    let keys = ["-----BEGIN PRIVATE KEY-----\n", bundle].map(|pem| STANDARD.encode(pem));
    let auth = "/runner_configuration/cluster/auth/client_certificate_data";
    let places = [format!("{data}/certificate_authority_data"), auth.to_owned()];
    let keys = places
        .iter()
        .flat_map(|at| keys.iter().map(move |key| (on_kubernetes(), at.clone(), json!(key))));
    for (value, pointer, part) in cases.into_iter().chain(keys) {
        let result = RunnerDefinition::parse(with(value, &pointer, part.clone()));
        let faults: FieldErrors = result.err().unwrap_or_else(|| panic!("{pointer}: {part}"));
        assert!(!faults.to_string().contains("hunter2"), "{faults}");
    }
}

#[test]
fn running_jobs_are_observed_unless_a_warning_is_about_the_location_or_the_access() {
    let cases = [
        (on_ecs(), "/runner_configuration/job/environment", json!({ "a-b": "" }), true),
        (on_ecs(), "/runner_configuration/job/subnets/0", json!("x"), true),
        (on_ecs(), "/runner_configuration/job/cluster", json!("my cluster"), false),
        (on_eks(), "/runner_configuration/cluster/region", json!("x.example/"), false),
        (on_eks(), "/runner_configuration/job/namespace", json!("../x"), false),
        (on_eks(), "/runner_configuration/job/pod_template", json!({ "spec": { "tty": 1 } }), true),
    ];
    for (value, pointer, part, expected) in cases {
        let read = RunnerDefinition::parse(with(value, pointer, part)).unwrap();
        assert_eq!((read.can_be_observed(), read.warnings().len()), (expected, 1), "{pointer}");
    }
}

/// Only so many warnings are listed, and the one about the cluster may be among the others.
#[test]
fn what_runs_is_not_watched_with_more_warnings_than_are_listed() {
    let containers: Vec<Value> = (0..60).map(|n| json!({ "name": format!("extra-{n}") })).collect();
    let template = json!({ "spec": { "containers": containers } });
    let value = with(on_eks(), "/runner_configuration/job/pod_template", template);
    let value = with(value, "/runner_configuration/cluster/region", json!("x.example/"));
    let read = RunnerDefinition::parse(value).unwrap();
    assert!(!read.can_be_observed());
    let last = read.warnings().last().unwrap();
    assert_eq!(
        (last.path.as_str(), last.reason.as_str()),
        ("", "has more warnings than are listed")
    );
}

#[test]
fn near_misses_of_the_published_patterns_are_refused() {
    let key =
        |body: &str| format!("-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n");
    let secret = |rest: &str| format!("arn:aws:{rest}");
    for (shape, texts) in [
        (patterns::VALUE, vec!["x".repeat(1_025)]),
        (
            patterns::PUBLIC_KEY,
            vec![
                key(&"a".repeat(200)),
                key(""),
                key("a\nb"),
                "-----BEGIN PUBLIC KEY-----\na".to_owned(),
            ],
        ),
        (
            patterns::SECRET_ARN,
            vec![
                secret("secretsmanager:eu:1:secret:prod-AbCdE"),
                secret("secretsmanager:eu:1:secret:prod-AbCd+f"),
                secret("secretsmanager:eu:1:secret:-AbCdEf"),
                secret("secretsmanager::1:secret:prod-AbCdEf"),
                secret("secretsmanager:eu::secret:prod-AbCdEf"),
                secret("ssm:eu:1:parameter/"),
                secret("s3:eu:1:parameter/a"),
            ],
        ),
    ] {
        let accepts = shape.published.unwrap();
        for text in texts {
            assert!(!accepts(&text), "{}: {text:?}", shape.rule);
        }
    }
}

#[test]
fn a_profile_has_no_published_form_and_is_refused_at_once() {
    let Value::Object(job) = json!({ "namespace": "../kube-system" }) else { unreachable!() };
    let faults = ProfileSettings::parse(None, job).unwrap_err();
    assert_eq!(
        faults.iter().map(|fault| fault.path.as_str()).collect::<Vec<_>>(),
        ["job.namespace"]
    );
}

proptest! {
    /// The patterns of the published document.
    #[test]
    fn each_text_of_a_published_pattern_is_accepted(
        (shape, text) in prop_oneof![
            of(patterns::ROLE_ARN, r"arn:aws:iam::[0-9]{12}:role/[a-zA-Z_0-9+=,.@\-_/]{1,90}"),
            of(patterns::SESSION_NAME, r"[a-zA-Z0-9+=,.@\-_/]{3,64}"),
            of(patterns::REGION, r"[a-z]{2}-[a-z]{1,9}-[0-9]"),
            of(patterns::PUBLIC_KEY, r"-----BEGIN PUBLIC KEY-----\n[^\n]{1,100}\n-----END PUBLIC KEY-----(\n)?"),
            of(patterns::BUCKET, r"[a-z0-9][a-z0-9\-]{0,99}[a-z0-9]"),
            of(patterns::PATH_PREFIX, r"[a-zA-Z0-9._-]{1,9}(/[a-zA-Z0-9._-]{1,9}){0,9}/?"),
            of(patterns::IMAGE, r"[a-zA-Z0-9._:/-]{1,99}(@[a-z0-9]{1,9}:[a-fA-F0-9]{1,64})?"),
            of(patterns::SECRET_ARN, r"arn:aws:((secretsmanager:[^:]{1,9}:[^:]{1,9}:secret:[^:]{1,9}-[a-zA-Z0-9]{6})|(ssm:[^:]{1,9}:[^:]{1,9}:parameter/.{1,20}))"),
            of(patterns::SUBNET, r".{1,24}"),
            of(patterns::SECURITY_GROUP, r".{1,255}"),
            of(patterns::ECS_CLUSTER, r".{1,255}"),
            of(patterns::VALUE, r".{0,1024}"),
            of(patterns::DNS_LABEL, r"(?s).{0,99}"),
        ]
    ) {
        let fits = text.chars().count() <= shape.max && (shape.fits)(&text);
        prop_assert!(fits || shape.published.is_some_and(|accepts| accepts(&text)), "{}: {text:?}", shape.rule);
    }
}

fn of(shape: Shape, pattern: &str) -> impl Strategy<Value = (Shape, String)> + use<> {
    string_regex(pattern).unwrap().prop_map(move |text| (shape.clone(), text))
}
