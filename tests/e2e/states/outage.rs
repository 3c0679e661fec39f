//! A storage that is unavailable at the end of an apply.

use super::storage::Storage;
use super::{COUNT, kill_job, manual_tofu, site, until_begun};
use crate::harness::deployments::{assert_succeeded, counts, failure, request};
use crate::harness::ledger;
use crate::harness::module;
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_api::deployment::{DeploymentCreateBody, RequestedMode};
use canyon_domain::failure::FailureClass;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The connection to a storage, which can be cut.
struct StorageLink(watch::Sender<bool>);

impl StorageLink {
    /// Starts a proxy in front of the storage.
    async fn to(storage: &mut Storage) -> Self {
        let url = storage.variables.get_mut("AWS_ENDPOINT_URL_S3").unwrap();
        let address = url.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        *url = format!("http://{}", listener.local_addr().unwrap());
        let (open, is_open) = watch::channel(true);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, address.clone(), is_open.clone()));
            }
        });
        Self(open)
    }

    fn cut(&self) {
        self.0.send_replace(false);
    }

    fn restore(&self) {
        self.0.send_replace(true);
    }
}

async fn pass(mut client: TcpStream, address: String, mut is_open: watch::Receiver<bool>) {
    if !*is_open.borrow() {
        return;
    }
    let Ok(mut server) = TcpStream::connect(address).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = is_open.wait_for(|open| !*open) => {}
    }
}

/// Deploys, cuts the connection during the apply, and waits until the runner cannot push the state.
async fn deploy_and_cut(site: &Site, link: &StorageLink, path: &std::path::Path) -> String {
    let id = site.accept(&request(ENV, Some(module::ledger(path, COUNT, "4", 1)))).await;
    until_begun(path, 1).await;
    link.cut();
    let deadline = Instant::now() + Duration::from_mins(5);
    while !site.log(&id).await.contains("does not take the state yet") {
        assert!(Instant::now() < deadline, "{}", site.log(&id).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_is_written_once_its_storage_is_back_and_nothing_is_created_twice() {
    let mut storage = Storage::s3().await;
    let link = StorageLink::to(&mut storage).await;
    let site = site(&storage).await;
    let path = site.server.path("ledger");
    let id = deploy_and_cut(&site, &link, &path).await;
    link.restore();
    let ended = site.end(&id).await;
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::Unreachable, "{message}");
    for part in ["the state storage does not answer", "it was pushed afterwards"] {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
    let manual = manual_tofu(&site, &storage, ENV).await;
    assert_eq!((manual.state().instances, manual.lock()), (COUNT as usize, None));
    let next = site.deploy(module::ledger(&path, COUNT, "4", 1)).await;
    assert_eq!(counts(&next), (0, 0, 0));
    ledger::assert_once(&path, 1, COUNT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_killed_while_it_pushes_names_its_orphans_and_fences_its_environment() {
    let mut storage = Storage::s3().await;
    let link = StorageLink::to(&mut storage).await;
    let site = site(&storage).await;
    let path = site.server.path("ledger");
    let id = deploy_and_cut(&site, &link, &path).await;
    kill_job(&site, &id);
    let (class, message) = failure(&site.end(&id).await);
    assert_eq!(class, FailureClass::Lost, "{message}");
    let orphans = site.client.orphans(&id).await.unwrap();
    assert_eq!(orphans.len(), COUNT as usize, "{orphans:?}");
    link.restore();
    let again = request(ENV, Some(module::ledger(&path, COUNT, "0", 1)));
    let (class, message) = failure(&site.run(&again).await);
    assert_eq!(class, FailureClass::Config, "{message}");
    for part in [id.as_str(), "--accept-state", "could not write the state"] {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
    // A person imports an orphan. That no other is left, only an administrator can say.
    let import = json!({ "command": "import", "address": "terraform_data.step[0]", "id": "it" });
    let importing = DeploymentCreateBody {
        mode: RequestedMode::State,
        state_command: Some(serde_json::from_value(import).unwrap()),
        ..request(ENV, None)
    };
    assert_succeeded(&site.run(&importing).await);
    let (_, message) = failure(&site.run(&again).await);
    assert!(message.contains("--accept-state"), "{message}");
    ledger::assert_once(&path, 1, COUNT);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_state_that_was_never_written_nothing_is_created_until_an_administrator_accepts() {
    let mut storage = Storage::s3().await;
    let link = StorageLink::to(&mut storage).await;
    let site = site(&storage).await;
    let path = site.server.path("ledger");
    let id = deploy_and_cut(&site, &link, &path).await;
    // The run must end while the storage is unavailable, as at its deadline.
    site.client.cancel(&id).await.unwrap();
    let ended = site.end(&id).await;
    let (_, message) = failure(&ended);
    assert!(message.contains("nor pushed afterwards"), "{message}");
    link.restore();
    for plan_only in [None, Some(true)] {
        let module = module::ledger(&path, COUNT, "0", 1);
        let mut again = request(ENV, Some(module));
        again.plan_only = plan_only;
        let (class, message) = failure(&site.run(&again).await);
        assert_eq!(class, FailureClass::Config, "{message}");
        for part in [id.as_str(), "--accept-state", "there is no state"] {
            assert!(message.contains(part), "no `{part}` in: {message}");
        }
    }
    ledger::assert_once(&path, 1, COUNT);
    let mut accepting = request(ENV, Some(module::ledger(&path, COUNT, "0", 2)));
    accepting.accept_state = true;
    assert_succeeded(&site.run(&accepting).await);
    ledger::assert_once(&path, 2, COUNT);
    let environment = site.client.get(&["projects", PROJECT, "envs", ENV]).await.unwrap();
    assert!(!environment["state"]["uncertain"].as_bool().unwrap_or_default(), "{environment}");
    assert_eq!(counts(&site.deploy(module::ledger(&path, COUNT, "0", 2)).await), (0, 0, 0));
}
