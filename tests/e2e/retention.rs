//! `canyon local` removes what is old, and keeps what an environment needs: deployments of 40 days ago, and a kill in the
//! middle of their removal.

use crate::harness::deployments::{assert_succeeded, destruction, request};
use crate::harness::module::inline;
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_api::deployment::{Deployment, DeploymentCreateBody, DeploymentQuery, RequestedMode};
use canyon_api::page::PageQuery;
use canyon_domain::job::Module;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::time::sleep;
use uuid::Uuid;

const LIMIT: Duration = Duration::from_mins(2);
const DAY: i64 = 24 * 60 * 60;
/// Longer than a launcher leaves the work to another one.
const LEASE: i64 = 6 * 60;
/// Deployments of the environment before the last success.
const OLD: usize = 8;

/// The wall clock of the server.
struct ServerClock {
    folder: TempDir,
}

impl ServerClock {
    /// Compiles the library that moves it.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // The server may run as another user.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let clock = Self { folder };
        let offset = format!("-DOFFSET_FILE=\"{}\"", clock.path("offset").display());
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/retention/earlier.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", &offset, "-o"])
            .args([clock.path("earlier.so"), source])
            .status();
        assert!(compiled.unwrap().success());
        clock
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// From the server's next start on, its clock has the system's time and this.
    fn set(&self, seconds: i64) {
        fs::write(self.path("offset"), seconds.to_string()).unwrap();
    }

    /// The setting of a server that uses it.
    fn setting(&self) -> (&'static str, String) {
        ("LD_PRELOAD", self.path("earlier.so").display().to_string())
    }
}

async fn listed(site: &Site) -> Vec<Uuid> {
    let query = DeploymentQuery::default();
    let page = PageQuery { per_page: Some(100), ..PageQuery::default() };
    let found = site.client.deployments(&query, &page).await.unwrap();
    found.items.into_iter().map(|deployment| deployment.id).collect()
}

/// The deployments that have objects.
fn stored(site: &Site) -> BTreeSet<Uuid> {
    let mut found = BTreeSet::new();
    for org in fs::read_dir(site.server.data().join("blobs")).unwrap() {
        let deployments = org.unwrap().path().join("deployments");
        let names = fs::read_dir(deployments).into_iter().flatten();
        found.extend(
            names.map(|one| one.unwrap().file_name().to_str().unwrap().parse::<Uuid>().unwrap()),
        );
    }
    found
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so().await {
        assert!(Instant::now() < deadline, "not in time: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// A module that has the same resource in each version, and prints another output.
fn module(version: usize) -> Module {
    inline(format!(
        "resource \"terraform_data\" \"one\" {{}}\noutput \"version\" {{ value = {version} }}\n"
    ))
}

fn ids(of: &[Deployment]) -> BTreeSet<Uuid> {
    of.iter().map(|deployment| deployment.id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_old_goes_although_the_server_is_killed_and_the_last_success_can_be_repeated() {
    let clock = ServerClock::new();
    clock.set(-40 * DAY);
    let server = Server::start_with_settings(vec![clock.setting()]).await;
    let mut site = Site::on(server, &json!({})).await;
    let mut old = Vec::new();
    for version in 0..OLD {
        old.push(site.deploy(module(version)).await);
    }
    let last = site.deploy(module(OLD)).await;
    let failed =
        site.run(&request(ENV, Some(inline("output \"no\" { value = nothing.at.all }")))).await;
    assert_eq!(failed.status, "failed");
    site.server.stop();
    clock.set(0);
    site.server.restart().await;

    // The estimate, before anything is set.
    let usage = site.server.canyon(&["usage", "--deployments-days", "30", "-o", "json"]);
    let usage: Value = serde_json::from_str(usage.done()).unwrap();
    assert_eq!(usage["deployments"]["count"], OLD + 2, "{usage}");
    // The last success, and the run that reported the state last.
    assert_eq!(usage["deployments"]["removable"], OLD, "{usage}");
    let refused = site.server.canyon(&["set", "retention", "--deployments-days", "30"]);
    assert_eq!(refused.code, 2, "without a terminal it needs --yes: {refused:?}");
    assert_eq!(listed(&site).await.len(), OLD + 2);

    // Logs alone.
    site.server.canyon(&["set", "retention", "--logs-days", "10", "--yes"]).done();
    let (first, newest) = (old[0].id.to_string(), last.id.to_string());
    until("the log of the first one is removed", async || {
        site.server.canyon(&["logs", &first]).code != 0
    })
    .await;
    let said = site.server.canyon(&["logs", &first]);
    assert!(
        said.stderr.contains("was removed") && said.stderr.contains("retention of 10 days"),
        "{said:?}"
    );
    assert!(site.server.canyon(&["logs", &newest]).done().contains("version"));
    site.server.canyon(&["outputs", &first]).done();

    // Whole deployments, with a kill as soon as the first is gone.
    let before = listed(&site).await.len();
    site.server
        .canyon(&["set", "retention", "--deployments-days", "30", "--logs-days", "10", "--yes"])
        .done();
    until("a removal", async || stored(&site).len() < before).await;
    site.server.kill();
    clock.set(LEASE);
    site.server.restart().await;
    until("the removal of the others", async || listed(&site).await == [failed.id, last.id]).await;
    assert_eq!(
        stored(&site),
        BTreeSet::from([failed.id, last.id]),
        "nothing is left of {:?}",
        ids(&old)
    );
    let gone = site.server.canyon(&["get", "deployment", &first]);
    assert_ne!(gone.code, 0, "{gone:?}");
    assert!(site.server.canyon(&["logs", &newest]).done().contains("version"));
    let records = site.server.canyon(&["list", "audit", "--action", "retention"]);
    assert!(records.done().contains("retention.set"), "{records:?}");

    // The environment goes on.
    let rollback = request(ENV, None);
    let mode = RequestedMode::Rollback;
    let rollback_to_deployment_id = Some(last.id);
    let again = DeploymentCreateBody { mode, rollback_to_deployment_id, ..rollback };
    assert_succeeded(&site.run(&again).await);
    let shown = site.client.get(&["projects", PROJECT, "envs", ENV]).await.unwrap();
    assert_eq!(shown["deployments"]["last_success"]["mode"], "rollback", "{shown}");
    assert_succeeded(&site.run(&destruction(ENV)).await);
}
