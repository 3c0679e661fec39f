//! How an agent reaches Canyon in a company's network: through a proxy alone, to a certificate of the company's own
//! authority. Also what `canyon-agent check` reports where a connection fails, and what probes are answered.

mod front;
mod tunnels;

use crate::agent_faults::agent::{self, Agent, Spec};
use crate::agent_faults::clock::faketime;
use crate::agent_faults::world::{AGENT, World};
use canyon_api::agent::AgentView;
use front::{Front, NAME};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tunnels::Proxy;

const LIMIT: Duration = Duration::from_mins(3);
/// The time limit of a whole check in seconds. Each of its steps has a limit of its own.
const CHECK_LIMIT: &str = "120";

/// Sets a variable of the agent, or removes it.
fn set(spec: &mut Spec, name: &str, value: Option<String>) {
    spec.variables.retain(|(known, _)| known != name);
    spec.variables.extend(value.map(|value| (name.to_owned(), value)));
}

/// An agent for which Canyon's host name resolves only at the proxy, and only `front`'s authority signs its
/// certificate.
fn walled(world: &World, front: &Front, proxy: &str) -> Spec {
    let mut spec = world.spec(AGENT);
    let authority = front.authority().to_str().unwrap().to_owned();
    set(&mut spec, "CANYON_API_URL", Some(format!("https://{NAME}")));
    set(&mut spec, "CANYON_CA_FILE", Some(authority));
    set(&mut spec, "HTTPS_PROXY", Some(proxy.to_owned()));
    spec
}

/// The result of `canyon-agent check`.
struct Checked {
    code: Option<i32>,
    said: String,
}

impl Checked {
    fn of(spec: &Spec) -> Self {
        let mut spec = spec.clone();
        let bounded = ["timeout", "--kill-after", "5", CHECK_LIMIT].map(Into::into);
        spec.prefix.splice(0..0, bounded);
        let output = agent::command(&spec).arg("check").stdin(Stdio::null()).output().unwrap();
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Self { code: output.status.code(), said }
    }

