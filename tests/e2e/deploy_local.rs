//! `canyon deploy --local`: the command line works as an agent, for one deployment alone.

use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::module::{THIRTY, inline};
use crate::harness::running::Running;
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use crate::harness::{processes, programs};
use crate::states::storage::Storage;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_mins(3);
/// A server whose runner is served by agents, to which no agent has ever connected.
pub(crate) async fn far(configuration: Value) -> Site {
    let server = Server::start().await;
    let states = json!({ "type": "local", "path": server.path("states") });
    keeping(server, configuration, states).await
}

/// The same, with states kept in this storage.
pub(crate) async fn keeping(server: Server, configuration: Value, states: Value) -> Site {
    let client = server.client();
    let site = Site { server, client };
    let runner = json!({
        "id": "far",
        "runner_configuration": configuration,
        "state_storage_configuration": states,
    });
    site.make(&["runners"], &runner).await;
    site.make(&["runner-rules"], &json!({ "runner_id": "far" })).await;
    site.make(&["env-types"], &json!({ "id": "development" })).await;
    site.make(&["projects"], &json!({ "id": PROJECT })).await;
    site.environment(ENV).await;
    site
}

/// A module that writes down where it runs, and then takes so many seconds.
fn noting(site: &Site, name: &str, seconds: &str) -> String {
    let path = site.server.path(name);
    let path = path.display();
    format!(
        r#"
resource "terraform_data" "quick" {{
  provisioner "local-exec" {{
    command = "pwd > '{path}'"
  }}
}}

resource "terraform_data" "slow" {{
  depends_on = [terraform_data.quick]
  provisioner "local-exec" {{
    command = "exec sleep {seconds}"
  }}
}}

output "done" {{ value = "yes" }}
"#
    )
}

/// The command line's folder of jobs.
fn jobs_of_cli(site: &Site) -> PathBuf {
    site.server.path(".local/state/canyon/deployments")
}

pub(crate) fn module(site: &Site, name: &str, text: &str) -> String {
    let folder = site.server.path(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("main.tf"), text).unwrap();
    format!("./{name}")
}

/// `canyon deploy --local` in the folder of the test.
pub(crate) fn start(site: &Site, env: &str, module: &str) -> Running {
    start_with(site, &["deploy", PROJECT, env, "--local", "--module", module], &[])
}

/// `canyon` in the folder of the test, with these variables besides its own.
pub(crate) fn start_with(site: &Site, arguments: &[&str], variables: &[(&str, &str)]) -> Running {
    let child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .args(programs::of_a_user())
        .arg("--")
        .args(programs::WITH_A_DESCRIPTOR)
        .arg(programs::built().join("canyon"))
        .args(arguments)
        .current_dir(site.server.path("."))
        .env_clear()
        .env("HOME", site.server.path("."))
        .env("PATH", programs::search_path(None))
        .env("USER", "Jane.Doe")
        .env("CANYON_API_URL", site.server.url())
        .env("CANYON_ORG", site.server.org())
        .env("CANYON_TOKEN", site.server.token())
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    Running::new(child, jobs_of_cli(site))
}

pub(crate) async fn end(mut here: Running) -> (Option<i32>, String) {
    let (status, mut said) = (here.ended(LIMIT).await, String::new());
    here.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    here.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (status.code(), said)
}

