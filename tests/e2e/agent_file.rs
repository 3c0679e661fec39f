//! An agent starts with an environment file that was written for another product: other prefixes of the variables or the
//! file as it is, and no line added. It signs in through a credential helper beside it, and deploys.

use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::module::{THIRTY, inline};
use crate::harness::programs;
use crate::harness::site::{ENV, PROJECT, Site};
use crate::service_accounts::{AUDIENCE, CLIENT, Provider, serve};
use serde_json::json;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const RUNNER: &str = "my-runner-name";
const ACCOUNT: &str = "my-service-account-name";

/// A running agent. Dropping it ends the process.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the agent as `docker run --env-file` does: what follows the first `=` is the value, to the end of the line.
fn agent(file: &str, home: &Path) -> Command {
    let mut command = Command::new("timeout");
    // An agent that wrongly accepts its settings would never end.
    command
        .args(["120", "setpriv", "--pdeathsig", "KILL", "--"])
        .arg(programs::built().join("canyon-agent"));
    command.env_clear().env("PATH", programs::search_path(None)).env("HOME", home);
    command.envs(file.lines().filter_map(|line| line.split_once('=')));
    command.stdin(Stdio::null());
    command
}

/// A server whose runner is served by any agent that signs in as the service account.
async fn site(provider: &Provider) -> Site {
    let server = serve(provider).await;
    let site = Site { client: server.client(), server };
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let agents = json!({ "ids": [machine.trim().to_ascii_lowercase()] });
    let runner = json!({
        "id": RUNNER,
        "runner_configuration": { "type": "local", "agents": agents },
        "state_storage_configuration": { "type": "local", "path": site.server.path("states") },
    });
    site.make(&["runners"], &runner).await;
    site.make(&["runner-rules"], &json!({ "runner_id": RUNNER })).await;
    let policy = json!({
        "issuer": provider.url, "audience": AUDIENCE, "bound_claims": { "sub": CLIENT },
    });
    let account = json!({
        "id": ACCOUNT, "role": "agent", "runner_id": RUNNER, "trust_policies": [policy],
    });
    site.make(&["service-accounts"], &account).await;
    site.make(&["env-types"], &json!({ "id": "development" })).await;
    site.make(&["projects"], &json!({ "id": PROJECT })).await;
    site.environment(ENV).await;
    site
}

/// A site, the agent's home folder with its credential helper, and an environment file as Tharsis documents it, with
/// the addresses of the site.
struct Field {
    provider: Provider,
    site: Site,
    home: PathBuf,
    file: String,
}

impl Field {
    /// `printed` is what the helper prints, with `TOKEN` for the token.
    async fn new(printed: &str) -> Self {
        let provider = Provider::start();
        let site = site(&provider).await;
        let (org, url, home) = (site.server.org(), site.server.url(), site.server.path("home"));
        fs::create_dir(&home).unwrap();
        let token = provider.token(CLIENT, AUDIENCE, "RS256").await;
        fs::write(home.join("token"), printed.replace("TOKEN", &token)).unwrap();
        // The helper receives each argument as it is written.
        let helper = home.join("iamoidccredhelper");
        let issuer = &provider.url;
        let text = format!(
            "[ \"$*\" = '-region=us-east-2 -endpoint={issuer} -aud={AUDIENCE}' ] && [ $# = 3 ] || exit 3\nexec cat '{}'\n",
            home.join("token").display()
        );
        programs::script(&helper, &text);
        let file = format!(
            "THARSIS_API_URL={url}
THARSIS_RUNNER_PATH={org}/{RUNNER}
THARSIS_SERVICE_ACCOUNT_PATH={org}/{ACCOUNT}
THARSIS_CREDENTIAL_HELPER_CMD_PATH={}
THARSIS_CREDENTIAL_HELPER_CMD_ARGS=-region=us-east-2 -endpoint={issuer} -aud={AUDIENCE}
THARSIS_SERVICE_DISCOVERY_HOST=my-service-discovery-host
THARSIS_JOB_DISPATCHER_TYPE=local
THARSIS_JOB_DISPATCHER_DATA_API_URL={url}
",
            helper.display(),
        );
        Self { provider, site, home, file }
    }

