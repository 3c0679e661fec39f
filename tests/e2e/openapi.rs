//! The API behaves as its OpenAPI document says: schemathesis sends requests that the document
//! allows, and many that it does not, and checks every answer.

use crate::harness::deployments::request;
use crate::harness::module::{THIRTY, inline};
use crate::harness::programs;
use crate::harness::site::{ENV, PROJECT, RUNNER, Site};
use std::process::Command;

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_as_the_openapi_document_says() {
    let site = Site::new().await;
    let ended = site.run(&request(ENV, Some(inline(THIRTY)))).await;
    let id = ended.id.to_string();
    // Without these parameters nearly every request would name another organization and get 404.
    // Half of the paths get existing names; the others keep drawn ones.
    let config = format!(
        r#"
[parameters]
"path.orgId" = "{org}"

[[operations]]
include-path-regex = "/projects/"
parameters = {{ "path.projectId" = "{PROJECT}", "path.envId" = "{ENV}" }}

[[operations]]
include-path-regex = "/deployments/"
parameters = {{ "path.deploymentId" = "{id}" }}

[[operations]]
include-path-regex = "/runners/"
parameters = {{ "path.runnerId" = "{RUNNER}" }}

# It takes nothing but the bytes of an archive, which the tool cannot make; `sources.rs` tests it.
[[operations]]
include-name = "PUT /orgs/{{orgId}}/archives/{{digest}}"
enabled = false
"#,
        org = site.server.org()
    );
    let path = site.server.path("schemathesis.toml");
    std::fs::write(&path, config).unwrap();
    let output = Command::new(programs::given("CANYON_TEST_SCHEMATHESIS"))
        .arg("--config-file")
        .arg(&path)
        .args(["run", &format!("{}/openapi.json", site.server.url())])
        .args(["--header", &format!("Authorization: Bearer {}", site.server.token())])
        // An OpenAPI document cannot say what else makes a request valid: that the named thing
        // exists, that a page token came from this list, that two fields belong together. Such
        // requests get a 400.
        .args(["--exclude-checks", "positive_data_acceptance"])
        .args(["--checks", "all", "--max-examples", "15", "--seed", "1"])
        .args(["--generation-database", "none", "--no-color"])
        .current_dir(site.server.path("."))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).replace(site.server.token(), "[token]");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}\n{}", site.server.log());
}