pub(crate) async fn until_noted(site: &Site, name: &str) -> String {
    let deadline = Instant::now() + LIMIT;
    loop {
        match fs::read_to_string(site.server.path(name)) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => assert!(Instant::now() < deadline, "`{name}` is not noted\n{}", site.server.log()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Canyon has forgotten the agent that the command line was, and no folder and no process of any job is left here.
pub(crate) async fn nothing_is_left(site: &Site) {
    let agents = site.client.list(&["agents"], &[]).await.unwrap();
    let own: Vec<_> =
        agents.iter().filter(|agent| agent["id"].as_str().unwrap().starts_with("cli-")).collect();
    assert!(own.is_empty(), "{own:?}");
    let jobs = jobs_of_cli(site);
    let folders: Vec<_> = fs::read_dir(&jobs).into_iter().flatten().collect();
    assert!(folders.is_empty(), "{folders:?}");
    // A process that was killed a moment ago may still be ending.
    let deadline = Instant::now() + LIMIT;
    loop {
        let working = processes::working_in(&jobs);
        if working.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{working:?} are left");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_runs_here_instead_of_with_its_runners_agents_or_with_canyon_itself() {
    let by_agent = json!({ "type": "local", "agents": { "ids": ["east-1"] } });
    for site in [far(by_agent).await, Site::new().await] {
        let text = noting(&site, "where", "0");
        let (code, said) = end(start(&site, ENV, &module(&site, "module", &text))).await;
        assert_eq!(code, Some(0), "{said}\n{}", site.server.log());
        assert!(said.contains("on this machine") && said.contains("done = yes"), "{said}");
        let place = until_noted(&site, "where").await;
        assert!(place.contains("/canyon/deployments/cli-janedoe-"), "{place}");
        assert_eq!(site.state(ENV).await, ["terraform_data.quick", "terraform_data.slow"]);
        nothing_is_left(&site).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_for_containers_run_here_too_with_the_variables_of_their_containers() {
    let storage = Storage::s3().await;
    let configuration =
        json!({ "type": "docker-agent", "job": { "environment": storage.variables } });
    let site = keeping(Server::start().await, configuration, storage.definition.clone()).await;
    let (code, said) = end(start(&site, ENV, &module(&site, "module", THIRTY))).await;
    assert_eq!(code, Some(0), "{said}\n{}", site.server.log());
    assert!(said.contains("30 added"), "{said}");
    nothing_is_left(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_the_command_line_nor_an_agent_takes_the_work_of_the_other() {
    let site = far(json!({ "type": "local", "agents": { "ids": ["east-1"] } })).await;
    site.environment("other").await;
    let _agent = other_agent(&site);
    adopt(&site, "east-1").await;
    let (mine, theirs) = (noting(&site, "mine", "8"), noting(&site, "theirs", "0"));
    let here = start(&site, ENV, &module(&site, "module", &mine));
    let place = until_noted(&site, "mine").await;
    assert!(place.contains("/canyon/deployments/cli-"), "{place}");
    // The command line does not take this job, neither while it is busy nor after.
    let ended = site.run(&request("other", Some(inline(theirs)))).await;
    assert_succeeded(&ended);
    let place = until_noted(&site, "theirs").await;
    assert!(place.contains("/agent/jobs/"), "{place}");
    let (code, said) = end(here).await;
    assert_eq!(code, Some(0), "{said}");
    nothing_is_left(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_cancels_the_run_which_saves_its_state() {
    let site = far(json!({ "type": "local", "agents": { "ids": ["east-1"] } })).await;
    let text = noting(&site, "where", "300");
    let here = start(&site, ENV, &module(&site, "module", &text));
    until_noted(&site, "where").await;
    processes::signal(here.child.id().cast_signed(), Signal::INT);
    let (code, said) = end(here).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("cancelling") && said.contains("was cancelled"), "{said}");
    assert!(site.state(ENV).await.contains(&"terraform_data.quick".to_owned()));
    nothing_is_left(&site).await;
    // No process holds the state's lock.
    let (code, said) = end(start(&site, ENV, &module(&site, "thirty", THIRTY))).await;
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cannot_run_here_is_refused_before_anything_is_written() {
    let site = Site::new().await;
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/e2e/gke-runner-config.yaml");
    site.server.canyon(&["create", "runner", "gke", &format!("--set-yaml=@{config}")]).done();
    site.make(&["env-types"], &json!({ "id": "cloud" })).await;
    site.make(&["runner-rules"], &json!({ "runner_id": "gke", "env_type_id": "cloud" })).await;
    let body = json!({ "id": "gke", "env_type_id": "cloud" });
    site.make(&["projects", PROJECT, "envs"], &body).await;
    let token = site.make(&["tokens"], &json!({ "role": "deployer" })).await;
    let before = site.client.list(&["audit-records"], &[]).await.unwrap();
    let module = module(&site, "module", THIRTY);
    let path = programs::search_path(None).into_string().unwrap();
    let alone = tempfile::tempdir().unwrap();
    let canyon = alone.path().join("canyon");
    fs::copy(programs::built().join("canyon"), &canyon).unwrap();

    let deploy = |env: &str, variables: &[(&str, &str)]| {
        let arguments = ["deploy", PROJECT, env, "--local", "--module", &module];
        site.server.canyon_with(&arguments, "", variables)
    };
    let of_kind = deploy("gke", &[("PATH", &path)]);
    assert_eq!(of_kind.code, 2, "{of_kind:?}");
    assert!(of_kind.stderr.contains("`kubernetes-gke`"), "{}", of_kind.stderr);
    let deployer = token["secret"].as_str().unwrap();
    let not_admin = deploy(ENV, &[("PATH", &path), ("CANYON_TOKEN", deployer)]);
    assert_eq!(not_admin.code, 8, "{not_admin:?}");
    assert!(not_admin.stderr.contains("needs the role `admin`"), "{}", not_admin.stderr);
    let without_tofu = deploy(ENV, &[("PATH", "/nonexistent")]);
    assert_eq!(without_tofu.code, 2, "{without_tofu:?}");
    assert!(without_tofu.stderr.contains("install OpenTofu"), "{}", without_tofu.stderr);
    let without_runner = Command::new(canyon)
        .args(["deploy", PROJECT, ENV, "--local", "--module", &module])
        .current_dir(site.server.path("."))
        .env_clear()
        .env("HOME", site.server.path("."))
        .env("PATH", &path)
        .env("CANYON_API_URL", site.server.url())
        .env("CANYON_ORG", site.server.org())
        .env("CANYON_TOKEN", site.server.token())
        .output()
        .unwrap();
    assert_eq!(without_runner.status.code(), Some(2));
    let said = String::from_utf8(without_runner.stderr).unwrap();
    assert!(said.contains("there is no `canyon-runner` in the folder"), "{said}");

    let after = site.client.list(&["audit-records"], &[]).await.unwrap();
    assert_eq!(before, after);
    assert_eq!(site.client.list(&["agents"], &[]).await.unwrap(), Vec::<Value>::new());
    assert_eq!(site.client.list(&["deployments"], &[]).await.unwrap(), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_waits_for_an_agent_that_never_connected_is_informed_once() {
    let site = far(json!({ "type": "local", "agents": { "ids": ["east-1"] } })).await;
    let module = module(&site, "module", THIRTY);
    let said = site.server.canyon(&["deploy", PROJECT, ENV, "--module", &module, "--timeout", "9"]);
    assert_eq!(said.code, 6, "{said:?}");
    assert_eq!(said.stderr.matches("deploy --local").count(), 1, "{}", said.stderr);
}

/// The program `canyon-agent`, for the runner `far`.
pub(crate) fn other_agent(site: &Site) -> Running {
    let log = fs::File::create(site.server.path("agent.log")).unwrap();
    let child = Command::new("setpriv")
        .args(["--pdeathsig", "KILL", "--"])
        .arg(programs::built().join("canyon-agent"))
        .env_clear()
        .env("PATH", programs::search_path(None))
        .env("CANYON_API_URL", site.server.url())
        .env("CANYON_RUNNER_PATH", format!("{}/far", site.server.org()))
        .env("CANYON_AGENT_NAME", "east-1")
        .env("CANYON_AGENT_STATE_DIR", site.server.path("agent"))
        .env("CANYON_JOB_DISPATCHER_TYPE", "local")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    Running::new(child, site.server.path("agent"))
}

/// Adopts the agent as soon as it registers, and waits until it works.
pub(crate) async fn adopt(site: &Site, name: &str) {
    let deadline = Instant::now() + LIMIT;
    loop {
        match site.client.agent(name).await {
            Ok(agent) if agent.availability == "idle" => return,
            Ok(agent) if agent.session.is_none() => {
                site.client.adopt_agent(name).await.unwrap();
            }
            _ => assert!(Instant::now() < deadline, "`{name}` does not come"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_organization_that_adopts_no_agents_is_named_with_the_setting_that_allows_it() {
    let site = far(json!({ "type": "local", "agents": { "ids": ["elsewhere"] } })).await;
    let set = |word: &str| {
        let setting = format!("--set=agent_requests={word}");
        site.server.canyon(&["update", "organization", &setting]).done();
    };
    set("refused");
    let shown = site.server.canyon(&["get", "organization"]);
    assert!(shown.done().contains("agent_requests  refused"), "{shown:?}");
    let module = module(&site, "module", THIRTY);
    let path = programs::search_path(None).into_string().unwrap();
    let arguments = ["deploy", PROJECT, ENV, "--local", "--module", &module];
    let refused = site.server.canyon_with(&arguments, "", &[("PATH", &path)]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.stderr.contains("--set=agent_requests=allowed"), "{}", refused.stderr);
    assert_eq!(site.client.list(&["deployments"], &[]).await.unwrap(), Vec::<Value>::new());
    set("allowed");
    site.server.canyon_with(&arguments, "", &[("PATH", &path)]).done();
    nothing_is_left(&site).await;
}
