//! The token that a module finds under the name of Canyon's host.

use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::module::inline;
use crate::harness::site::{ENV, Site};
use reqwest::Method;
use std::fs;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_mins(3);

/// Writes down the variables of OpenTofu's own process (a shell drops names with a colon), prints one of them,
/// and continues when the test creates a file.
fn noting(site: &Site) -> String {
    let (noted, go) = (site.server.path("noted"), site.server.path("go"));
    let (noted, go) = (noted.display(), go.display());
    format!(
        r#"
resource "terraform_data" "noting" {{
  provisioner "local-exec" {{
    command = "tr '\\0' '\\n' < /proc/$PPID/environ | grep ^TF_TOKEN_ > '{noted}.new'; cat '{noted}.new'; mv '{noted}.new' '{noted}'; while ! [ -e '{go}' ]; do sleep 0.05; done"
  }}
}}
"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_reads_canyon_by_its_hosts_token_which_dies_with_the_run_and_is_in_no_log() {
    let site = Site::new().await;
    let id = site.accept(&request(ENV, Some(inline(noting(&site))))).await;
    let deadline = Instant::now() + LIMIT;
    let noted = loop {
        match fs::read_to_string(site.server.path("noted")) {
            Ok(text) => break text,
            Err(_) => assert!(Instant::now() < deadline, "nothing is noted\n{}", site.server.log()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let host = site.server.url().replace("http://", "").replace('.', "_");
    let token = noted.trim().strip_prefix(&format!("TF_TOKEN_{host}=")).expect(&noted);
    let call = async |method: Method, path: &str| {
        let url = format!("{}/orgs/{}{path}", site.server.url(), site.server.org());
        let request = reqwest::Client::new().request(method, url).bearer_auth(token);
        request.json(&serde_json::json!({})).send().await.unwrap().status().as_u16()
    };
    let own = format!("/deployments/{id}");
    assert_eq!(call(Method::GET, &own).await, 200);
    assert_eq!(call(Method::GET, "/runners").await, 200);
    assert_eq!(
        call(Method::POST, &format!("{own}/actions/cancel")).await,
        403,
        "it changes nothing"
    );
    assert_eq!(call(Method::POST, "/deployments").await, 403);
    assert_eq!(call(Method::POST, "/tokens").await, 403, "it makes no tokens");
    assert_eq!(call(Method::GET, &format!("{own}/bundle")).await, 401, "it is not the runner's");
    let report = format!("{own}/attempts/1/report");
    assert_eq!(call(Method::POST, &report).await, 401, "it says nothing of the run");
    fs::write(site.server.path("go"), "").unwrap();
    let ended = site.end(&id).await;
    assert_succeeded(&ended);
    assert_eq!(call(Method::GET, &own).await, 401, "its run is over");
    let log = site.log(&id).await;
    let events: String = site.events(&id).await.iter().map(ToString::to_string).collect();
    assert!(log.contains(&format!("TF_TOKEN_{host}=****")), "{log}");
    assert!(!log.contains(token) && !events.contains(token));
}
