//! An agent in a network of its own that lets nothing in, and out to Canyon's one address alone. It launches containers of a
//! real Docker engine, by a socket that is a file.

use crate::harness::account::Account;
use crate::harness::bed::{Bed, bed};
use crate::harness::deployments::{LIMIT, assert_succeeded, end, request};
use crate::harness::helm::run;
use crate::harness::module::{THIRTY, inline};
use crate::harness::programs;
use crate::harness::server::{Server, Variables};
use serde_json::json;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;

const RUNNER: &str = "walled";
const HEALTH: u16 = 8080;

/// A network namespace, joined to this machine by one wire. The rules are within it; the machine's own stay as they are.
struct Wall {
    name: String,
    inside: String,
}

impl Wall {
    /// Out to this address and port, and no other.
    fn around(address: &str, port: &str) -> Self {
        // An interface's name has at most 15 letters.
        let name = Bed::unique("w")[..10].to_owned();
        let third = 192 + uuid::Uuid::new_v4().as_bytes()[0] % 64;
        let [outside, inside] = [1, 2].map(|last| format!("10.213.{third}.{last}"));
        let wall = Self { name, inside };
        let Self { name, inside } = &wall;
        ip(&format!("netns add {name}"));
        ip(&format!("link add {name}o type veth peer name {name}i netns {name}"));
        ip(&format!("address add {outside}/30 dev {name}o"));
        ip(&format!("link set {name}o up"));
        for command in [
            "ip link set lo up".to_owned(),
            format!("ip address add {inside}/30 dev {name}i"),
            format!("ip link set {name}i up"),
            // A way to everywhere, so that it is the rules that hold.
            format!("ip route add default via {outside}"),
            "iptables -P FORWARD DROP".to_owned(),
            "iptables -P INPUT DROP".to_owned(),
            "iptables -P OUTPUT DROP".to_owned(),
            "iptables -A INPUT -i lo -j ACCEPT".to_owned(),
            "iptables -A OUTPUT -o lo -j ACCEPT".to_owned(),
            format!("iptables -A OUTPUT -d {address} -p tcp --dport {port} -j ACCEPT"),
            // Answers, and nothing that opens a connection.
            format!("iptables -A INPUT -s {address} -p tcp --sport {port} ! --syn -j ACCEPT"),
        ] {
            ip(&format!("netns exec {name} {command}"));
        }
        wall
    }

    /// Whether an address answers from within.
    fn reaches(&self, url: &str) -> bool {
        let command = ["ip", "netns", "exec", &self.name, "curl", "-sk", "--max-time", "2", url];
        run(&command, &[]).success
    }
}

impl Drop for Wall {
    fn drop(&mut self) {
        // The wire goes with it.
        let _ = run(&["ip", "netns", "delete", &self.name], &[]);
    }
}

#[track_caller]
fn ip(command: &str) {
    let words: Vec<_> = std::iter::once("ip").chain(command.split(' ')).collect();
    run(&words, &[]).done();
}

/// The real program behind the wall. It ends with this value.
struct Agent {
    process: Child,
    folder: TempDir,
}

impl Agent {
    fn start(wall: &Wall, server: &Server, token: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let process = Command::new("ip")
            .args(["netns", "exec", &wall.name, "setpriv", "--pdeathsig", "KILL", "--"])
            .arg(programs::given("CANYON_TEST_BIN_DIR").join("canyon-agent"))
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("CANYON_API_URL", server.url())
            .env("CANYON_RUNNER_PATH", format!("{}/{RUNNER}", server.org()))
            .env("CANYON_TOKEN", token)
            .env("CANYON_AGENT_NAME", RUNNER)
            .env("CANYON_AGENT_STATE_DIR", folder.path())
            .env("CANYON_AGENT_LISTEN_HEALTH", format!("0.0.0.0:{HEALTH}"))
            .env("CANYON_JOB_DISPATCHER_TYPE", "docker")
            .env("CANYON_JOB_DISPATCHER_DATA_HOST", bed().get("DOCKER_HOST"))
            .env("CANYON_JOB_DISPATCHER_DATA_IMAGE", bed().get("RUNNER_IMAGE"))
            .env("CANYON_JOB_DISPATCHER_DATA_LOCAL_IMAGE", "true")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { process, folder }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            println!(
                "{}",
                std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_nothing_reaches_and_that_reaches_canyon_alone_deploys() {
    // States are in a bucket that the jobs reach; the agent does not.
    let account = Account::start().await;
    let server = Server::start_with(Variables::default()).await;
    let client = server.client();
    let definition = json!({
        "id": RUNNER,
        "runner_configuration": { "type": "docker-agent", "job": { "environment": account.bucket_variables() } },
        "state_storage_configuration": account.definition()["state_storage_configuration"],
    });
    client.create(&["runners"], &definition).await.unwrap();
    client.create(&["runner-rules"], &json!({ "runner_id": RUNNER })).await.unwrap();
    client.create(&["env-types"], &json!({ "id": "development" })).await.unwrap();
    client.create(&["projects"], &json!({ "id": "shop" })).await.unwrap();
    let env = json!({ "id": "dev", "env_type_id": "development" });
    client.create(&["projects", "shop", "envs"], &env).await.unwrap();
    let token = json!({ "role": "agent", "runner_id": RUNNER });
    let token =
        client.create(&["tokens"], &token).await.unwrap()["secret"].as_str().unwrap().to_owned();

    let url = server.url();
    let (address, port) = url.trim_start_matches("http://").split_once(':').unwrap();
    let wall = Wall::around(address, port);
    assert!(wall.reaches(&format!("{url}/health")), "to Canyon");
    assert!(!wall.reaches(bed().get("SERVER")), "to nowhere else");
    let _agent = Agent::start(&wall, &server, &token);
    let ready = format!("http://127.0.0.1:{HEALTH}/readyz");
    let deadline = Instant::now() + LIMIT;
    while !run(&["ip", "netns", "exec", &wall.name, "curl", "-sf", "--max-time", "2", &ready], &[])
        .success
    {
        assert!(Instant::now() < deadline, "the agent is not ready");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    let from_outside = format!("http://{}:{HEALTH}/readyz", wall.inside);
    assert!(
        !run(&["curl", "-s", "--max-time", "2", &from_outside], &[]).success,
        "nothing reaches the agent"
    );

    let body = request("dev", Some(inline(THIRTY)));
    let id = client.create_deployment(&body, "first").await.unwrap().id.to_string();
    let deployment = end(&client, &id).await;
    assert_succeeded(&deployment);
    let outputs = client.outputs(&id).await.unwrap();
    assert_eq!(outputs["count"].value, Some(json!(30)));
    let agent = client.get(&["agents", RUNNER]).await.unwrap();
    assert_eq!(agent["session"]["serves"], json!(["docker-agent"]), "{agent:#}");
}
