//! An installation with an organization, a runner and environments, whose table requests are
//! counted.

use crate::Error;
use crate::meter::Meter;
use canyon_api::client::Client;
use canyon_cloud::cloud::{self, Cloud, CloudConfig, FUNCTIONS};
use canyon_cloud::region::{OPERATOR_TOKEN, Region};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Environments of the project `bench`: `e0`, `e1`, ...
pub(crate) const ENVIRONMENTS: usize = 20;
/// The limit of every wait here.
const PATIENCE: Duration = Duration::from_mins(2);
/// After this time without a request, all work that follows a deployment has been done.
const QUIET: Duration = Duration::from_millis(1500);

/// The settings of jobs beside a function.
const JOBS: [&str; 2] = ["CANYON_LOCAL_JOBS", "CANYON_RUNNER_PROGRAM"];

/// A running installation. Its schedule fires only on request.
pub(crate) struct Installation {
    pub(crate) cloud: Cloud,
    pub(crate) meter: Meter,
    pub(crate) org: String,
    token: SecretString,
    folder: TempDir,
}

impl Installation {
    pub(crate) async fn start(functions: &Path, runner: &Path) -> Result<Self, Error> {
        cloud::check_programs(functions);
        let folder = tempfile::Builder::new().prefix("canyon-bench-").tempdir()?;
        let config = CloudConfig {
            programs: functions.to_owned(),
            runner: runner.to_owned(),
            path: std::env::var_os("PATH").unwrap_or_default(),
            folder: folder.path().to_owned(),
            // The time is not shortened.
            scale: 1,
            seed: 1,
        };
        let cloud = Cloud::start(config).await;
        cloud.bus.run_schedules(false);
        let made: Value = reqwest::Client::new()
            .post(format!("{}/orgs", cloud.url()))
            .bearer_auth(OPERATOR_TOKEN)
            .send()
            .await?
            .error_for_status()?
            .json()
            .await?;
        let text = |name: &str| made[name].as_str().unwrap_or_default().to_owned();
        cloud.jobs_belong_to(text("uuid").parse()?);
        let installation = Self {
            cloud,
            meter: Meter::default(),
            org: text("id"),
            token: text("admin_token").into(),
            folder,
        };
        installation.prepare().await?;
        Ok(installation)
    }

    async fn prepare(&self) -> Result<(), Error> {
        let client = self.client()?;
        let state = self.folder.path().join("state");
        let runner = json!({
            "id": "here",
            "runner_configuration": {"type": "local"},
            "state_storage_configuration": {"type": "local", "path": state},
        });
        client.create(&["env-types"], &json!({"id": "bench"})).await?;
        client.create(&["projects"], &json!({"id": "bench"})).await?;
        client.create(&["runners"], &runner).await?;
        client.create(&["runner-rules"], &json!({"runner_id": "here"})).await?;
        for n in 0..ENVIRONMENTS {
            let env = json!({"id": format!("e{n}"), "env_type_id": "bench"});
            client.create(&["projects", "bench", "envs"], &env).await?;
        }
        Ok(())
    }

    /// From now on the meter counts the table requests of every function. Published functions run
    /// no jobs beside themselves, and refuse the settings for that.
    pub(crate) async fn watch(&self, jobs: bool) -> Result<(), Error> {
        self.watch_with(jobs, &[]).await
    }

    /// The same with `more` variables for every function.
    pub(crate) async fn watch_with(
        &self,
        jobs: bool,
        more: &[(String, String)],
    ) -> Result<(), Error> {
        for name in FUNCTIONS {
            let function = self.cloud.function(name);
            let mut environment = function.config().environment.clone();
            if !jobs && name != "api" {
                environment.retain(|name, _| !JOBS.contains(&name.as_str()));
            }
            let front = environment.get("AWS_ENDPOINT_URL").cloned().unwrap_or_default();
            let metered = self.meter.open(name, front).await?;
            environment.insert("AWS_ENDPOINT_URL_DYNAMODB".to_owned(), metered);
            environment.extend(more.iter().cloned());
            function.update(environment).await;
        }
        Ok(())
    }

    /// A client with the rights of an administrator.
    pub(crate) fn client(&self) -> Result<Client, Error> {
        Ok(Client::new(&self.cloud.url(), &self.org, self.token.clone())?)
    }

    pub(crate) fn token(&self) -> &str {
        self.token.expose_secret()
    }

    /// The address of the table, without the proxies in front of it.
    pub(crate) fn dynamodb() -> &'static str {
        Region::shared().dynamodb.url()
    }

    pub(crate) fn table(&self) -> &str {
        self.cloud.stack["table"]["create"]["TableName"].as_str().unwrap_or_default()
    }

    /// Accepts a deployment of one resource.
    pub(crate) async fn deploy(&self, env: usize) -> Result<(), Error> {
        let body = json!({
            "mode": "deploy", "project_id": "bench", "env_id": format!("e{env}"),
            "module": {
                "source": "inline",
                "source_code": "resource \"terraform_data\" \"one\" { input = timestamp() }\n",
                "inputs": {},
            },
        });
        let key = format!("bench-{}", jiff::Timestamp::now().as_nanosecond());
        self.client()?.create_deployment(&serde_json::from_value(body)?, &key).await?;
        Ok(())
    }

    /// How many successes have been published.
    pub(crate) fn succeeded(&self) -> usize {
        self.cloud.bus.published("deployment.succeeded").len()
    }

    /// Waits until so many have been published, and no request to the table is made.
    pub(crate) async fn until_succeeded(&self, count: usize) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        while self.succeeded() < count || self.meter.quiet_for() < QUIET {
            if Instant::now() > deadline {
                let problem = format!("{} of {count} deployments succeeded", self.succeeded());
                return Err(format!("{problem}\n{}", self.cloud.log()).into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}
