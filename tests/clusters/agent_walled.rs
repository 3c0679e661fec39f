//! An agent in a network namespace that lets no connection in, and out to Canyon's address alone. It launches
//! containers of a real Docker engine through a unix socket.

use crate::harness::account::Account;
use crate::harness::bed::{Bed, bed};
use crate::harness::deployments::{LIMIT, assert_succeeded, end, request};
use crate::harness::helm::run;
use crate::harness::module::{THIRTY, inline};
use crate::harness::programs;
use crate::harness::server::{Server, Variables};
use canyon_api::client::Client;
use serde_json::{Value, json};
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::net::TcpListener;

pub(crate) const RUNNER: &str = "walled";
const HEALTH: u16 = 8080;
/// By IPv6 the two ends of a link reach each other without configuration. These addresses are this machine's and the
/// agent's: addresses that the kernel makes itself cannot be used in their first second.
const LINK_LOCAL: [&str; 2] = ["fe80::1", "fe80::2"];

/// A kernel without IPv6 has no such connection in either direction.
fn has_ipv6() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv6/conf/default/disable_ipv6")
        .is_ok_and(|disabled| disabled.trim() == "0")
}

/// A network namespace with one link to this machine. The firewall rules are inside it; the machine's own do not
/// change.
pub(crate) struct Wall {
    name: String,
    inside: String,
}

impl Wall {
    /// Creates the namespace without any rule.
    pub(crate) fn new() -> Self {
        // An interface's name has at most 15 characters.
        let name = Bed::unique("w")[..10].to_owned();
        let third = 192 + uuid::Uuid::new_v4().as_bytes()[0] % 64;
        let [outside, inside] = [1, 2].map(|last| format!("10.213.{third}.{last}"));
        let wall = Self { name, inside };
        let Self { name, inside } = &wall;
        ip(&format!("netns add {name}"));
        ip(&format!("link add {name}o type veth peer name {name}i netns {name}"));
        ip(&format!("address add {outside}/30 dev {name}o"));
        ip(&format!("link set {name}o up"));
        wall.run_within("ip link set lo up");
        wall.run_within(&format!("ip address add {inside}/30 dev {name}i"));
        wall.run_within(&format!("ip link set {name}i up"));
        if has_ipv6() {
            let [outside, inside] = LINK_LOCAL;
            ip(&format!("address add {outside}/64 dev {name}o nodad"));
            wall.run_within(&format!("ip address add {inside}/64 dev {name}i nodad"));
        }
        // A route to everywhere, so that only the rules limit connections.
        wall.run_within(&format!("ip route add default via {outside}"));
        wall
    }

    /// Allows connections to this address and port, and no other; and none in.
    fn close(&self, address: &str, port: &str) {
        for filter in ["iptables", "ip6tables"] {
            for rule in [
                "-P FORWARD DROP",
                "-P INPUT DROP",
                "-P OUTPUT DROP",
                "-A INPUT -i lo -j ACCEPT",
                "-A OUTPUT -o lo -j ACCEPT",
            ] {
                self.run_within(&format!("{filter} {rule}"));
            }
        }
        let there = format!("-d {address} -p tcp --dport {port}");
        self.run_within(&format!("iptables -A OUTPUT {there} -j ACCEPT"));
        // Answers, and no packet that opens a connection.
        let back = format!("-s {address} -p tcp --sport {port} ! --syn");
        self.run_within(&format!("iptables -A INPUT {back} -j ACCEPT"));
    }

    /// Removes the rules.
    fn open(&self) {
        for filter in ["iptables", "ip6tables"] {
            self.run_within(&format!("{filter} -P INPUT ACCEPT"));
            self.run_within(&format!("{filter} -P OUTPUT ACCEPT"));
        }
    }

    fn within(&self) -> [&str; 4] {
        ["ip", "netns", "exec", &self.name]
    }

