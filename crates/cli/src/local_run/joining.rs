//! How this process becomes an agent: it registers, is adopted, and starts to work.

use super::LocalRun;
use super::own_agent::{DRAIN, JOIN_TIMEOUT, OwnAgent, RETRY_PAUSE};
use super::own_credentials;
use crate::error::CliError;
use crate::process_variable::variable;
use canyon_agent::connection::{self, ApiConnection};
use canyon_agent::kinds::Kind;
use canyon_agent::kinds::local::LocalKind;
use canyon_agent::settings::Settings;
use canyon_agent::settings::authorities::Authorities;
use canyon_agent::settings::dispatcher::{DispatcherSettings, DispatcherType};
use canyon_agent::settings::identity::IdentitySettings;
use canyon_agent::settings::served::Served;
use canyon_agent::sign_in::SignIn;
use canyon_agent::sign_in::agent_key::{OwnKey, new_pem};
use canyon_agent::stop::Stop;
use canyon_api::agent::{OpenSession, PROTOCOL};
use canyon_api::client::Client;
use secrecy::ExposeSecret as _;
use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

impl LocalRun {
    /// Checks whether the caller may adopt the agent. No agent has this name yet, so 404 means yes.
    pub(super) async fn check_right(&self, client: &Client) -> Result<(), CliError> {
        match client.adopt_agent(self.name.as_str()).await {
            Err(error) if error.status() == Some(404) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(_) => Err(CliError::usage("another agent has the name of this process; try again")),
        }
    }

    /// Registers the agent, adopts it, and starts its work.
    pub(super) async fn enter(
        &self,
        agent: &mut OwnAgent,
        client: &Client,
        stops: watch::Receiver<u32>,
    ) -> Result<(), CliError> {
        let folder = &self.state_dir;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| CliError::file("create", folder, error))?;
        let key = OwnKey::from_pem(new_pem().expose_secret(), "this process")
            .map_err(|error| CliError::usage(error.to_string()))?;
        let settings = self.settings(client.url());
        let kind = LocalKind::new(&settings).map_err(|error| CliError::usage(error.to_string()))?;
        let kind: Arc<dyn Kind> =
            Arc::new(kind.serving(self.kind, own_credentials::of_this_process()));
        let authorities = settings.authorities.as_ref();
        let http = connection::http_client(authorities).map_err(CliError::usage)?;
        let connection = Client::over(http.clone(), client.url(), self.org.as_str());
        let api = ApiConnection::new(connection, &self.name, self.sign_in(&key));
        self.be_adopted(&api, &*kind, client, &key.public().fingerprint()).await?;
        let proofs = vec![(self.served(), self.sign_in(&key))];
        let work = canyon_agent::run_as(settings, kind, proofs, http, Stop::of(stops));
        agent.work = Some(tokio::spawn(work));
        agent.wait_until_idle(client).await
    }

    fn sign_in(&self, key: &OwnKey) -> SignIn {
        SignIn::Key { key: key.clone(), agent: self.name.clone(), org: self.org.clone() }
    }

    /// Registers until Canyon has a record of the request, and adopts it. Canyon does not tell an agent whether it has
    /// a record: too many agents may be registering, or the organization may refuse all.
    async fn be_adopted(
        &self,
        api: &ApiConnection,
        kind: &dyn Kind,
        client: &Client,
        fingerprint: &str,
    ) -> Result<(), CliError> {
        let deadline = Instant::now() + JOIN_TIMEOUT;
        loop {
            self.register(api, kind, deadline).await?;
            match client.adopt_agent_with_fingerprint(self.name.as_str(), fingerprint).await {
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
            sleep(RETRY_PAUSE).await;
        }
    }

    /// Sends the public key, so that it can be adopted.
    async fn register(
        &self,
        api: &ApiConnection,
        kind: &dyn Kind,
        deadline: Instant,
    ) -> Result<(), CliError> {
        let failed = |reason: String| CliError::usage(format!("cannot become an agent: {reason}"));
        let body = OpenSession {
            instance: Uuid::new_v4().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: PROTOCOL,
            serves: vec![self.kind],
            platform_id: kind.platform_id().await.map_err(|error| failed(error.to_string()))?,
            labels: BTreeMap::new(),
            run_untagged_jobs: None,
            runner: Some(self.runner.clone()),
            reserved: true,
            shared: false,
            standby: false,
            concurrency: 1,
            public_key: api.public_key(),
            found: Vec::new(),
        };
        loop {
            match api.open(&body).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_permanent() || Instant::now() > deadline => {
                    return Err(failed(error.to_string()));
                }
                Err(error) => sleep(error.pause().unwrap_or(RETRY_PAUSE).min(JOIN_TIMEOUT)).await,
            }
        }
    }

    fn served(&self) -> Served {
        Served { org: self.org.clone(), runner: Some(self.runner.clone()), account: None }
    }

    fn settings(&self, url: &str) -> Settings {
        let url = url.trim_end_matches('/').to_owned();
        let mut dispatcher = DispatcherSettings::of(DispatcherType::Local, []);
        // Jobs reach Canyon at the same URL as this process.
        dispatcher.api_url = Some(url.clone());
        Settings {
            api_url: url,
            served: vec![self.served()],
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

pub(super) fn refused(org: &str) -> CliError {
    CliError::usage_with_hint(
        format!(
            "organization `{org}` refuses agents that ask to be adopted, and --local registers this machine as one"
        ),
        "an administrator can allow them: canyon update organization --set=agent_requests=allowed",
    )
}
