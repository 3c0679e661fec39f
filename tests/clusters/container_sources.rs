//! The source and the secrets of container jobs: the image has neither git nor a C library.

use crate::container_jobs::{container, destruction, pushed_image, pushed_image_with};
use crate::git_host::GitHost;
use crate::harness::bed::bed;
use crate::harness::deployments::{assert_succeeded, failure};
use crate::harness::kinds::Kind;
use crate::harness::site::{PROJECT, Site};
use canyon_domain::failure::FailureClass;
use serde_json::{Value, json};

const TOKEN: &str = "t0ken-of-the-repository";
const SECRET: &str = "s3cret-of-the-program";
const SHARED: &str = "a line of the submodule\n";
const CODE: &str = "a line of the repository\n";

fn host() -> GitHost {
    let host = GitHost::start_at(bed().get("NODE_ADDRESS"));
    host.accept_tokens(&[("/", &format!("robot:{TOKEN}"))]);
    host.add("bucket.git", CODE);
    host.add("with-submodule.git", CODE);
    host.add("shared.git", SHARED);
    host.add_submodule("with-submodule.git", "shared", "../shared.git");
    host
}

fn source(host: &GitHost, password: &str) -> Value {
    json!({
        "url": host.https("bucket.git"), "ref": "main", "path": "code", "username": "robot",
        "password": {"value": password},
    })
}

/// A scratch image gets a private repository, a secret variable and a secret file; nothing shows the secrets.
async fn has_source_and_secrets(kind: Kind) {
    let host = host();
    let image = pushed_image_with(Some(&host.path("ca.pem")));
    let site = Site::new(kind).await;
    let command = ["/job", "shows", "code/main.tf", "keys/id"];
    let more = json!({
        "source": source(&host, TOKEN),
        "secret_variables": {"TOKEN": {"value": SECRET}},
        "secret_files": {"keys/id": {"value": SECRET}},
    });
    let body = container(&image, &command, &more);
    let created = site.run(&body).await;
    let id = created.id.to_string();
    let log = site.log(&id).await;
    assert!(created.status == "succeeded", "{created:#?}\n{log}");
    for part in [CODE, "the token is ***", "is at commit "] {
        assert!(log.contains(part), "no `{part}` in: {log}");
    }
    let shown = site.client.get(&["deployments", &id]).await.unwrap();
    assert_eq!(shown["container"]["source"]["url"], host.https("bucket.git"));
    assert_eq!(shown["container"]["secret_variables"], json!(["TOKEN"]));
    // A destroy repeats the job with its secrets.
    let destroyed = site.run(&destruction()).await;
    let of_destroy = site.log(&destroyed.id.to_string()).await;
    assert_succeeded(&destroyed);
    assert!(of_destroy.contains("the token is ***"), "{of_destroy}");
    for text in [log, of_destroy, shown.to_string(), site.server.log()] {
        assert!(!text.contains(TOKEN) && !text.contains(SECRET), "{text}");
    }
}

/// The git credentials that the organization keeps are for submodules too.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_and_its_submodules_are_fetched_with_the_credentials_that_are_kept() {
    let host = host();
    let image = pushed_image_with(Some(&host.path("ca.pem")));
    let site = Site::new(Kind::Docker).await;
    let kept =
        json!({ "credentials": { host.https(""): { "token": TOKEN, "username": "robot" } } });
    site.client.update(&["projects", PROJECT, "git-credentials"], &kept).await.unwrap();
    let more = json!({ "source": { "url": host.https("with-submodule.git") } });
    let ended =
        site.run(&container(&image, &["/job", "shows", "main.tf", "shared/main.tf"], &more)).await;
    let log = site.log(&ended.id.to_string()).await;
    assert!(ended.status == "succeeded", "{ended:#?}\n{log}");
    assert!(log.contains(CODE) && log.contains(SHARED) && !log.contains(TOKEN), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scratch_image_has_a_private_source_and_secrets_in_a_cluster() {
    has_source_and_secrets(Kind::Oidc).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scratch_image_has_a_private_source_and_secrets_on_the_machines_own_engine() {
    has_source_and_secrets(Kind::Docker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scratch_image_has_a_private_source_and_secrets_on_fargate() {
    has_source_and_secrets(Kind::Ecs).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_cannot_be_fetched_is_told_in_the_words_of_git() {
    let host = host();
    let image = pushed_image_with(Some(&host.path("ca.pem")));
    let site = Site::new(Kind::Docker).await;
    for (source, words) in [
        (source(&host, "not-the-token"), "check that it is valid"),
        (
            json!({"url": host.https("none.git"), "username": "robot", "password": {"value": TOKEN}}),
            "not found",
        ),
        (json!({"url": host.https("bucket.git")}), "canyon set git-credential"),
    ] {
        let more = json!({ "source": source });
        let ended = site.run(&container(&image, &["/job"], &more)).await;
        let (class, message) = failure(&ended);
        assert_eq!(class, FailureClass::User, "{message}");
        assert!(message.contains(words) && !message.contains(TOKEN), "{message}");
        let program_ran = site.log(&ended.id.to_string()).await.contains("the job of user");
        assert!(!program_ran, "{message}");
    }
    let unknown = pushed_image();
    let more = json!({ "source": source(&host, TOKEN) });
    let (_, message) = failure(&site.run(&container(&unknown, &["/job"], &more)).await);
    assert!(message.contains("certificate"), "{message}");
}