    #[track_caller]
    fn run_within(&self, command: &str) {
        ip(&format!("netns exec {} {command}", self.name));
    }

    /// Whether any server answers a request from within, with whatever status.
    pub(crate) fn reaches(&self, url: &str) -> bool {
        curl(&self.within(), &[url])
    }

    /// Waits until [`Self::reaches`] holds: a server may be slow.
    pub(crate) async fn until_reaches(&self, url: &str, why: &str) {
        let deadline = Instant::now() + LIMIT;
        while !self.reaches(url) {
            assert!(Instant::now() < deadline, "{why}: {url}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// An address of this machine that a program within could reach by IPv6.
    async fn neighbour(&self) -> Option<String> {
        if !has_ipv6() {
            return None;
        }
        let here = format!("{}%{}o", LINK_LOCAL[0], self.name);
        let listener = TcpListener::bind((here, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let nothing: axum::Router = axum::Router::new();
        // The task ends with its test's runtime.
        tokio::spawn(async move { axum::serve(listener, nothing).await });
        Some(format!("http://[{}%25{}i]:{port}/", LINK_LOCAL[0], self.name))
    }

    /// The addresses at which this machine could reach the agent.
    fn ways_in(&self) -> Vec<String> {
        let neighbour = has_ipv6().then(|| format!("[{}%25{}o]", LINK_LOCAL[1], self.name));
        let hosts = std::iter::once(self.inside.clone()).chain(neighbour);
        hosts.map(|host| format!("http://{host}:{HEALTH}/readyz")).collect()
    }

    /// Waits until the agent within reports that it is ready.
    async fn agent_is_ready(&self) {
        let ready = format!("http://127.0.0.1:{HEALTH}/readyz");
        let deadline = Instant::now() + LIMIT;
        while !curl(&self.within(), &["--fail", &ready]) {
            assert!(Instant::now() < deadline, "the agent is not ready");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

impl Drop for Wall {
    fn drop(&mut self) {
        // Deleting the namespace removes the link.
        let _ = run(&["ip", "netns", "delete", &self.name], &[]);
    }
}

#[track_caller]
fn ip(command: &str) {
    let words: Vec<_> = std::iter::once("ip").chain(command.split(' ')).collect();
    run(&words, &[]).done();
}

/// Whether a request succeeds that is made from `place`, the beginning of a command line.
fn curl(place: &[&str], arguments: &[&str]) -> bool {
    // A proxy from the environment would answer every request, or none.
    let curl = ["curl", "-sk", "--noproxy", "*", "--max-time", "2"];
    run(&[place, &curl[..], arguments].concat(), &[]).success
}

/// The real program inside the namespace. Dropping it ends the program.
pub(crate) struct Agent {
    process: Child,
    folder: TempDir,
}

impl Agent {
    /// `within` is the beginning of a command line that runs a program inside the namespace.
    pub(crate) fn start(within: &[&str], server: &Server, token: &str) -> Self {
        let path = format!("{}/{RUNNER}", server.org());
        Self::start_with(
            within,
            &[
                ("CANYON_API_URL", &server.url()),
                ("CANYON_RUNNER_PATH", &path),
                ("CANYON_TOKEN", token),
                ("CANYON_AGENT_LISTEN_HEALTH", &format!(":{HEALTH}")),
            ],
        )
    }

    /// As [`Self::start`], with the settings that decide which jobs it launches.
    pub(crate) fn start_with(within: &[&str], variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = File::create(folder.path().join("log")).unwrap();
        let process = Command::new("env")
            .args(within)
            .args(["setpriv", "--pdeathsig", "KILL", "--"])
            .arg(programs::given("CANYON_TEST_BIN_DIR").join("canyon-agent"))
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("CANYON_AGENT_NAME", RUNNER)
            .env("CANYON_AGENT_STATE_DIR", folder.path())
            .env("CANYON_JOB_DISPATCHER_TYPE", "docker")
            .env("CANYON_JOB_DISPATCHER_DATA_HOST", bed().get("DOCKER_HOST"))
            .env("CANYON_JOB_DISPATCHER_DATA_IMAGE", bed().get("RUNNER_IMAGE"))
            .env("CANYON_JOB_DISPATCHER_DATA_LOCAL_IMAGE", "true")
            .envs(variables.iter().copied())
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
        let said = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        if std::thread::panicking() {
            println!("{said}");
            return;
        }
        programs::assert_no_secret("the agent's log", &said);
    }
}

/// A Canyon whose only runner has its jobs launched by agents, and an agent's token.
pub(crate) async fn canyon(account: &Account, environment: &Value) -> (Server, String) {
    let mut variables = json!(account.bucket_variables());
    variables.as_object_mut().unwrap().extend(environment.as_object().unwrap().clone());
    let server = Server::start_with(Variables::default()).await;
    let client = server.client();
    inventory(&client, account, &variables).await;
    let token = json!({ "role": "agent", "runner_id": RUNNER });
    let token = client.create(&["tokens"], &token).await.unwrap();
    (server, token["secret"].as_str().unwrap().to_owned())
}

/// Creates the runner, whose jobs have these variables, and an environment.
pub(crate) async fn inventory(client: &Client, account: &Account, variables: &Value) {
    let definition = json!({
        "id": RUNNER,
        "runner_configuration": { "type": "docker-agent", "job": { "environment": variables } },
        "state_storage_configuration": account.definition()["state_storage_configuration"],
    });
    client.create(&["runners"], &definition).await.unwrap();
    client.create(&["runner-rules"], &json!({ "runner_id": RUNNER })).await.unwrap();
    client.create(&["env-types"], &json!({ "id": "development" })).await.unwrap();
    client.create(&["projects"], &json!({ "id": "shop" })).await.unwrap();
    let env = json!({ "id": "dev", "env_type_id": "development" });
    client.create(&["projects", "shop", "envs"], &env).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_nothing_reaches_and_that_reaches_canyon_alone_deploys() {
    // The states are in a bucket that the jobs reach and the agent does not.
    let account = Account::start().await;
    let (server, token) = canyon(&account, &json!({})).await;
    let (wall, url) = (Wall::new(), server.url());
    // The second address is Canyon's own with another port.
    let bucket = account.bucket_variables()["AWS_ENDPOINT_URL_S3"].clone();
    let mut elsewhere = vec![bed().get("SERVER").to_owned(), bucket];
    elsewhere.extend(wall.neighbour().await);
    for place in &elsewhere {
        wall.until_reaches(place, "it answers where there is no rule").await;
    }
    let (address, port) = url.trim_start_matches("http://").split_once(':').unwrap();
    wall.close(address, port);
    wall.until_reaches(&format!("{url}/health"), "to Canyon").await;
    for place in &elsewhere {
        assert!(!wall.reaches(place), "to nowhere else: {place}");
    }
    let _agent = Agent::start(&wall.within(), &server, &token);
    wall.agent_is_ready().await;
    for way in wall.ways_in() {
        assert!(!curl(&[], &[&way]), "nothing reaches the agent: {way}");
    }

    let client = server.client();
    let body = request("dev", Some(inline(THIRTY)));
    let id = client.create_deployment(&body, "first").await.unwrap().id.to_string();
    let deployment = end(&client, &id).await;
    assert_succeeded(&deployment);
    let outputs = client.outputs(&id).await.unwrap();
    assert_eq!(outputs["count"].value, Some(json!(30).into()));
    let agent = client.get(&["agents", RUNNER]).await.unwrap();
    assert_eq!(agent["session"]["serves"], json!(["docker-agent"]), "{agent:#}");

    // The rules alone blocked these connections: without them the agent answers.
    wall.open();
    for way in wall.ways_in() {
        assert!(curl(&[], &[&way]), "{way} answers where there is no rule");
    }
}
