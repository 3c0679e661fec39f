//! Values that a shell completes from the server and from the settings' file, with the real bash.

use crate::canned_server::CannedServer;
use crate::deployments::{list, of_id};
use serde_json::json as value;
use std::path::Path;
use std::process::Command;

const NEWEST: &str = "01970000-0000-7000-8000-000000000002";
const FORMER: &str = "01970000-0000-7000-8000-000000000001";

/// The candidates of bash for the last of `words`.
fn completed(folder: &Path, server: &CannedServer, words: &[&str]) -> Vec<String> {
    let program = Path::new(env!("CARGO_BIN_EXE_canyon"));
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "source <(canyon completion bash); COMP_WORDS=({}); COMP_CWORD={}; \
         function=$(complete -p canyon | sed 's/.*-F \\([^ ]*\\) .*/\\1/'); \
         $function canyon {} ''; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" "),
        words.len() - 1,
        quoted.last().unwrap()
    );
    let system = std::env::var("PATH").unwrap();
    let path = format!("{}:{system}", program.parent().unwrap().display());
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).env_clear().env("PATH", path).env("HOME", folder);
    bash.env("CANYON_API_URL", server.url()).env("CANYON_TOKEN", "t0ken");
    let output = bash.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.is_empty(), "{words:?}: {stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

#[test]
fn the_shell_completes_ids_from_the_server_and_contexts_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(".config/canyon/config.yaml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "contexts: {prod: {org: local}, preview: {}, dev: {org: local}}\n")
        .unwrap();
    let ids = |ids: &[&str]| list(&ids.iter().map(|id| value!({ "id": id })).collect::<Vec<_>>());
    let server = CannedServer::start([
        ("GET /runners", ids(&["laptop", "cluster"])),
        ("GET /projects", ids(&["shop", "payments/eu"])),
        ("GET /projects/shop/envs", ids(&["dev", "prod"])),
        ("GET /deployments", list(&[NEWEST, FORMER].map(|id| of_id(id, "succeeded", &value!({}))))),
    ]);
    let at = |words: &[&str]| completed(folder.path(), &server, words);
    assert_eq!(at(&["canyon", "get", "runner", "--org", "local", "l"]), ["laptop"]);
    assert_eq!(at(&["canyon", "deploy", "--context=prod", "s"]), ["shop"]);
    let environments = at(&["canyon", "--context", "prod", "deploy", "shop", "d"]);
    assert_eq!(environments, ["dev"]);
    assert_eq!(at(&["canyon", "config", "use-context", "pr"]), ["preview", "prod"]);
    assert_eq!(at(&["canyon", "config", "use-c"]), ["use-context"]);
    let of_org =
        |words: &[&str]| at(&[&["canyon", words[0], "--org", "local"], &words[1..]].concat());
    let found = of_org(&["cancel", "0197000"]);
    assert_eq!(found, [NEWEST, FORMER], "{:?}", server.requests());
    assert_eq!(of_org(&["logs", FORMER]), [FORMER]);
    assert_eq!(of_org(&["logs", "s"]), ["shop"]);
    assert_eq!(of_org(&["rollback", "shop", "dev", NEWEST]), [NEWEST]);
    let asked = server.requests().pop().unwrap().what;
    assert!(asked.contains("project_id=shop") && asked.contains("env_id=dev"), "{asked}");
    // Without an organization, and for a new id, there is nothing to complete.
    assert!(at(&["canyon", "get", "runner", "l"]).is_empty());
    let before = server.requests().len();
    assert!(at(&["canyon", "create", "runner", "--org", "local", "l"]).is_empty());
    assert_eq!(server.requests().len(), before);
}
