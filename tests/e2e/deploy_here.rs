//! `canyon deploy` without a flag: it runs the job itself only if no agent could ever take it, and says so.

use crate::deploy_local::{
    adopt, end, far, keeping, module, nothing_is_left, other_agent, start_with,
};
use crate::harness::deployments::request;
use crate::harness::module::{THIRTY, inline};
use crate::harness::running::Running;
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use crate::states::storage::Storage;
use canyon_api::deployment::DeploymentCreateBody;
use serde_json::{Value, json};
use std::fs;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_mins(2);
const RUNS_HERE: &str = "so it runs on this machine, with your cloud credentials and kubeconfig";

fn local(agent: &str) -> Value {
    json!({ "type": "local", "agents": { "ids": [agent] } })
}

/// A site whose runner `far` keeps states in a bucket, which is the same for each machine. Nothing has run there.
async fn with_bucket() -> Site {
    let bucket = json!({ "type": "s3", "bucket": "states" });
    keeping(Server::start().await, local("east-1"), bucket).await
}

/// A module that writes down its variables.
fn noting_variables(site: &Site) -> String {
    let path = site.server.path("variables");
    let text = format!(
        r#"
resource "terraform_data" "note" {{
  provisioner "local-exec" {{
    command = "env > '{}'"
  }}
}}
"#,
        path.display()
    );
    module(site, "noting", &text)
}

/// Waits until the only deployment that has not ended waits for this, cancels it, and returns what the command printed.
async fn cancelled_while_it_waits(site: &Site, command: Running, code: &str) -> String {
    cancelled_after(site, command, code, Duration::ZERO).await
}