    /// Starts an agent with `file`, and deploys through it. Returns the agent's log.
    async fn deploy(&self, file: &str) -> String {
        let log = File::create(self.home.join("log")).unwrap();
        let (output, errors) = (log.try_clone().unwrap(), log);
        let _agent = Agent(agent(file, &self.home).stdout(output).stderr(errors).spawn().unwrap());
        let id = self.site.accept(&request(ENV, Some(inline(THIRTY)))).await;
        let ended = self.site.end(&id).await;
        let said = fs::read_to_string(self.home.join("log")).unwrap();
        println!("{said}");
        assert_succeeded(&ended);
        said
    }

    /// The log of an agent that refuses `file`.
    fn refused(&self, file: &str) -> String {
        let done = agent(file, &self.home).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(78), "{said}");
        said
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_file_with_other_prefixes_starts_an_agent_that_deploys() {
    let field = Field::new("TOKEN").await;
    let file = field.file.replace("THARSIS_", "CANYON_");

    // The same file with one wrong line: the agent names the line, and starts nothing.
    for (wrong, named) in [
        (file.replace("TYPE=local", "TYPE=lokal"), "CANYON_JOB_DISPATCHER_TYPE"),
        (
            file.replace("HELPER_CMD_PATH=", "HELPER_CMD_PATHS="),
            "CANYON_CREDENTIAL_HELPER_CMD_PATHS",
        ),
        (file.replace("CANYON_RUNNER_PATH=", "OTHER="), "CANYON_RUNNER_PATH"),
    ] {
        let said = field.refused(&wrong);
        assert!(said.contains(named), "{named}: {said}");
    }

    let said = field.deploy(&file).await;
    assert!(
        said.contains("CANYON_SERVICE_DISCOVERY_HOST is not the host of"),
        "the fault is named"
    );
    let agents = field.site.client.list(&["agents"], &[]).await.unwrap();
    let [one] = agents.as_slice() else { panic!("{agents:#?}") };
    assert_eq!(one["state"], "adopted", "by the service account alone: {one:#}");
    assert!(one["fingerprint"].is_null(), "{one:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_file_of_tharsis_starts_an_agent_that_deploys_and_names_the_new_names() {
    let field = Field::new(r#"{"token": "TOKEN"}"#).await;
    let said = field.deploy(&field.file).await;
    let warnings: Vec<_> = said.lines().filter(|line| line.contains("another product")).collect();
    let [warning] = &*warnings else { panic!("{warnings:?}") };
    for line in field.file.lines() {
        let (name, _) = line.split_once('=').unwrap();
        let new = name.replace("THARSIS_", "CANYON_");
        assert!(warning.contains(&format!("{name} is read as {new}")), "{name}: {warning}");
    }
    assert!(!warning.contains(&field.provider.url), "a value is shown: {warning}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_file_of_waypoint_needs_the_runner_and_the_platform_and_no_token() {
    let field = Field::new("TOKEN").await;
    let address = field.site.server.url();
    let address = address.strip_prefix("http://").unwrap();
    let file = format!(
        "WAYPOINT_SERVER_ADDR={address}
WAYPOINT_SERVER_TLS=false
WAYPOINT_SERVER_TLS_SKIP_VERIFY=true
WAYPOINT_SERVER_TOKEN=s3cr3t
WAYPOINT_SERVER_COOKIE=s3cr3t
"
    );
    let said = field.refused(&file);
    for expected in [
        "WAYPOINT_SERVER_ADDR is read as CANYON_API_URL",
        "WAYPOINT_SERVER_TOKEN is not read",
        "CANYON_RUNNER_PATH is not set",
        "CANYON_JOB_DISPATCHER_TYPE is not set",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    assert!(!said.contains("s3cr3t") && !said.contains("CANYON_API_URL is not set"), "{said}");
    // With these two, the agent registers, and deploys once an administrator has adopted it.
    let org = field.site.server.org();
    let more = format!("CANYON_RUNNER_PATH={org}/{RUNNER}\nCANYON_JOB_DISPATCHER_TYPE=local\n");
    let (said, ()) = tokio::join!(
        async { field.deploy(&format!("{file}{more}")).await },
        adopt_the_first(&field.site)
    );
    assert!(said.contains("WAYPOINT_SERVER_COOKIE is not read") && !said.contains("s3cr3t"));
}

/// Adopts the agent that registers first.
async fn adopt_the_first(site: &Site) {
    for _ in 0..600 {
        let agents = site.client.list(&["agents"], &[]).await.unwrap();
        if let [first] = agents.as_slice() {
            site.client.adopt_agent(first["id"].as_str().unwrap()).await.unwrap();
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("no agent registers");
}
