//! The cost of a deployment in the table, from its acceptance to its end, and how it grows with the
//! number of deployments in the table.
//!
//! `canyon-table-cost TOFU DEPLOYMENTS` runs real deployments through the router, the launcher and
//! `canyon-runner` at 100, 1,000, ... deployments in the table, and prints a JSON line for each, with what each access
//! pattern takes. A meter counts the requests of the API and the launcher, until the job's remains are removed.
//!
//! `canyon-table-cost container JOB_IMAGE COMMAND RUNNER_IMAGE ADDRESS DEPLOYMENTS` does the same with container jobs on the
//! engine of `DOCKER_HOST`, which must have both images. Its containers reach this program at the IP address ADDRESS. The caller
//! removes them.

mod filling;
mod laptop;
mod patterns;

use canyon_api::client::Client;
use canyon_dispatch::Platform;
use canyon_dispatch::docker::{DockerPlatform, DockerSettings, EngineUser};
use canyon_domain::audit::AuditRecord;
use canyon_domain::deployment::{Deployment, Status};
use canyon_domain::ids::{DeploymentId, OrgId, OrgUuid, PrincipalId};
use canyon_domain::inventory::Organization;
use canyon_domain::ports::{Clock as _, Entropy as _};
use canyon_domain::principal::{Principal, Role, SignIn};
use canyon_domain::runner::RunnerType;
use canyon_functions::App;
use canyon_functions::app::agent_registry::AgentRegistry;
use canyon_functions::app::authentication::RecentTokens;
use canyon_functions::app::names::RecentNames;
use canyon_functions::app::token_exchange::SignInVerifier;
use canyon_functions::changes::Changes;
use canyon_functions::http::HttpSettings;
use canyon_identity::bearer;
use canyon_identity::file_signer::FileSigner;
use canyon_identity::issuer::{Issuer, jobs_issuer_url};
use canyon_identity::master_key::{KEY_LENGTH, MasterKey};
use canyon_identity::master_keys::MasterKeys;
use canyon_identity::system::System;
use canyon_identity::verify::PrivateIssuers;
use canyon_store::Table;
use canyon_store::blobs::Blobs;
use canyon_store::meter::Meter;
use canyon_store::organizations::TokenRecord;
use filling::Filling;
use laptop::{Processes, Wakes};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

type Error = Box<dyn std::error::Error>;

const USAGE: &str = "usage: canyon-table-cost TOFU DEPLOYMENTS\n       canyon-table-cost container JOB_IMAGE COMMAND \
    RUNNER_IMAGE ADDRESS DEPLOYMENTS";
/// Each reading is the mean of so many deployments.
const ROUNDS: u32 = 5;
/// How long the removal of the last job's remains takes at most.
const REMOVAL: Duration = Duration::from_secs(1);
/// The limit of a deployment.
const PATIENCE: Duration = Duration::from_secs(30);

