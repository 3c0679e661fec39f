//! Plans that are kept for people and applied later, with the real OpenTofu.

use crate::server::{Home, Server, code};
use canyon_api::attempt::KeptPlanBody;
use canyon_api::plan::PlanPage;
use canyon_api::sealed_plan::{open, seal};
use canyon_domain::failure::FailureClass;
use canyon_domain::plan_task::{PlanKey, PlanPiece};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Child;

const KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707";

type Pieces = BTreeMap<String, Vec<u8>>;

fn key() -> PlanKey {
    PlanKey::new([7; 32])
}

/// A plan as its run has stored it.
struct Stored {
    body: KeptPlanBody,
    pieces: Pieces,
}

impl Stored {
    /// What the runner that `start` starts has stored of a plan of `job`.
    fn by(mut job: Value, start: impl FnOnce(&Server) -> Child) -> Self {
        job["plan_only"] = true.into();
        job["plan"] = json!({ "do": "keep", "key": KEY });
        let server = Server::start(job);
        assert_eq!(code(start(&server)), 0, "{}", server.plane().log());
        let plane = server.plane();
        let body = plane.result().plan.clone();
        Self {
            body: body.unwrap_or_else(|| panic!("{}", plane.log())),
            pieces: plane.pieces.clone(),
        }
    }

    fn page(&self, number: u32) -> PlanPage {
        let piece = PlanPiece::Changes(number);
        let sealed = self.pieces[&piece.to_string()].clone();
        serde_json::from_slice(&open(&key(), 1, piece, sealed).unwrap()).unwrap()
    }

