//! Sources of modules: an uploaded archive, a repository.

use crate::harness::deployments::{counts, failure, request};
use crate::harness::module::{THIRTY, from, with};
use crate::harness::site::{ENV, Site};
use canyon_api::archive::MAX_ARCHIVE_BYTES;
use canyon_api::deployment::RequestedMode;
use canyon_cloud::chance::Chance;
use canyon_domain::failure::FailureClass;
use flate2::{Compression, write::GzEncoder};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use std::path::Path;
use std::process::Command;

/// A gzipped tar with these files, and its digest.
pub(crate) fn archive(files: &[(&str, &str)]) -> (String, Vec<u8>) {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, text.as_bytes()).unwrap();
    }
    let bytes = tar.into_inner().unwrap().finish().unwrap();
    (hex::encode(Sha256::digest(&bytes)), bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uploaded_archive_deploys_from_one_of_its_folders() {
    let site = Site::new().await;
    let (digest, bytes) =
        archive(&[("net/main.tf", THIRTY), ("net/parts/x.tf", ""), ("README.md", "no module")]);
    let missing = site
        .client
        .create_deployment(&request(ENV, Some(from(&format!("sha256:{digest}//net")))), "early")
        .await
        .unwrap_err();
    assert!(missing.to_string().contains("archive"), "{missing}");

    assert!(!site.client.has_archive(&digest).await.unwrap());
    for _ in 0..2 {
        site.client.put_archive(&digest, bytes.clone().into()).await.unwrap();
    }
    assert!(site.client.has_archive(&digest).await.unwrap());
    let wrong = site.client.put_archive(&"0".repeat(64), bytes.into()).await.unwrap_err();
    assert_eq!(wrong.status(), Some(400));

    let module = with(from(&format!("sha256:{digest}//net")), "greeting", "ahoy");
    let ended = site.deploy(module).await;
    assert_eq!(counts(&ended), (30, 0, 0));
    let outputs = site.client.outputs(&ended.id.to_string()).await.unwrap();
    assert_eq!(outputs["first"].value, Some(json!("ahoy 0").into()));

    let ended = site.run(&request(ENV, Some(from(&format!("sha256:{digest}"))))).await;
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::User);
    assert!(message.contains("has no *.tf"), "{message}");
}

/// A module of the largest size that Canyon accepts: random bytes, which do not compress.
fn large(marker: &str) -> (String, Vec<u8>) {
    let mut noise = vec![0; MAX_ARCHIVE_BYTES - 64 * 1024];
    let chance = Chance::new(7);
    for bytes in noise.chunks_exact_mut(8) {
        bytes.copy_from_slice(&chance.next().to_le_bytes());
    }
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::none()));
    let code = format!("output \"is\" {{ value = \"{marker}\" }}\n");
    for (name, bytes) in [("main.tf", code.as_bytes()), ("noise.bin", &noise)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, bytes).unwrap();
    }
    let bytes = tar.into_inner().unwrap().finish().unwrap();
    assert!(
        bytes.len() <= MAX_ARCHIVE_BYTES && bytes.len() > MAX_ARCHIVE_BYTES - 64 * 1024,
        "{}",
        bytes.len()
    );
    (hex::encode(Sha256::digest(&bytes)), bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_of_64_mib_is_deployed() {
    let site = Site::new().await;
    let (digest, bytes) = large("large");
    site.client.put_archive(&digest, bytes.into()).await.unwrap();
    let ended = site.deploy(from(&format!("sha256:{digest}"))).await;
    let outputs = site.client.outputs(&ended.id.to_string()).await.unwrap();
    assert_eq!(outputs["is"].value, Some(json!("large").into()));
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git is installed");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_deploys_at_a_branch_a_tag_and_a_commit() {
    let site = Site::new().await;
    let (work, bare) = (site.server.path("work"), site.server.path("modules.git"));
    std::fs::create_dir_all(work.join("net")).unwrap();
    git(&work, &["init", "--quiet", "-b", "main"]);
    let commit = |text: &str| {
        std::fs::write(
            work.join("net/main.tf"),
            format!("output \"is\" {{ value = \"{text}\" }}\n"),
        )
        .unwrap();
        git(&work, &["add", "."]);
        git(&work, &["commit", "--quiet", "-m", text]);
        git(&work, &["rev-parse", "HEAD"])
    };
    let first = commit("first");
    git(&work, &["tag", "v1"]);
    commit("second");
    git(&work, &["branch", "stable"]);
    commit("third");
    git(&work, &["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);

    let source = |reference: &str| format!("git::file://{}//net{reference}", bare.display());
    for (reference, expected) in [
        (String::new(), "third"),
        ("?ref=stable".to_owned(), "second"),
        ("?ref=v1".to_owned(), "first"),
        (format!("?ref={first}"), "first"),
        (format!("?ref={}", &first[..8]), "first"),
    ] {
        let ended = site.deploy(from(&source(&reference))).await;
        let outputs = site.client.outputs(&ended.id.to_string()).await.unwrap();
        assert_eq!(outputs["is"].value, Some(json!(expected).into()), "{reference}");
    }
    let ended = site.run(&request(ENV, Some(from(&source("?ref=v9"))))).await;
    let (class, message) = failure(&ended);
    assert_eq!(class, FailureClass::User);
    assert!(message.contains("v9"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_and_a_destroy_run_the_commit_that_was_deployed_although_its_branch_moved() {
    let site = Site::new().await;
    let (work, bare) = (site.server.path("work"), site.server.path("modules.git"));
    std::fs::create_dir_all(&work).unwrap();
    git(&work, &["init", "--quiet", "-b", "main"]);
    let commit = |text: &str| {
        let code = format!(
            "variable \"open\" {{}}\nvariable \"closed\" {{ sensitive = true }}\noutput \"is\" {{ value = \"{text}\" }}\n"
        );
        std::fs::write(work.join("main.tf"), code).unwrap();
        git(&work, &["add", "."]);
        git(&work, &["commit", "--quiet", "-m", text]);
        git(&work, &["rev-parse", "HEAD"])
    };
    let first = commit("first");
    git(&work, &["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    let source = format!("git::file://{}?ref=main", bare.display());
    let module = with(with(from(&source), "open", "seen"), "closed", "hunter2");
    let deployed = site.deploy(module).await;
    let shown = site.client.deployment(&deployed.id.to_string()).await.unwrap().module.unwrap();
    assert_eq!((&shown.source, shown.commit.as_ref()), (&source, Some(&first)));
    assert_eq!(serde_json::to_value(&shown.inputs).unwrap(), json!({ "open": "seen" }));
    assert_eq!(shown.hidden_inputs, ["closed"]);

    let second = commit("second");
    git(&work, &["push", "--quiet", bare.to_str().unwrap(), "main"]);
    let mut rollback = request(ENV, None);
    rollback.mode = RequestedMode::Rollback;
    rollback.rollback_to_deployment_id = Some(deployed.id);
    let mut destroy = request(ENV, None);
    destroy.mode = RequestedMode::Destroy;
    for again in [rollback, destroy] {
        let ended = site.run(&again).await;
        assert_eq!(ended.status, "succeeded", "{}", ended.status_message);
        let module = site.client.deployment(&ended.id.to_string()).await.unwrap().module.unwrap();
        assert_eq!(module.commit.as_ref(), Some(&first), "not {second}");
    }
}