/// The same, when it has waited for so long.
async fn cancelled_after(site: &Site, command: Running, code: &str, wait: Duration) -> String {
    let deadline = Instant::now() + LIMIT;
    let mut since = None;
    loop {
        let unended = [("ended", "false".to_owned())];
        let found = site.client.list(&["deployments"], &unended).await.unwrap();
        if let [one] = &*found {
            let id = one["id"].as_str().unwrap();
            let read = site.client.get(&["deployments", id]).await.unwrap();
            if read["waiting"]["code"] == code
                && since.get_or_insert_with(Instant::now).elapsed() >= wait
            {
                site.client.cancel(id).await.unwrap();
                break;
            }
        }
        assert!(Instant::now() < deadline, "no deployment waits for the {code}: {found:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (code, said) = end(command).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("was cancelled"), "{said}");
    nothing_is_left(site).await;
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_agent_the_command_runs_the_job_after_saying_so_with_the_callers_credentials() {
    let storage = Storage::gcs().await;
    let mut runner = local("east-1");
    runner["job"] = json!({ "environment": storage.variables });
    let site = keeping(Server::start().await, runner, storage.definition.clone()).await;
    for file in [".aws/credentials", ".kube/config"] {
        let path = site.server.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let module = noting_variables(&site);
    let deploy = ["deploy", PROJECT, ENV, "--module", &module];
    let variables = [("AWS_PROFILE", "jane"), ("AWS_CONFIG_FILE", "aws.ini"), ("OTHER", "x")];
    let (code, said) = end(start_with(&site, &deploy, &variables)).await;
    assert_eq!(code, Some(0), "{said}\n{}", site.server.log());
    let sentence = "this deployment would be waiting for an agent of runner `far`: none has ever connected that is \
                    called `east-1`; so it runs on this machine, with your cloud credentials and kubeconfig \
                    (--local=false lets it wait for an agent)";
    assert_eq!(said.matches(sentence).count(), 1, "{said}");
    assert!(said.find(sentence) < said.find("deployment 0"), "it is said before: {said}");
    let given = fs::read_to_string(site.server.path("variables")).unwrap();
    let path = |file: &str| site.server.path(".").join(file).display().to_string();
    for (name, value) in [
        ("AWS_PROFILE", "jane".to_owned()),
        ("AWS_CONFIG_FILE", path("aws.ini")),
        ("AWS_SHARED_CREDENTIALS_FILE", path(".aws/credentials")),
        ("KUBECONFIG", path(".kube/config")),
        ("KUBE_CONFIG_PATH", path(".kube/config")),
    ] {
        let same = |line: &str| {
            let found = line.strip_prefix(&format!("{name}="));
            found.is_some_and(|found| found.replace("/./", "/") == value.replace("/./", "/"))
        };
        assert!(given.lines().any(same), "{name}={value}: {given}");
    }
    assert!(!given.contains("OTHER=") && !given.contains("CANYON_TOKEN="), "{given}");
    nothing_is_left(&site).await;

    // The same for the other commands that run a deployment.
    let plan = ["deploy", PROJECT, ENV, "--module", &module, "--plan-only"];
    let rollback = ["rollback", PROJECT, ENV];
    for command in [&plan[..], &deploy, &rollback, &["destroy", PROJECT, ENV, "--yes"]] {
        let (code, said) = end(start_with(&site, command, &[])).await;
        let found = (code, said.matches(RUNS_HERE).count());
        assert_eq!(found, (Some(0), 1), "{command:?}: {said}");
    }
    nothing_is_left(&site).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_waits_if_its_runner_keeps_states_on_the_machines_of_its_agents() {
    let site = far(local("east-1")).await;
    let module = module(&site, "module", THIRTY);
    let deploy = ["deploy", PROJECT, ENV, "--module", &module];
    let said = cancelled_while_it_waits(&site, start_with(&site, &deploy, &[]), "agent").await;
    assert!(!said.contains(RUNS_HERE), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_not_adopted_yet_or_away_keeps_its_runners_deployments() {
    let site = with_bucket().await;
    let module = module(&site, "module", THIRTY);
    let deploy = ["deploy", PROJECT, ENV, "--module", &module];
    let agent = other_agent(&site);
    let deadline = Instant::now() + LIMIT;
    while site.client.agent("east-1").await.is_err() {
        assert!(Instant::now() < deadline, "the agent does not register");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let said = cancelled_while_it_waits(&site, start_with(&site, &deploy, &[]), "agent").await;
    assert!(!said.contains(RUNS_HERE), "{said}");
    adopt(&site, "east-1").await;
    drop(agent);
    let said = cancelled_while_it_waits(&site, start_with(&site, &deploy, &[]), "agent").await;
    assert!(!said.contains(RUNS_HERE), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_waits_if_a_flag_says_so_or_this_machine_cannot_run_it() {
    let site = with_bucket().await;
    let module = module(&site, "module", THIRTY);
    let deploy = |flag: &'static str| ["deploy", PROJECT, ENV, "--module", &module, flag];
    let waits = start_with(&site, &deploy("--local=false"), &[]);
    let said = cancelled_while_it_waits(&site, waits, "agent").await;
    assert!(!said.contains(RUNS_HERE), "{said}");

    let (code, id) = end(start_with(&site, &deploy("--no-wait"), &[])).await;
    assert_eq!(code, Some(0), "{id}");
    let read = site.client.get(&["deployments", id.trim()]).await.unwrap();
    assert!(read["agent"].is_null() && read["completed_at"].is_null(), "{id}: {read}");
    site.client.cancel(id.trim()).await.unwrap();

    let token = site.make(&["tokens"], &json!({ "role": "deployer" })).await;
    let deployer = token["secret"].as_str().unwrap();
    for (variable, reason) in [
        (("CANYON_TOKEN", deployer), "your token needs the role `admin` for that"),
        (("PATH", "/usr/bin:/bin"), "(install OpenTofu 1.6 or newer)"),
    ] {
        let command = &deploy("--yes");
        let waits = start_with(&site, command, &[variable]);
        // Longer than the pause before the hint about `--local`, which would say the same again.
        let said = cancelled_after(&site, waits, "agent", Duration::from_secs(4)).await;
        let notice =
            "this deployment will be waiting for an agent of runner `far`: none has ever connected";
        assert_eq!(said.matches(notice).count(), 1, "{said}");
        assert!(said.contains(reason) && !said.contains("hint: start an agent"), "{said}");
    }
    let refuse = ["update", "organization", "--set=agent_requests=refused"];
    site.server.canyon(&refuse).done();
    let waits = start_with(&site, &deploy("--yes"), &[]);
    let said = cancelled_while_it_waits(&site, waits, "agent").await;
    assert!(said.contains("refuses agents that ask to be adopted"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_runner_stops_all_deployments_but_those_that_an_administrator_runs_here() {
    let site = far(local("east-1")).await;
    let _agent = other_agent(&site);
    adopt(&site, "east-1").await;
    site.server.canyon(&["disable", "runner", "far"]).done();
    let module = module(&site, "module", THIRTY);
    let deploy = ["deploy", PROJECT, ENV, "--module", &module];
    let said = cancelled_while_it_waits(&site, start_with(&site, &deploy, &[]), "runner").await;
    assert!(!said.contains(RUNS_HERE), "{said}");
    // A deployment that names an agent of the runner waits too.
    let named = DeploymentCreateBody {
        agent: Some("east-1".to_owned()),
        ..request(ENV, Some(inline(THIRTY)))
    };
    let id = site.accept(&named).await;
    let deadline = Instant::now() + LIMIT;
    loop {
        let read = site.client.get(&["deployments", &id]).await.unwrap();
        if read["waiting"]["code"] == "runner" {
            break;
        }
        assert!(Instant::now() < deadline, "it does not wait: {read}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    site.client.cancel(&id).await.unwrap();
    let here = ["deploy", PROJECT, ENV, "--module", &module, "--local"];
    let (code, said) = end(start_with(&site, &here, &[])).await;
    assert_eq!(code, Some(0), "{said}\n{}", site.server.log());
    assert!(said.contains("with --local, the deployment runs nevertheless"), "{said}");
    assert!(said.contains("30 added"), "{said}");
    nothing_is_left(&site).await;
}
