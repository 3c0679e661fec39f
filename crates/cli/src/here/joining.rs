//! How this process becomes an agent: it asks, is adopted, and begins to work.

use super::Here;
use super::own_agent::{DRAIN, JOINING, OwnAgent, PAUSE};
use crate::error::CliError;
use crate::output::Output;
use crate::settings::variable;
use canyon_agent::kinds::Kind;
use canyon_agent::kinds::local::LocalKind;
use canyon_agent::line::{self, Line};
use canyon_agent::settings::Settings;
use canyon_agent::settings::authorities::Authorities;
use canyon_agent::settings::dispatcher::{DispatcherSettings, DispatcherType};
use canyon_agent::settings::identity::IdentitySettings;
use canyon_agent::sign_in::SignIn;
use canyon_agent::sign_in::agent_key::{OwnKey, new_pem};
use canyon_agent::stop::Stop;
use canyon_api::agent::{OpenSession, PROTOCOL};
use canyon_api::client::Client;
use secrecy::ExposeSecret as _;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// Variables by which providers find credentials.
const OF_CLOUDS: [&str; 4] = ["AWS_", "ARM_", "AZURE_", "GOOGLE_"];

impl Here {
    /// Whether the caller may adopt the agent. Nobody is called so yet: who may is told so.
    pub(super) async fn check_right(
        &self,
        client: &Client,
        output: Output,
    ) -> Result<(), CliError> {
        match client.adopt_agent(self.name.as_str()).await {
            Err(error) if error.status() == Some(404) => Ok(()),
            Err(error) if error.status() == Some(403) => {
                output.notice("--local makes this machine an agent for a while, and adopts it");
                Err(error.into())
            }
            Err(error) => Err(error.into()),
            Ok(_) => Err(CliError::usage("another agent is called like this process; try again")),
        }
    }

    /// Asks to be an agent, adopts that, and begins to work.
    pub(super) async fn enter(
        &self,
        agent: &mut OwnAgent,
        client: &Client,
        stops: watch::Receiver<u32>,
    ) -> Result<(), CliError> {
        let folder = &self.state_dir;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| CliError::file("make", folder, error))?;
        let key = OwnKey::from_pem(new_pem().expose_secret(), "this process")
            .map_err(|error| CliError::usage(error.to_string()))?;
        let settings = self.settings(client.url());
        let kind = LocalKind::new(&settings).map_err(|error| CliError::usage(error.to_string()))?;
        let kind: Arc<dyn Kind> = Arc::new(kind.serving(self.kind, own_credentials()));
        let http = line::http_client(settings.authorities.as_ref()).map_err(CliError::usage)?;
        let (sign_in, clock) = (self.sign_in(&key), Arc::default());
        let line = Line::new(http.clone(), client.url(), &self.org, &self.name, sign_in, clock);
        self.be_adopted(&line, &*kind, client, &key.public().fingerprint()).await?;
        let work = canyon_agent::run_as(settings, kind, self.sign_in(&key), http, Stop::of(stops));
        agent.work = Some(tokio::spawn(work));
        agent.until_it_works(client).await
    }

    fn sign_in(&self, key: &OwnKey) -> SignIn {
        SignIn::Key { key: key.clone(), agent: self.name.clone(), org: self.org.clone() }
    }

    /// Asks until Canyon has a record of the request, and adopts that. Canyon does not tell an agent whether it has: too
    /// many may ask at the moment, or the organization may refuse all.
    async fn be_adopted(
        &self,
        line: &Line,
        kind: &dyn Kind,
        client: &Client,
        fingerprint: &str,
    ) -> Result<(), CliError> {
        let deadline = Instant::now() + JOINING;
        loop {
            self.ask(line, kind, deadline).await?;
            match client.adopt_key(self.name.as_str(), fingerprint).await {
                Ok(_) => return Ok(()),
                Err(error) if error.status() == Some(404) => {
                    let organization = client.get(&[]).await?;
                    if organization["agent_requests"] == "refused" {
                        return Err(refused(client.org()));
                    }
                    if Instant::now() > deadline {
                        return Err(error.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
            sleep(PAUSE).await;
        }
    }

    /// Shows the key, so that it can be adopted.
    async fn ask(&self, line: &Line, kind: &dyn Kind, deadline: Instant) -> Result<(), CliError> {
        let failed = |reason: String| CliError::usage(format!("cannot become an agent: {reason}"));
        let body = OpenSession {
            instance: Uuid::new_v4().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            serves: vec![self.kind],
            place: kind.place().await.map_err(|error| failed(error.to_string()))?,
            labels: BTreeMap::new(),
            run_untagged_jobs: None,
            runner: Some(self.runner.clone()),
            reserved: true,
            standby: false,
            concurrency: 1,
            public_key: line.public_key(),
            found: Vec::new(),
        };
        loop {
            match line.open(&body).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_lasting() || Instant::now() > deadline => {
                    return Err(failed(error.to_string()));
                }
                Err(error) => sleep(error.pause().unwrap_or(PAUSE).min(JOINING)).await,
            }
        }
    }

    fn settings(&self, url: &str) -> Settings {
        let url = url.trim_end_matches('/').to_owned();
        let mut dispatcher = DispatcherSettings::of(DispatcherType::Local, []);
        // Jobs reach Canyon where this process does.
        dispatcher.api_url = Some(url.clone());
        Settings {
            api_url: url,
            org: self.org.clone(),
            runner: Some(self.runner.clone()),
            name: self.name.clone(),
            labels: BTreeMap::new(),
            run_untagged_jobs: None,
            identity: IdentitySettings::OwnKey,
            dispatcher,
            state_dir: self.state_dir.clone(),
            concurrency: 1,
            drain: DRAIN,
            single: false,
            reserved: true,
            listen_health: None,
            authorities: variable("CANYON_CA_FILE").map(|file| Authorities::File(file.into())),
            runner_program: Some(self.program.clone()),
            warnings: Vec::new(),
        }
    }
}

fn refused(org: &str) -> CliError {
    CliError::usage_with_hint(
        format!(
            "organization `{org}` refuses agents that ask to be adopted, and --local makes this machine one"
        ),
        "an admin may allow that: canyon update organization --set=agent_requests=allowed",
    )
}

/// What the job's providers may use: here there are no others than the caller's.
fn own_credentials() -> BTreeMap<OsString, OsString> {
    let of_clouds = |name: &OsStr| {
        name.to_str().is_some_and(|name| OF_CLOUDS.iter().any(|cloud| name.starts_with(cloud)))
    };
    std::env::vars_os().filter(|(name, _)| of_clouds(name)).collect()
}
