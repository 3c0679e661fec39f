//! Policies over plans, by the command line alone, with the module and the commands of docs/policies.md.

use crate::harness::deployments::{counts, failure, request};
use crate::harness::module::inline;
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_domain::failure::FailureClass;
use serde_json::Value;
use std::fs;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/policies.md");

/// The first block of the page in a language.
fn block<'p>(page: &'p str, language: &str) -> &'p str {
    let begin = page.split_once(&format!("```{language}\n")).unwrap().1;
    begin.split_once("```").unwrap().0
}

/// The arguments of the page's commands, as a shell reads them, with `text` for the file of the module.
fn commands(page: &str, text: &str) -> Vec<Vec<String>> {
    let lines = block(page, "console").lines();
    let split = |line: &str| -> Vec<String> {
        let line = line.strip_prefix("$ canyon ").unwrap();
        let quoted = line.split('"').enumerate();
        let marked: String = quoted
            .map(|(at, part)| if at % 2 == 1 { part.replace(' ', "\0") } else { part.to_owned() })
            .collect();
        let words = marked.split(' ').map(|word| word.replace('\0', " "));
        words.map(|word| word.replace("$(cat databases.rego)", text.trim_end())).collect()
    };
    lines.map(split).collect()
}

fn disk(size: &str) -> String {
    format!("resource \"terraform_data\" \"disk\" {{ input = \"{size}\" }}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_administrator_forbids_deletions_by_the_commands_of_the_page() {
    let site = Site::new().await;
    let server = &site.server;
    let page = fs::read_to_string(PAGE).unwrap();
    // No database is here: the same rule about what the tests can create.
    let text = block(&page, "rego").replace("aws_db_instance", "terraform_data");
    let commands = commands(&page, &text);
    let run = |arguments: &[String]| {
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        server.canyon(&arguments).done().to_owned()
    };
    let [set, get, change, remove] = &commands[..] else { panic!("{commands:?}") };
    run(set);
    let digest = run(get);
    let env = site.client.get(&["projects", PROJECT, "envs", ENV]).await.unwrap();
    assert!(digest.contains(env["type_policy"].as_str().unwrap()), "{digest}: {env}");
    run(change);
    let shown = site.client.get(&["env-types", "development"]).await.unwrap();
    assert_eq!(
        (
            &shown["policy"]["timeout_seconds"],
            shown["policy"]["modules"]["databases.rego"].as_str()
        ),
        (&20.into(), Some(text.trim_end()))
    );

    let folder = server.path("module");
    fs::create_dir(&folder).unwrap();
    let path = folder.to_str().unwrap();
    let write = |text: &str| fs::write(folder.join("main.tf"), text).unwrap();
    write(&disk("small"));
    server.canyon(&["deploy", PROJECT, ENV, "--module", path]).done();
    assert_eq!(site.state(ENV).await.len(), 1);

    // A plan that deletes: denied, shown, and not to be applied.
    write("# nothing\n");
    let message = "terraform_data.disk would be deleted in dev";
    let planned = server.canyon(&["plan", PROJECT, ENV, "--module", path]);
    assert_ne!(planned.code, 0);
    assert!(
        planned.stdout.contains(&format!("denied by the policy: {message}")),
        "{}",
        planned.stdout
    );
    assert!(planned.stderr.contains("POLICY_DENIED"), "{}", planned.stderr);
    let listed = site.client.get(&["deployments"]).await.unwrap();
    let id = listed["items"][0]["id"].as_str().unwrap().to_owned();
    let shown = server.canyon(&["show", "plan", &id]).done().to_owned();
    assert!(shown.contains(&format!("denied by the policy: {message}")), "{shown}");
    let refused = server.canyon(&["apply", &id, "--yes"]);
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    let destroyed = server.canyon(&["destroy", PROJECT, ENV, "--yes"]);
    assert_ne!(destroyed.code, 0, "{}", destroyed.stdout);
    assert_eq!(site.state(ENV).await.len(), 1, "nothing was changed");

    // A faulty policy: refused with its place; the former one holds.
    let faulty = "policy.modules.databases\\.rego=package canyon\ndeny contains msg if { msg := ";
    let refused = server.canyon(&["update", "environment-type", "development", "--set", faulty]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("line 2, column 28"), "{}", refused.stderr);

    run(remove);
    let shown = site.client.get(&["env-types", "development"]).await.unwrap();
    assert_eq!(shown["policy"], Value::Null);
    server.canyon(&["destroy", PROJECT, ENV, "--yes"]).done();
    assert!(site.state(ENV).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_judged_before_people_are_asked_and_warnings_let_it_pass() {
    let site = Site::new().await;
    let policy = "{\"policy\": {\"modules\": {\"a.rego\": \"package canyon\\nwarn contains sprintf(\\\"%s changes\\\", [c.address]) if some c in input.resource_changes\\n\
                  deny contains \\\"no huge disks\\\" if input.resource_changes[_].change.after.input == \\\"huge\\\"\"}}, \"approval\": {\"required\": \"always\"}}";
    let set =
        site.server.canyon(&["update", "environment-type", "development", "--set-yaml", policy]);
    set.done();
    let denied = site.run(&request(ENV, Some(inline(disk("huge"))))).await;
    let (class, message) = failure(&denied);
    assert_eq!(class, FailureClass::User);
    assert!(message.starts_with("POLICY_DENIED: no huge disks"), "{message}");
    assert!(denied.approval.is_none_or(|approval| approval.given == 0 && approval.since.is_none()));
    let rule =
        site.server.canyon(&["update", "environment-type", "development", "--set=approval=null"]);
    rule.done();
    let passed = site.run(&request(ENV, Some(inline(disk("small"))))).await;
    assert_eq!((passed.status.as_str(), counts(&passed)), ("succeeded", (1, 0, 0)));
    let policy = site.client.deployment(&passed.id.to_string()).await.unwrap().policy.unwrap();
    assert_eq!(
        (policy.warnings, policy.num_denied),
        (vec!["terraform_data.disk changes".to_owned()], 0)
    );
}
