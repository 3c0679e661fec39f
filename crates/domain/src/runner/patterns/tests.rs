//! The forms that the shapes accept.

use super::*;

/// The name of a shape, the shape, texts that it accepts, and texts that it refuses.
type Case = (&'static str, Shape, &'static [&'static str], &'static [&'static str]);

#[test]
fn each_shape_accepts_existing_forms_and_refuses_those_that_cannot_work() {
    for (name, shape, good, bad) in CASES {
        judge(name, &shape, good, bad);
    }
    let key = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAc5dgCx4ano39JT0XgTsHnts3jej+5xl7ZAwSIrKpef0=\n-----END PUBLIC KEY-----\n";
    let rsa = key.replace("MCowBQYDK2VwAyEA", "MIIBIjANBgkqhkiG");
    let audience = "//iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/p/providers/q";
    let secret = "arn:aws:secretsmanager:us-east-1:123456789012:secret:prod/database-AbCdEf";
    let json_key = format!("{secret}:password::");
    judge("key", &PUBLIC_KEY, &[key, key.trim_end()], &[&rsa, "ssh-ed25519 AAAA", ""]);
    judge(
        "secret",
        &SECRET_ARN,
        &[secret, &json_key, "arn:aws-cn:ssm:cn-north-1:123456789012:parameter/a/b"],
        &[
            "arn:aws:secretsmanager:us-east-1:123456789012:secret:plain",
            "arn:aws:secretsmanager:us-east-1:123456789012:secret:a b-AbCdEf",
            "arn:aws:secretsmanager:us-east-1:123456789012:secret:-AbCdEf",
            "arn:aws:secretsmanager:us-east-1:123456789012:secret:prod-AbCdE",
            "arn:aws:secretsmanager:us-east-1:123456789012:secret:prod-AbCd+f",
            "arn:aws:s3:::bucket",
            "arn:aws:ssm:us-east-1:123456789012:parameter/",
        ],
    );
    let foreign = ["//iam.googleapis.com/", "//evil.example/projects/1", &audience[1..]];
    judge("audience", &GCP_AUDIENCE, &[audience], &foreign);
}

fn judge(name: &str, shape: &Shape, good: &[&str], bad: &[&str]) {
    for text in good {
        assert!((shape.fits)(text), "{name} refuses {text:?}");
    }
    for text in bad {
        assert!(!(shape.fits)(text), "{name} accepts {text:?}");
    }
}

const CASES: [Case; 11] = [
    (
        "region",
        REGION,
        &["us-west-2", "us-gov-west-1", "cn-north-1", "ap-southeast-5", "eusc-de-east-1"],
        &["", "us", "us-west", "US-west-2", "us-west-2\n", "us--2", "us-west-2a", "us-west-123"],
    ),
    (
        "role",
        ROLE_ARN,
        &[
            "arn:aws:iam::123456789012:role/a/b",
            "arn:aws-us-gov:iam::123456789012:role/a",
            "arn:aws-cn:iam::123456789012:role/a",
        ],
        &[
            "arn:aws:iam::12345678901:role/a",
            "arn:aws:iam::123456789012:user/a",
            "arn:awz:iam::123456789012:role/a",
            "arn:aws:iam::123456789012:role/",
            "arn:aws:iam::123456789012:role/a b",
        ],
    ),
    (
        "prefix",
        PATH_PREFIX,
        &["a", "a/b.c/", "a_b-c"],
        &["", "/", "/a", "a//b", "../a", "a/..", "a b", "a\n"],
    ),
    (
        "directory",
        DIRECTORY,
        &["/a", "/a/b c/", "/var/lib/x.y"],
        &["", "a", "/", "/a/../b", "/a//b", "/a\0", "/a/.", "/a/${var.x}", "/%{if 1}a"],
    ),
    (
        "image",
        IMAGE,
        &["a", "ghcr.io/a/b:v1", "a@sha256:00ff"],
        &["", "a b", "a@sha256", "-a", "a@sha256:xyz"],
    ),
    ("variable", VARIABLE, &["A", "_a1"], &["", "1A", "A-B", "A=B", "CANYON_TOKEN", "Ä"]),
    (
        "url",
        HTTPS_URL,
        &["https://10.0.0.1:6443", "https://[::1]:6443/k8s/c-1"],
        &["http://a", "https://", "https://user:pw@a", "https://a?b", "https://a b"],
    ),
    (
        "host",
        EXTRA_HOST,
        &["db.local:10.0.0.1", "host.docker.internal:host-gateway", "a:::1"],
        &["db", "db:x", ":10.0.0.1"],
    ),
    (
        "proxy",
        PROXY_URL,
        &["http://10.0.0.1:3128", "https://proxy.example.com", "socks5://proxy:1080"],
        &["", "proxy:3128", "http://", "http://user:pw@proxy", "ftp://proxy"],
    ),
    (
        "base64",
        BASE64,
        &["YQ==", "YWI=", "YWJj", "+/+/"],
        &["", "====", "YQ===", "YQ=", "YWJ", "Y Q=", "YWJj\n"],
    ),
    ("tag", TAG_KEY, &["team", "cost center"], &["", "aws:x", "AWS:x", "canyon:deployment", "a\n"]),
];