    /// The lines with this result: step and message.
    fn lines<'a>(&'a self, result: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let lines = self.said.lines().filter_map(move |line| line.strip_prefix(result));
        lines.filter_map(|line| line.trim_start().split_once(' '))
    }

    /// Asserts that these steps failed and no other, the first of them with these words.
    #[track_caller]
    fn assert_failed(&self, steps: &[&str], words: &str) {
        let failed: Vec<_> = self.lines("failed ").collect();
        let found: Vec<_> = failed.iter().map(|(step, _)| *step).collect();
        assert_eq!((self.code, &*found), (Some(1), steps), "{}", self.said);
        assert!(failed[0].1.contains(words), "no `{words}`: {}", self.said);
    }

    #[track_caller]
    fn assert_ok(&self, step: &str, words: &str) {
        let is_so = |(found, message): (&str, &str)| found == step && message.contains(words);
        assert!(self.lines("ok ").any(is_so), "no `{words}` of {step}: {}", self.said);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_deploys_through_a_proxy_alone_and_trusts_the_configured_authority() {
    let world = World::new().await;
    let front = Front::of(&world.site.server.url());
    let proxy = Proxy::start(front.address).await;
    let spec = walled(&world, &front, &proxy.url);
    let agent = Agent::start(spec.clone());
    let is_idle = |view: &AgentView| view.availability == "idle";
    world.until_agent(&agent, AGENT, "wait for work", is_idle).await;
    let id = world.accept(1, 2, "0.1").await;
    let ended = world.assert_done_once(&id, 1, 2).await;
    assert_eq!(ended.attempts.len(), 1, "{ended:#?}");
    world.assert_nothing_left(&agent, &id).await;

    let checked = Checked::of(&spec);
    checked.assert_ok("proxy", &proxy.url);
    checked.assert_ok("tls", "the certificate is valid");
    checked.assert_ok("api", "Canyon ");
    assert_eq!(checked.code, Some(0), "{}", checked.said);

    // The agent's machine cannot resolve the name, so every request that reached Canyon came through a tunnel.
    let asked = proxy.asked();
    let tunnel = format!("CONNECT {NAME}:443 HTTP/1.1");
    assert!(!asked.is_empty() && asked.iter().all(|line| *line == tunnel), "{asked:#?}");
    assert_eq!(world.gate.take().len(), 0, "nor did it know another");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_check_of_an_agent_names_the_step_at_which_its_connection_fails() {
    let world = World::new().await;
    let front = Front::of(&world.site.server.url());
    let proxy = Proxy::start(front.address).await;
    let good = walled(&world, &front, &proxy.url);

    let mut trusting_others = good.clone();
    set(&mut trusting_others, "CANYON_CA_FILE", None);
    let checked = Checked::of(&trusting_others);
    checked.assert_failed(&["tls"], "name a private authority with CANYON_CA_FILE");
    checked.assert_ok("proxy", &proxy.url);

    // The kernel accepts connections for this listener, which never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut unanswered = good.clone();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    set(&mut unanswered, "HTTPS_PROXY", Some(silent_url.clone()));
    let checked = Checked::of(&unanswered);
    checked.assert_failed(&["tls"], &format!("cannot reach https://{NAME}"));
    checked.assert_ok("proxy", &silent_url);

    let mut nameless = good.clone();
    set(&mut nameless, "HTTPS_PROXY", None);
    Checked::of(&nameless).assert_failed(&["dns", "tls"], NAME);

    let mut early = world.spec(AGENT);
    early.prefix = faketime("+1h");
    Checked::of(&early).assert_failed(&["clock"], "this machine's clock is 3");
    assert!(world.site.client.agent(AGENT).await.is_err(), "a check opens no session");
}

/// Sends a request as a probe does.
async fn probe(address: SocketAddr, path: &str) -> (u16, String) {
    let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(10));
    let asked = http.build().unwrap().get(format!("http://{address}{path}")).send().await;
    let answer = asked.unwrap_or_else(|error| panic!("{path}: {error}"));
    (answer.status().as_u16(), answer.text().await.unwrap())
}

/// One value of the metrics.
async fn metric(address: SocketAddr, name: &str) -> u64 {
    let (status, text) = probe(address, "/metrics").await;
    assert_eq!(status, 200, "{text}");
    let start = format!("canyon_agent_{name} ");
    let found = text.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok());
    found.unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// The exit code and the output of `canyon-agent health`, run beside the agent.
fn health(spec: &Spec, more: &[&str]) -> (Option<i32>, String) {
    let mut command = agent::command(spec);
    let output = command.arg("health").args(more).stdin(Stdio::null()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_show_that_an_agent_lives_and_when_it_is_ready_for_work() {
    let world = World::new().await;
    let mut spec = world.spec(AGENT);
    // An agent with a key of its own has no session until an administrator adopts it.
    set(&mut spec, "CANYON_TOKEN", None);
    // No other program uses this address, so the port stays free until the agent takes it.
    let address = TcpListener::bind("127.0.0.97:0").unwrap().local_addr().unwrap();
    set(&mut spec, "CANYON_AGENT_LISTEN_HEALTH", Some(address.to_string()));
    let agent = Agent::start(spec.clone());
    let is_pending = |view: &AgentView| view.state.as_str() == "pending";
    world.until_agent(&agent, AGENT, "ask to be adopted", is_pending).await;
    assert_eq!(probe(address, "/livez").await.0, 200);
    let (status, reason) = probe(address, "/readyz").await;
    assert_eq!((status, reason.trim()), (503, "no session with Canyon"));
    assert_eq!(health(&spec, &[]), (Some(0), String::new()));
    let (code, said) = health(&spec, &["--ready"]);
    assert!(code == Some(1) && said.contains("no session with Canyon"), "{code:?}: {said}");
    assert_eq!((metric(address, "ready").await, metric(address, "session").await), (0, 0));

    world.site.client.adopt_agent(AGENT).await.unwrap();
    let deadline = Instant::now() + LIMIT;
    while probe(address, "/readyz").await.0 != 200 {
        assert!(Instant::now() < deadline, "it is not ready\n{}", agent.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(health(&spec, &["--ready"]), (Some(0), String::new()));
    let id = world.accept(1, 2, "0.1").await;
    world.assert_done_once(&id, 1, 2).await;
    world.assert_nothing_left(&agent, &id).await;
    assert_eq!(probe(address, "/livez").await.0, 200);
    assert_eq!(metric(address, "ready").await, 1);
    let view = world.site.client.agent(AGENT).await.unwrap();
    assert_eq!(metric(address, "session").await, view.session.unwrap().number);
    assert_eq!(metric(address, "jobs_taken_total").await, 1);
    assert!(metric(address, "polls_total").await > 0);
    assert_eq!(probe(address, "/elsewhere").await.0, 404);
}