/// `module` or `container` of a request, with its value.
type Work = (&'static str, Value);

/// What is deployed, and the platform that runs it.
struct Workload {
    runner_type: RunnerType,
    platform: Arc<dyn Platform>,
    processes: Option<Processes>,
    /// The runner's settings other than its type.
    job: Value,
    state: Value,
    work: Work,
    /// The address at which the jobs reach the API.
    address: IpAddr,
}

/// A module of one file.
fn inline(source: &str) -> Work {
    ("module", json!({"source": "inline", "source_code": source, "inputs": {}}))
}

impl Workload {
    /// A module of one resource, whose jobs are processes.
    fn module(folder: &Path, tofu: &Path) -> Result<Self, Error> {
        let source = "resource \"terraform_data\" \"one\" { input = timestamp() }\n";
        let processes = Processes::new(folder, tofu)?;
        Ok(Self {
            runner_type: RunnerType::Local,
            platform: Arc::new(processes.platform.clone()),
            processes: Some(processes),
            job: json!({}),
            state: json!({"type": "local", "path": folder.join("state")}),
            work: inline(source),
            address: Ipv4Addr::LOCALHOST.into(),
        })
    }

    /// A program that ends at once, whose jobs are containers of `engine`.
    fn container(engine: Arc<DockerPlatform>, image: &str, command: &str, address: IpAddr) -> Self {
        Self {
            runner_type: RunnerType::Docker,
            platform: Arc::new(engine),
            processes: None,
            job: json!({"allowed_images": [image]}),
            // Only modules have a state.
            state: json!({"type": "s3", "bucket": "for-modules-only"}),
            work: ("container", json!({"image": image, "command": [command]})),
            address,
        }
    }
}

/// A Canyon whose table requests are counted, and one client of the table whose requests are not.
struct Bench {
    org: OrgUuid,
    table: Table,
    meter: Meter,
    client: Client,
    work: Work,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let folder = tempfile::tempdir()?;
    match arguments[..] {
        [tofu, most] => {
            let workload = Workload::module(folder.path(), Path::new(tofu))?;
            let bench = Bench::new(folder.path(), workload).await?;
            // So that the list of those that failed is not empty.
            bench.deployment_of(&inline("output \"none\" { value = none.of_this_name }\n")).await?;
            bench.measure(1, most.parse()?).await
        }
        ["container", image, command, runner_image, address, most] => {
            let settings = DockerSettings {
                user: EngineUser::CanyonLocal,
                image: Some(runner_image.to_owned()),
                ..DockerSettings::default()
            };
            let engine = Arc::new(DockerPlatform::new(settings, &|name| std::env::var(name).ok())?);
            let workload = Workload::container(engine, image, command, address.parse()?);
            let bench = Bench::new(folder.path(), workload).await?;
            bench.measure(0, most.parse()?).await
        }
        _ => Err(USAGE.into()),
    }
}

impl Bench {
    /// Prints a reading at 100, 1,000, ... deployments, the last at `most`. There are `held` already.
    async fn measure(&self, mut held: usize, most: usize) -> Result<(), Error> {
        // The first deployment reads from disk what later ones find in memory.
        let pattern = self.deployment().await?;
        self.meter.take();
        let mut filling = Filling::new(self, pattern).await?;
        held += 1;
        let mut size = 100.min(most);
        loop {
            filling.add(self, size.saturating_sub(held)).await?;
            held = held.max(size);
            self.reading(held, filling.last()).await?;
            held += ROUNDS as usize;
            if size == most {
                return Ok(());
            }
            size = (size * 10).min(most);
        }
    }

    async fn new(folder: &Path, workload: Workload) -> Result<Self, Error> {
        let (changes, ends) = Changes::new(Duration::from_secs(1)).with_published_ends();
        let (embedded, written) = laptop::open(&folder.join("table.db"))?;
        let table = embedded.table("canyon");
        table.ensure().await?;
        let meter = Meter::default();
        let listener = TcpListener::bind((workload.address, 0)).await?;
        let url = format!("http://{}", listener.local_addr()?);
        let mut key = vec![0; KEY_LENGTH];
        System.fill(&mut key);
        let signer = Arc::new(FileSigner::new(&folder.join("issuer.pk8")));
        let job_issuer =
            Issuer::new(&jobs_issuer_url(&url), signer, vec![], Arc::new(System), Arc::new(System));
        let app = App {
            table: meter.watch(&table),
            blobs: Blobs::folder(&folder.join("blobs"))?,
            clock: Arc::new(System),
            entropy: Arc::new(System),
            master_keys: Arc::new(MasterKeys::known(MasterKey::new(&key)?)),
            issuer_url: url.clone(),
            job_issuer: Arc::new(job_issuer),
            operator: None,
            changes,
            sign_in_verifier: Arc::new(SignInVerifier::new(
                PrivateIssuers::default(),
                Arc::new(System),
            )),
            authenticated: RecentTokens::default(),
            names: RecentNames::default(),
            agents: AgentRegistry::default(),
            api_url: url.clone(),
            job_token_life: canyon_functions::app::job_tokens::LIFE,
            serves_local_runners: true,
            up_since: System.now(),
        };
        let (org, token) = organization(&table).await?;
        let client = Client::new(&url, "local", token)?;
        let launcher = laptop::launcher(&app, &url, workload.runner_type, workload.platform);
        let wakes = Wakes { written, ends, processes: workload.processes };
        tokio::spawn(laptop::run(launcher, org, wakes));
        tokio::spawn(
            axum::serve(
                listener,
                canyon_functions::http::router(app, None, &HttpSettings::default()),
            )
            .into_future(),
        );
        let configuration = json!({"type": workload.runner_type, "job": workload.job});
        for (path, body) in [
            (vec!["env-types"], json!({"id": "bench"})),
            (vec!["projects"], json!({"id": "bench"})),
            (
                vec!["runners"],
                json!({
                    "id": "here",
                    "runner_configuration": configuration,
                    "state_storage_configuration": workload.state,
                }),
            ),
            (vec!["runner-rules"], json!({"runner_id": "here"})),
        ] {
            client.create(&path, &body).await?;
        }
        for id in filling::environments() {
            let body = json!({"id": id, "env_type_id": "bench"});
            client.create(&["projects", "bench", "envs"], &body).await?;
        }
        Ok(Self { org, table, meter, client, work: workload.work })
    }

    /// One deployment from its acceptance to its end.
    async fn deployment(&self) -> Result<Deployment, Error> {
        let ended = self.deployment_of(&self.work).await?;
        if ended.status == Status::Succeeded { Ok(ended) } else { Err(ended.message.into()) }
    }

    async fn deployment_of(&self, (kind, work): &Work) -> Result<Deployment, Error> {
        let body = json!({"mode": "deploy", "project_id": "bench", "env_id": "e0", (*kind): work});
        let key = System.id(System.now()).to_string();
        let made = self.client.create_deployment(&serde_json::from_value(body)?, &key).await?;
        let id = DeploymentId(made.id);
        let looking = async {
            loop {
                let found = self.table.deployment(self.org, id).await?;
                if let Some(ended) = found.filter(|found| found.status.is_terminal()) {
                    return Ok::<_, Error>(ended);
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, looking).await?
    }

    #[expect(clippy::print_stdout, reason = "its result, which scripts/bench reads")]
    async fn reading(&self, deployments: usize, of: &Deployment) -> Result<(), Error> {
        tokio::time::sleep(REMOVAL).await;
        self.meter.take();
        for _ in 0..ROUNDS {
            self.deployment().await?;
        }
        tokio::time::sleep(REMOVAL).await;
        let reading = self.meter.take();
        let mean = |sum: f64| sum / f64::from(ROUNDS);
        let operations: BTreeMap<_, _> = reading
            .0
            .iter()
            .map(|(name, usage)| (name, json!([usage.requests, usage.units])))
            .collect();
        let requests = u32::try_from(reading.requests())?;
        let line = json!({
            "deployments": deployments,
            "requests": mean(f64::from(requests)),
            "write_units": mean(reading.write_units()),
            "read_units": mean(reading.read_units()),
            "operations": operations,
            "patterns": self.patterns(of).await?,
        });
        println!("{line}");
        Ok(())
    }
}

/// The organization and its token, as the first start of `canyon local` creates them.
async fn organization(table: &Table) -> Result<(OrgUuid, SecretString), Error> {
    let now = System.now();
    let id: OrgId = "local".parse()?;
    let uuid = OrgUuid(System.id(now));
    let principal = Principal {
        id: PrincipalId(System.id(now)),
        org: uuid,
        org_id: id.clone(),
        role: Role::Admin,
        scoped_roles: Vec::new(),
        runner: None,
        operator: true,
        sign_in: SignIn::default(),
    };
    let organization = Organization::new(id, uuid, now, principal.id);
    let token = bearer::api_token(&System);
    let record = TokenRecord {
        hash: bearer::hash(token.expose_secret()),
        description: "benchmark".to_owned(),
        created_at: now,
        expires_at: None,
        labels: [].into(),
        grant: None,
        principal,
    };
    let audit = audit("organization.create", "orgs/local".to_owned());
    table.create_organization(&organization, &record, &audit).await?;
    Ok((uuid, token))
}

fn audit(action: &str, subject: String) -> AuditRecord {
    let at = System.now();
    AuditRecord {
        id: System.id(at),
        at,
        by: PrincipalId(uuid::Uuid::nil()),
        action: action.to_owned(),
        subject,
        by_right: "canyon".to_owned(),
        details: Vec::new(),
    }
}