    /// Each change: its action, its address, and what else is said of it.
    fn changes(&self) -> String {
        let line = |resource: &canyon_api::plan::PlannedResource| {
            let shown = serde_json::to_value(resource).unwrap();
            let paths: Vec<_> = resource.attributes.iter().map(|one| one.path.as_str()).collect();
            let more = ["reason", "previous_address", "import_id"];
            let more: Vec<_> = more.iter().filter_map(|name| shown[name].as_str()).collect();
            let [action, more, paths] =
                [shown["action"].as_str().unwrap().to_owned(), more.join(" "), paths.join(" ")];
            format!("{action} {} {more} [{paths}]", resource.address)
        };
        self.page(0).resources.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

fn deploy(home: &Home, source: &str) {
    let server = Server::start(home.job(source, &json!({})));
    assert_eq!(code(home.start(&server)), 0, "{}", server.plane().log());
}

/// Plans `source`, and keeps the plan.
fn plan(home: &Home, source: &str, changes: &Value) -> Stored {
    Stored::by(home.job(source, changes), |server| home.start(server))
}

/// Applies a kept plan, with `source` as the module.
fn apply(home: &Home, source: &str, stored: &Stored) -> (i32, Server) {
    let mut job = home.job(source, &json!({}));
    let KeptPlanBody { digest, parts, summary, .. } = &stored.body;
    job["plan"] = json!({
        "do": "apply", "key": KEY, "attempt": 1, "digest": digest, "parts": parts, "summary": summary,
    });
    let server = Server::start(job);
    server.plane().pieces = stored.pieces.clone();
    let exit = code(home.start(&server));
    (exit, server)
}

/// The inputs of the resources in the state, by name.
fn inputs(home: &Home) -> BTreeMap<String, Value> {
    let state: Value = serde_json::from_slice(&std::fs::read(home.state()).unwrap()).unwrap();
    let resources = state["resources"].as_array().unwrap();
    let of = |resource: &Value| {
        let input = resource["instances"][0]["attributes"]["input"]["value"].clone();
        (resource["name"].as_str().unwrap().to_owned(), input)
    };
    resources.iter().map(of).collect()
}

fn one(input: &str) -> String {
    format!("resource \"terraform_data\" \"one\" {{ input = \"{input}\" }}\n")
}

#[test]
fn every_action_of_a_plan_is_kept_for_people_with_what_it_destroys_first() {
    let home = Home::new();
    deploy(
        &home,
        r#"
resource "terraform_data" "updated" { input = "a" }
resource "terraform_data" "replaced" { triggers_replace = "a" }
resource "terraform_data" "deleted" {}
resource "terraform_data" "forgotten" {}
resource "terraform_data" "old" {}
resource "terraform_data" "kept" {}
output "left" { value = "a" }
"#,
    );
    let stored = plan(
        &home,
        r#"
resource "terraform_data" "updated" { input = { "a b" = ["c"], n = 12345678901234567890123 } }
resource "terraform_data" "replaced" {
  triggers_replace = "b"
  lifecycle { create_before_destroy = true }
}
removed {
  from = terraform_data.forgotten
  lifecycle { destroy = false }
}
moved {
  from = terraform_data.old
  to   = terraform_data.new
}
resource "terraform_data" "new" {}
resource "terraform_data" "kept" {}
resource "terraform_data" "created" { count = 2 }
import {
  to = terraform_data.imported
  id = "some-id"
}
resource "terraform_data" "imported" {}
output "made" { value = terraform_data.created[0].id }
"#,
        &json!({}),
    );
    let expected = "\
replace terraform_data.replaced replace_because_cannot_update [id triggers_replace]
delete terraform_data.deleted delete_because_no_resource_config [id]
forget terraform_data.forgotten  [id]
update terraform_data.updated  [input output]
create terraform_data.created[0]  [id]
create terraform_data.created[1]  [id]
import terraform_data.imported some-id []
move terraform_data.new terraform_data.old []";
    assert_eq!(stored.changes(), expected);
    let summary = serde_json::to_value(stored.body.summary).unwrap();
    assert_eq!(
        summary,
        json!({ "add": 2, "change": 1, "replace": 1, "remove": 1, "import": 1, "move": 1, "forget": 1, "drift": 0 })
    );
    let page = stored.page(0);
    let replaced = &page.resources[0];
    assert!(replaced.creates_first, "{replaced:?}");
    assert!(replaced.attributes[1].replaces && !replaced.attributes[0].replaces, "{replaced:?}");
    assert!(replaced.attributes[0].after_unknown, "{replaced:?}");
    let updated = serde_json::to_string(&page.resources[3].attributes[0]).unwrap();
    assert!(updated.contains("12345678901234567890123"), "every digit: {updated}");
    let outputs: Vec<_> =
        page.outputs.iter().map(|one| (one.name.as_str(), one.after_unknown)).collect();
    assert_eq!(outputs, [("left", false), ("made", true)]);
    assert_eq!((stored.body.parts, stored.body.pages), (1, 1));
}

#[test]
fn a_plan_without_changes_is_kept_without_its_file() {
    let home = Home::new();
    deploy(&home, &one("a"));
    let stored = plan(&home, &one("a"), &json!({}));
    assert_eq!((stored.body.parts, stored.body.pages), (0, 0));
    assert_eq!(stored.pieces, Pieces::default());
}

#[test]
fn no_secret_leaves_the_runner_with_a_plan() {
    let home = Home::new();
    let source = r#"
variable "word" { sensitive = true }
variable "kept" {}
resource "terraform_data" "one" { input = { "open" = "in the clear", "closed" = var.word } }
resource "terraform_data" "two" { input = "before ${var.kept} after" }
output "word" {
  value     = var.word
  sensitive = true
}
"#;
    let changes = json!({
        "bundle": { "module": { "inputs": { "word": "hush-hush-hush" } } },
        "variables": [{ "kind": "terraform", "name": "kept", "value": "kept-secret-value", "secret": true, "from": "project:shop" }],
    });
    let stored = plan(&home, source, &changes);
    let text = serde_json::to_string(&stored.page(0)).unwrap();
    for secret in ["hush-hush-hush", "kept-secret-value"] {
        assert!(!text.contains(secret), "{text}");
        for (name, sealed) in &stored.pieces {
            let found = sealed.windows(secret.len()).any(|bytes| bytes == secret.as_bytes());
            assert!(!found, "{name} is stored in the clear");
        }
    }
    assert!(text.contains("in the clear") && text.contains("after"), "{text}");
    let page = stored.page(0);
    let closed =
        page.resources[0].attributes.iter().find(|one| one.path == "input.closed").unwrap();
    assert!(closed.after_sensitive && closed.after.is_none(), "{closed:?}");
    assert!(page.outputs[0].sensitive && page.outputs[0].after.is_none(), "{:?}", page.outputs);
}

#[test]
fn the_text_of_a_plan_hides_a_sensitive_value_that_a_provider_has_copied() {
    let home = Home::new();
    // `output` of the resource has the value too, and OpenTofu does not mark that as sensitive.
    let source = |word: &str| {
        format!(
            "variable \"word\" {{\n  sensitive = true\n  default   = \"{word}\"\n}}\n\
             resource \"terraform_data\" \"one\" {{ input = var.word }}\n"
        )
    };
    deploy(&home, &source("hush-hush-hush"));
    let mut job = home.job(&source("another-secret"), &json!({ "plan_only": true }));
    job["plan"] = json!({ "do": "keep", "key": KEY });
    let server = Server::start(job);
    assert_eq!(code(home.start(&server)), 0, "{}", server.plane().log());
    let log = server.plane().log();
    assert!(log.contains("terraform_data.one will be updated"), "{log}");
    assert!(!log.contains("hush-hush-hush"), "{log}");
}

#[test]
fn exactly_the_kept_plan_is_applied_whatever_the_module_says_by_then() {
    let home = Home::new();
    let stored = plan(&home, &one("planned"), &json!({}));
    let (exit, server) = apply(&home, &one("later"), &stored);
    assert_eq!(exit, 0, "{}", server.plane().log());
    assert_eq!(inputs(&home)["one"], "planned");
    let plane = server.plane();
    let counts = plane.result().tf_resource_counts.unwrap();
    assert_eq!((counts.num_resources_added, counts.num_resources), (1, Some(1)));
    assert!(plane.log().contains("applies the kept plan"), "{}", plane.log());
}

/// A program in place of OpenTofu that also writes a file while it plans, as the provider of `archive_file` does.
#[test]
fn the_apply_finds_what_planning_has_made_in_the_modules_folder() {
    let home = Home::new();
    let source = r#"
resource "terraform_data" "one" {
  input = "planned"
  provisioner "local-exec" { command = "cat build/made.zip" }
}
"#;
    let tofu = std::env::var("CANYON_TEST_TOFU").unwrap();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" != plan ] || {{ mkdir -p build; echo made > build/made.zip; }}\nexec '{tofu}' \"$@\"\n"
    );
    let bin = home.folder.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let program = bin.join("tofu");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let search = format!("{}:/usr/bin:/bin", bin.display());
    let stored = Stored::by(home.job(source, &json!({})), |server| {
        home.command(server).env("PATH", &search).spawn().unwrap()
    });
    let (exit, server) = apply(&home, source, &stored);
    assert_eq!(exit, 0, "{}", server.plane().log());
    assert!(server.plane().log().contains("made"), "{}", server.plane().log());
}

#[test]
fn a_plan_is_not_applied_after_its_state_has_changed() {
    let home = Home::new();
    // Also the first plan of all, which has read no state.
    for (first, other) in [("one", "two"), ("three", "four")] {
        let stored = plan(&home, &one(first), &json!({}));
        deploy(&home, &one(other));
        let (exit, server) = apply(&home, &one(first), &stored);
        assert_eq!(exit, 1, "{}", server.plane().log());
        let plane = server.plane();
        let failure = plane.result().failure.clone().unwrap();
        assert!(failure.message.starts_with("STALE_PLAN: "), "{failure:?}");
        assert_eq!(failure.class, FailureClass::User);
        assert!(plane.result().untouched, "nothing was changed");
        assert_eq!(inputs(&home)["one"], *other);
    }
}

#[test]
fn a_plan_is_applied_once() {
    let home = Home::new();
    let stored = plan(&home, &one("planned"), &json!({}));
    assert_eq!(apply(&home, &one("planned"), &stored).0, 0);
    let (exit, server) = apply(&home, &one("planned"), &stored);
    assert_eq!(exit, 1);
    let failure = server.plane().result().failure.clone().unwrap();
    assert!(failure.message.starts_with("STALE_PLAN: "), "{failure:?}");
}

#[test]
fn a_plan_that_was_changed_in_the_object_store_is_not_applied() {
    let home = Home::new();
    deploy(&home, &one("before"));
    let stored = plan(&home, &one("planned"), &json!({}));
    let name = PlanPiece::File(0).to_string();
    let mut flipped = stored.pieces.clone();
    *flipped.get_mut(&name).unwrap().last_mut().unwrap() ^= 1;
    let mut other = stored.pieces.clone();
    let of_other = plan(&home, &one("other"), &json!({})).pieces[&name].clone();
    // By one who has the key: only the digest tells.
    let opened = open(&key(), 1, PlanPiece::File(0), of_other).unwrap();
    other.insert(name, seal(&key(), 1, PlanPiece::File(0), opened).unwrap());
    for pieces in [flipped, other] {
        let altered = Stored { body: stored.body.clone(), pieces };
        let (exit, server) = apply(&home, &one("planned"), &altered);
        assert_eq!(exit, 1);
        let failure = server.plane().result().failure.clone().unwrap();
        assert!(failure.message.starts_with("PLAN_ALTERED: "), "{failure:?}");
        assert_eq!(failure.class, FailureClass::Config);
        assert_eq!(inputs(&home)["one"], "before");
    }
}

#[test]
fn a_plan_of_which_a_part_is_missing_is_not_tried_again() {
    let home = Home::new();
    let mut stored = plan(&home, &one("planned"), &json!({}));
    stored.pieces.clear();
    let (exit, server) = apply(&home, &one("planned"), &stored);
    assert_eq!(exit, 1);
    let failure = server.plane().result().failure.clone().unwrap();
    assert!(failure.message.starts_with("PLAN_MISSING: "), "{failure:?}");
    assert_eq!(failure.class, FailureClass::Config);
}

#[test]
fn the_limit_of_deletions_holds_for_a_kept_plan_too() {
    let home = Home::new();
    deploy(&home, &one("a"));
    let stored = plan(&home, "# nothing\n", &json!({}));
    assert_eq!(stored.body.summary.remove, 1);
    let mut job = home.job("# nothing\n", &json!({ "max_deletions": 0 }));
    let KeptPlanBody { digest, parts, summary, .. } = &stored.body;
    job["plan"] = json!({
        "do": "apply", "key": KEY, "attempt": 1, "digest": digest, "parts": parts, "summary": summary,
    });
    let server = Server::start(job);
    server.plane().pieces = stored.pieces.clone();
    assert_eq!(code(home.start(&server)), 1);
    assert_eq!(server.plane().result().refused_deletions, Some(1));
    assert_eq!(home.resources(), ["one"]);
}
