//! The identity of a job at a cloud: only the job's own identity opens a state in a bucket. MinIO
//! verifies the tokens with Canyon's discovery document and keys.

use crate::harness::deployments::{assert_succeeded, counts, destruction, failure, request};
use crate::harness::module::inline;
use crate::harness::server::Server;
use crate::harness::site::{ENV, RUNNER, Site};
use canyon_api::deployment::DeploymentCreateBody;
use canyon_cloud::parts::minio::Minio;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const BUCKET: &str = "states";
const ONE: &str = "resource \"terraform_data\" \"a\" { input = 1 }";

/// A Python with AWS's own library.
fn python() -> String {
    std::env::var("CANYON_TEST_AWS_PYTHON")
        .expect("set CANYON_TEST_AWS_PYTHON; scripts/test does, scripts/setup installs it")
}

fn script(name: &str) -> String {
    format!("{}/e2e/job_identity/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A cloud: a bucket, and an STS for its roles.
struct Cloud {
    minio: Minio,
    sts: Child,
    sts_url: String,
}

impl Drop for Cloud {
    fn drop(&mut self) {
        let _ = self.sts.kill();
        let _ = self.sts.wait();
    }
}

impl Cloud {
    /// Starts a cloud that trusts the issuer of jobs' tokens of the Canyon at `url`.
    async fn trusting(url: &str, log: &Path) -> Self {
        let discovery = format!("{url}/jobs/.well-known/openid-configuration");
        let minio = Minio::start_with(&[
            ("MINIO_IDENTITY_OPENID_CONFIG_URL", discovery.as_str()),
            ("MINIO_IDENTITY_OPENID_CLIENT_ID", "sts.amazonaws.com"),
            ("MINIO_IDENTITY_OPENID_CLAIM_NAME", "phase"),
        ])
        .await;
        minio.create_bucket(BUCKET);
        let mut sts = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", &python(), "-B", &script("sts.py"), minio.url()])
            .args([minio.access_key_id(), minio.secret_access_key(), BUCKET])
            .stdout(Stdio::piped())
            .stderr(File::create(log).unwrap())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(sts.stdout.take().unwrap()).read_line(&mut port).unwrap();
        assert!(!port.is_empty(), "{}\n{}", fs::read_to_string(log).unwrap(), minio.log());
        Self { minio, sts, sts_url: format!("http://127.0.0.1:{}", port.trim()) }
    }

    /// A site whose jobs have no credentials but their identity.
    async fn site(&self, server: Server, identity: Value) -> Site {
        let environment = json!({
            "AWS_ENDPOINT_URL_S3": self.minio.url(),
            "AWS_ENDPOINT_URL_STS": self.sts_url,
            "THIEF_NOTES": server.path("notes"),
        });
        let job = json!({ "identity": identity, "environment": environment });
        Site::keeping(server, &job, &json!({ "type": "s3", "bucket": BUCKET })).await
    }
}

fn role(name: &str) -> String {
    format!("arn:aws:iam::123456789012:role/{name}")
}

/// A module that runs a program of its own during its plan.
fn hostile() -> String {
    let (python, thief) = (python(), script("thief.py"));
    format!(
        r#"terraform {{
          encryption {{
            key_provider "external" "thief" {{ command = ["{python}", "-B", "{thief}"] }}
            method "aes_gcm" "it" {{ keys = key_provider.external.thief }}
            plan {{ method = method.aes_gcm.it }}
          }}
        }}
        {ONE}"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_is_opened_by_the_jobs_identity_and_written_by_its_apply_alone() {
    let server = Server::start().await;
    let log = server.path("sts.log");
    let cloud = Cloud::trusting(&server.url(), &log).await;
    let identity = json!({ "aws": {
        "role_arn": role("apply"), "plan_role_arn": role("plan"), "region": "us-east-1",
    }});
    let site = cloud.site(server, identity).await;
    let said = || fs::read_to_string(&log).unwrap();

    let plan =
        DeploymentCreateBody { plan_only: Some(true), ..request(ENV, Some(inline(hostile()))) };
    let planned = site.run(&plan).await;
    assert_succeeded(&planned);
    let notes = fs::read_to_string(site.server.path("notes")).unwrap();
    assert!(!notes.is_empty(), "it did try");
    for line in notes.lines() {
        assert_eq!(line, "plan as plan: AccessDenied, as apply: AccessDenied");
    }
    let refused = |line: &str| line.contains("role/apply") && line.ends_with(" thief False");
    assert!(said().lines().any(refused), "{}", said());

    let first = site.deploy(inline(ONE)).await;
    assert_eq!(counts(&first), (1, 0, 0), "{}", said());
    let again = site.deploy(inline(ONE)).await;
    assert_eq!(counts(&again), (0, 0, 0), "the second sees the first's state");
    let session = format!("{} True", first.id);
    for phase in ["plan", "apply"] {
        let line = format!(
            "{} org:{}:project:shop:env_type:development:env:dev:phase:{phase} {session}",
            role(phase),
            site.server.org(),
        );
        assert!(said().contains(&line), "{line}\n{}", said());
    }

    // The apply may write, and so may the programs that it runs.
    let hostile = site.deploy(inline(hostile().replace("input = 1", "input = 2"))).await;
    assert_eq!(counts(&hostile), (0, 1, 0));
    let notes = fs::read_to_string(site.server.path("notes")).unwrap();
    assert!(notes.contains("apply as plan: AccessDenied, as apply: wrote"), "{notes}");
    assert!(!notes.contains("plan as plan: wrote") && !notes.contains("plan as apply"), "{notes}");
    let log = site.log(&hostile.id.to_string()).await;
    assert!(!log.contains("eyJ"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_class_of_jobs_has_a_role_of_its_own() {
    let server = Server::start().await;
    let log = server.path("sts.log");
    let cloud = Cloud::trusting(&server.url(), &log).await;
    let named = |name: &str| json!({ "aws_role_arn": role(name) });
    // No role but those of the classes trusts a job.
    let identity = json!({
        "aws": { "role_arn": role("other"), "region": "us-east-1" },
        "job_roles": { "plan": named("plan"), "apply": named("apply"), "destroy": named("destroy") },
    });
    let site = cloud.site(server, identity).await;
    let made = site.deploy(inline(ONE)).await;
    assert_eq!(counts(&made), (1, 0, 0));
    let destroyed = site.run(&destruction(ENV)).await;
    assert_succeeded(&destroyed);
    assert_eq!(counts(&destroyed), (0, 0, 1));
    let said = fs::read_to_string(&log).unwrap();
    let roles = |id: &str| {
        let of_run = said.lines().filter(|line| line.contains(id));
        let mut roles: Vec<_> = of_run.map(|line| line.split(' ').next().unwrap()).collect();
        roles.dedup();
        roles
    };
    assert_eq!(roles(&made.id.to_string()), [role("plan"), role("apply")], "{said}");
    assert_eq!(roles(&destroyed.id.to_string()), [role("plan"), role("destroy")], "{said}");
    assert!(!said.lines().any(|line| line.ends_with(" False")), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_role_is_that_of_a_run_only_while_an_administrator_has_enabled_it() {
    let server = Server::start().await;
    let log = server.path("sts.log");
    let cloud = Cloud::trusting(&server.url(), &log).await;
    let rescue =
        json!({ "aws_role_arn": role("rescue"), "requires": ["reason"], "enabled": false });
    let identity = json!({
        "aws": { "role_arn": role("apply"), "plan_role_arn": role("plan"), "region": "us-east-1" },
        "named_roles": { "break-glass": rescue },
    });
    let site = cloud.site(server, identity).await;
    let asked = || DeploymentCreateBody {
        role: Some("break-glass".to_owned()),
        reason: Some("incident 12".to_owned()),
        ..request(ENV, Some(inline(ONE)))
    };
    let refused = site.client.create_deployment(&asked(), "before").await.unwrap_err();
    assert!(refused.to_string().contains("role `break-glass` is disabled"), "{refused}");
    let path = |action| ["runners", RUNNER, "named-roles", "break-glass", "actions", action];
    site.make(&path("enable"), &json!({ "reason": "incident 12" })).await;
    let made = site.run(&asked()).await;
    assert_eq!(counts(&made), (1, 0, 0));
    assert_eq!(made.reason.as_deref(), Some("incident 12"));
    let said = fs::read_to_string(&log).unwrap();
    let of_run: Vec<_> = said.lines().filter(|line| line.contains(&made.id.to_string())).collect();
    for phase in ["plan", "apply"] {
        let end = format!(":env:dev:phase:{phase}:role:break-glass {} True", made.id);
        assert!(of_run.iter().any(|line| line.ends_with(&end)), "{said}");
    }
    assert!(of_run.iter().all(|line| line.starts_with(&role("rescue"))), "{said}");
    site.make(&path("disable"), &json!({})).await;
    site.client.create_deployment(&asked(), "after").await.unwrap_err();
    // Other runs have what they had.
    assert_eq!(counts(&site.deploy(inline(ONE)).await), (0, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_does_not_trust_the_job_ends_it_by_name() {
    let server = Server::start().await;
    let log = server.path("sts.log");
    let cloud = Cloud::trusting(&server.url(), &log).await;
    let identity = json!({ "aws": { "role_arn": role("other"), "region": "us-east-1" } });
    let site = cloud.site(server, identity).await;
    let ended = site.run(&request(ENV, Some(inline(ONE)))).await;
    let (_, message) = failure(&ended);
    assert!(message.contains("AssumeRoleWithWebIdentity"), "{message}");
    assert!(message.contains("AccessDenied"), "{message}");
}
