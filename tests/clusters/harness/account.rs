//! An AWS account for a runner of the type `serverless-ecs`. Strict servers judge Canyon's tokens and calls by the
//! configuration that Canyon prints, tasks are containers that really run, and states are in a real bucket.

use super::bed::bed;
use super::clouds::document;
use super::server::Variables;
use super::strict::Strict;
use canyon_cloud::parts::minio::Minio;
use canyon_cloud::parts::moto::Moto;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

const NUMBER: &str = "123456789012";
const ROLE: &str = "canyon-runner";
const CLUSTER: &str = "jobs";
const SUBNET: &str = "subnet-0a1b2c3d";
const SECURITY_GROUP: &str = "sg-0a1b2c3d";
/// A secret of the account, and its value.
pub(crate) const SECRET: [&str; 2] = [
    "arn:aws:secretsmanager:eu-central-1:123456789012:secret:jobs/database-AbCdEf",
    "kept-by-secrets-manager",
];
const LOG_GROUP: &str = "/canyon/jobs";
/// The bucket of states.
const BUCKET: &str = "states";

/// The account. Dropping it ends it and its containers.
#[derive(Debug)]
pub(crate) struct Account {
    strict: Strict,
    _config: TempDir,
    minio: Minio,
    /// `OpenTofu` asks STS for its identity before it uses the bucket.
    _moto: Moto,
    /// The addresses of these two for containers.
    bucket: String,
    identity: String,
}

impl Account {
    pub(crate) async fn start() -> Self {
        let (minio, moto) = tokio::join!(Minio::start(), Moto::start());
        minio.create_bucket(BUCKET);
        let config = tempfile::tempdir().unwrap();
        let state = config.path().join("state.json");
        std::fs::write(&state, json!({ "aws": { "ecs": behaviour() } }).to_string()).unwrap();
        let strict = Strict::start("strict.ecs", Some(&state));
        let (bucket, identity) = (carried(minio.url()).await, carried(moto.url()).await);
        Self { strict, _config: config, minio, _moto: moto, bucket, identity }
    }

    /// The server's settings for it.
    pub(crate) fn variables(&self) -> Variables {
        self.strict.variables(&[
            ("AWS_ENDPOINT_URL_STS", "aws_sts"),
            ("AWS_ENDPOINT_URL_ECS", "aws_ecs"),
            ("AWS_ENDPOINT_URL_CLOUDWATCH_LOGS", "aws_logs"),
        ])
    }

    /// The variables with which `OpenTofu` reaches the bucket.
    pub(crate) fn bucket_variables(&self) -> Variables {
        [
            ("AWS_ENDPOINT_URL_S3", self.bucket.as_str()),
            ("AWS_ENDPOINT_URL_STS", &self.identity),
            ("AWS_ACCESS_KEY_ID", self.minio.access_key_id()),
            ("AWS_SECRET_ACCESS_KEY", self.minio.secret_access_key()),
            ("AWS_REGION", "us-east-1"),
            ("AWS_EC2_METADATA_DISABLED", "true"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    /// The backend configuration of an environment.
    pub(crate) fn backend(environment: &str) -> Value {
        let key = format!("of/tests/{environment}.tfstate");
        let s3 = json!({ "bucket": BUCKET, "key": key, "use_lockfile": true });
        json!({ "terraform": { "backend": { "s3": s3 } } })
    }

    /// A runner whose jobs are tasks, with states in the bucket.
    pub(crate) fn definition(&self) -> Value {
        json!({
            "runner_configuration": {
                "type": "serverless-ecs",
                "auth": { "role_arn": role(ROLE) },
                "job": {
                    "region": "eu-central-1",
                    "cluster": CLUSTER,
                    "subnets": [SUBNET],
                    "security_groups": [SECURITY_GROUP],
                    "execution_role_arn": role("execution"),
                    "task_role_arn": role("task"),
                    "log_group": LOG_GROUP,
                    "environment": self.bucket_variables(),
                },
            },
            "state_storage_configuration": {
                "type": "s3", "bucket": BUCKET, "path_prefix": "of/tests",
            },
        })
    }

    /// Replaces the account's state with `state`.
    pub(crate) async fn configure(&self, state: Value) {
        self.strict.configure(state).await;
    }

    /// The tasks of a deployment, as ECS describes them.
    pub(crate) async fn tasks(&self, deployment: &str) -> Vec<Value> {
        let tag = json!({ "key": "canyon:deployment", "value": deployment });
        let mut tasks = self.strict.ask("ecs_control", "tasks").await;
        tasks.retain(|task| task["tags"].as_array().unwrap().contains(&tag));
        tasks
    }

    /// The bodies of the calls of this action.
    pub(crate) async fn bodies(&self, action: &str) -> Vec<String> {
        let mut calls = self.strict.ask("ecs_control", "bodies").await;
        calls.retain(|call| call["action"] == action);
        calls.iter().map(|call| call["body"].as_str().unwrap().to_owned()).collect()
    }

    /// Every secret that it has issued.
    pub(crate) async fn secrets(&self) -> Vec<String> {
        self.strict.secrets().await
    }
}

fn role(name: &str) -> String {
    format!("arn:aws:iam::{NUMBER}:role/{name}")
}

fn behaviour() -> Value {
    json!({ "docker_host": bed().get("DOCKER_HOST") })
}

/// The account with the configuration that Canyon prints for a runner.
pub(crate) fn trusting(trust: &Value) -> Value {
    let provider = document(trust, "OpenID Connect provider");
    json!({ "aws": {
        "accounts": { NUMBER: {
            "oidc_providers": [{ "url": provider["Url"], "client_ids": provider["ClientIDList"] }],
            "roles": { ROLE: {
                "trust_policy": document(trust, "Trust policy of the role"),
                "policies": [document(trust, "Permissions of the role")],
            } },
            "ecs": {
                "clusters": [CLUSTER],
                "subnets": { SUBNET: { "az": "a" } },
                "security_groups": [SECURITY_GROUP],
                "log_groups": [LOG_GROUP],
                "secrets": { SECRET[0]: SECRET[1] },
            },
        } },
        "ecs": behaviour(),
    } })
}

/// An address that containers reach, for a server that listens on loopback only.
pub(crate) async fn carried(url: &str) -> String {
    let part = url.trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind((bed().get("NODE_ADDRESS"), 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    // The task ends with its test's runtime.
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let part = part.clone();
            tokio::spawn(async move {
                let Ok(mut server) = TcpStream::connect(part).await else { return };
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    format!("http://{address}")
}
