//! An agent starts with an environment file that was written for another product: other prefixes of the variables, and
//! no line added. It signs in through a credential helper beside it, and deploys.

use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::module::{THIRTY, inline};
use crate::harness::programs;
use crate::harness::site::{ENV, PROJECT, Site};
use crate::service_accounts::{AUDIENCE, CLIENT, Provider, serve};
use serde_json::json;
use std::fs::{self, File};
use std::path::Path;
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

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_file_with_other_prefixes_starts_an_agent_that_deploys() {
    let provider = Provider::start();
    let site = site(&provider).await;
    let (org, url, home) = (site.server.org(), site.server.url(), site.server.path("home"));
    fs::create_dir(&home).unwrap();
    fs::write(home.join("token"), provider.token(CLIENT, AUDIENCE, "RS256").await).unwrap();
    // The helper receives each argument as it is written.
    let helper = home.join("iamoidccredhelper");
    let text = format!(
        "[ \"$*\" = '-region=us-east-2 -endpoint={} -aud={AUDIENCE}' ] && [ $# = 3 ] || exit 3\nexec cat '{}'\n",
        provider.url,
        home.join("token").display()
    );
    programs::script(&helper, &text);
    let file = format!(
        "CANYON_API_URL={url}
CANYON_RUNNER_PATH={org}/{RUNNER}
CANYON_SERVICE_ACCOUNT_PATH={org}/{ACCOUNT}
CANYON_CREDENTIAL_HELPER_CMD_PATH={}
CANYON_CREDENTIAL_HELPER_CMD_ARGS=-region=us-east-2 -endpoint={} -aud={AUDIENCE}
CANYON_SERVICE_DISCOVERY_HOST=my-service-discovery-host
CANYON_JOB_DISPATCHER_TYPE=local
CANYON_JOB_DISPATCHER_DATA_API_URL={url}
",
        helper.display(),
        provider.url
    );

    // The same file with one wrong line: the agent names the line, and starts nothing.
    for (wrong, named) in [
        (file.replace("TYPE=local", "TYPE=lokal"), "CANYON_JOB_DISPATCHER_TYPE"),
        (
            file.replace("HELPER_CMD_PATH=", "HELPER_CMD_PATHS="),
            "CANYON_CREDENTIAL_HELPER_CMD_PATHS",
        ),
        (file.replace("CANYON_RUNNER_PATH=", "OTHER="), "CANYON_RUNNER_PATH"),
    ] {
        let done = agent(&wrong, &home).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(78), "{named}: {said}");
        assert!(said.contains(named), "{named}: {said}");
    }

    let log = File::create(home.join("log")).unwrap();
    let (output, errors) = (log.try_clone().unwrap(), log);
    let _agent = Agent(agent(&file, &home).stdout(output).stderr(errors).spawn().unwrap());
    let id = site.accept(&request(ENV, Some(inline(THIRTY)))).await;
    let ended = site.end(&id).await;
    let said = fs::read_to_string(home.join("log")).unwrap();
    println!("{said}");
    assert_succeeded(&ended);
    assert!(
        said.contains("CANYON_SERVICE_DISCOVERY_HOST is not the host of"),
        "the fault is named"
    );
    let agents = site.client.list(&["agents"], &[]).await.unwrap();
    let [one] = agents.as_slice() else { panic!("{agents:#?}") };
    assert_eq!(one["state"], "adopted", "by the service account alone: {one:#}");
    assert!(one["fingerprint"].is_null(), "{one:#}");
}
