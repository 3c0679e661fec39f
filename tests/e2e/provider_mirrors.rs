//! Providers of a mirror, and a cache of them.

use crate::harness::deployments::{failure, request};
use crate::harness::module::inline;
use crate::harness::server::Server;
use crate::harness::site::{ENV, Site};
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

const PLATFORM: &str = if cfg!(target_arch = "aarch64") { "linux_arm64" } else { "linux_amd64" };
const PROVIDER: &str = "registry.opentofu.org/acme/rack";
const MODULE: &str = r#"
terraform {
  required_providers {
    rack = { source = "acme/rack" }
  }
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_installs_a_provider_from_its_mirror_and_keeps_it_in_its_cache() {
    let server = Server::start().await;
    let version = server.path(&format!("mirror/{PROVIDER}/1.0.0/{PLATFORM}"));
    let (cache, ran) = (server.path("cache"), server.path("ran"));
    fs::create_dir_all(&version).unwrap();
    fs::create_dir(&cache).unwrap();
    // It is no provider, but it tells that OpenTofu has installed and started it.
    let program = version.join("terraform-provider-rack");
    fs::write(&program, format!("#!/bin/sh\n: > '{}'\n", ran.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mirror = server.path("mirror");
    let text = format!(
        "provider_installation {{\n  filesystem_mirror {{\n    path = \"{}\"\n  }}\n}}\n",
        mirror.display()
    );
    let file = server.path("tofurc");
    fs::write(&file, text).unwrap();
    let job =
        json!({ "environment": { "TF_CLI_CONFIG_FILE": file, "TF_PLUGIN_CACHE_DIR": cache } });
    let site = Site::on(server, &job).await;

    let ended = site.run(&request(ENV, Some(inline(MODULE)))).await;
    let (_, message) = failure(&ended);
    assert!(message.contains(PROVIDER), "{message}");
    assert_eq!(ended.attempts[0].phase, "plan", "`init` found it: {message}");
    assert!(ran.exists(), "{message}");
    assert!(cache.join(PROVIDER).join("1.0.0").join(PLATFORM).exists());
}
