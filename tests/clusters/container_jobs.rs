//! Container jobs in a cluster: the program is in an image that has nothing else, the runner comes beside it.

use crate::harness::bed::{Bed, bed};
use crate::harness::deployments::{assert_succeeded, failure, request};
use crate::harness::kinds::Kind;
use crate::harness::site::{ENV, Site};
use canyon_api::deployment::{DeploymentCreateBody, RequestedMode};
use canyon_domain::failure::FailureClass;
use serde_json::json;
use std::process::Command;

const RESOURCE: &str = "container.default#main";

/// The image of `job.c` in the cluster's registry, for the user 10001.
fn pushed_image() -> String {
    const SCRIPT: &str = r#"
        set -eu
        cc -O1 -static -o "$1/job" "$2"
        tar -C "$1" -c job | docker import --change 'USER 10001:10001' - "$3" >/dev/null
        docker push --quiet "$3" >/dev/null
        docker rmi "$3" >/dev/null
    "#;
    let folder = tempfile::tempdir().unwrap();
    let image = format!("{}/{}:1", bed().get("REGISTRY"), Bed::unique("job"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/clusters/bed/job.c");
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "sh"]).arg(folder.path()).args([source, &image]);
    let made = command.env("DOCKER_HOST", bed().get("DOCKER_HOST")).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    image
}

fn container(image: &str, command: &str) -> DeploymentCreateBody {
    let job = json!({ "image": image, "command": [command] });
    DeploymentCreateBody { container: Some(job), ..request(ENV, None) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_job_creates_and_destroys_its_resource_in_its_own_image() {
    let image = pushed_image();
    let site = Site::new(Kind::Oidc).await;
    let id = site.accept(&container(&image, "/job")).await;
    let pod = site.pod(&id, "at all", |_| true).await;
    assert_eq!(pod["spec"]["containers"][0]["image"], image);
    assert_eq!(pod["spec"]["initContainers"][0]["image"], bed().get("RUNNER_IMAGE"));
    let created = site.end(&id).await;
    assert_succeeded(&created);
    assert_eq!(created.attempts.len(), 1, "{created:#?}");
    let outputs = site.client.outputs(&id).await.unwrap();
    assert_eq!(outputs["user"].value, Some(json!(10_001).into()));
    assert_eq!(outputs["folder"].value, Some(json!("/canyon/work").into()));
    let log = site.log(&id).await;
    assert!(log.contains("the job of user 10001 does: create"), "{log}");
    site.is_cleared(&id).await;

    let destruction = DeploymentCreateBody {
        mode: RequestedMode::Destroy,
        resource: Some(RESOURCE.to_owned()),
        ..request(ENV, None)
    };
    let id = site.accept(&destruction).await;
    assert_succeeded(&site.end(&id).await);
    let log = site.log(&id).await;
    assert!(log.contains("the job of user 10001 does: destroy"), "{log}");

    let missing = site.run(&container(&image, "/none")).await;
    let failed = failure(&missing);
    assert_eq!(failed.0, FailureClass::Config, "{failed:?}");
    assert!(failed.1.contains("/none"), "{failed:?}");
}
