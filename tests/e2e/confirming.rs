//! The real programs ask a person on a terminal before anything is deleted.

use crate::harness::module::THIRTY;
use crate::harness::programs;
use crate::harness::site::{ENV, PROJECT, Site};
use crate::terminal::Terminal;
use std::fs;
use std::process::Command;

/// Another module than [`THIRTY`]: it deletes all that the former has created.
const OTHER: &str = r#"resource "terraform_data" "other" {}"#;

fn on_terminal(site: &Site, arguments: &[&str]) -> Terminal {
    let mut command = Command::new(programs::built().join("canyon"));
    started(site, command.args(arguments))
}

fn started(site: &Site, command: &mut Command) -> Terminal {
    command
        .current_dir(site.server.path("."))
        .env_clear()
        .env("HOME", site.server.path("."))
        .env("PATH", programs::search_path(None))
        .env("CANYON_API_URL", site.server.url())
        .env("CANYON_ORG", site.server.org())
        .env("CANYON_TOKEN", site.server.token());
    Terminal::start(command, "")
}

fn module(site: &Site, name: &str, text: &str) {
    let folder = site.server.path(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("main.tf"), text).unwrap();
}

/// Deploys thirty resources, which deletes nothing, and then deploys the other module with `flags`,
/// which asks.
async fn asked(site: &Site, flags: &[&str]) {
    module(site, "thirty", THIRTY);
    module(site, "other", OTHER);
    let deploy =
        |module: &'static str| [&["deploy", PROJECT, ENV, "--module", module][..], flags].concat();
    let said = on_terminal(site, &deploy("./thirty")).end();
    assert!(said.starts_with("exit: 0\n"), "{said}\n{}", site.server.log());

    let said = on_terminal(site, &deploy("./other")).answer("no\n").end();
    assert!(said.starts_with("exit: 1\n"), "{said}");
    // OpenTofu lists them in no fixed order.
    assert_eq!(said.matches("\n  delete   terraform_data.thing[").count(), 20, "{said}");
    assert!(said.contains("\n  and 10 more\n"), "{said}");
    assert!(said.ends_with("error: not confirmed; nothing was changed\n"), "{said}");
    assert_eq!(site.state(ENV).await.len(), 30);

    let said = on_terminal(site, &deploy("./other")).answer("yes\n").end();
    assert!(said.starts_with("exit: 0\n"), "{said}\n{}", site.server.log());
    assert!(said.contains("1 added, 0 changed, 30 destroyed; 1 now"), "{said}");
    assert_eq!(site.state(ENV).await, ["terraform_data.other"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_module_destroys_the_resources_of_the_former_only_after_yes() {
    let site = Site::new().await;
    asked(&site, &[]).await;
    // If stdin is the module, the user cannot answer.
    let canyon = programs::built().join("canyon").display().to_string();
    let script = format!("echo '# nothing' | '{canyon}' deploy {PROJECT} {ENV} --module -");
    let said = started(&site, Command::new("sh").args(["-c", &script])).end();
    assert!(
        said.starts_with("exit: 1\n") && said.contains("`--max-deletions 1` allows it"),
        "{said}"
    );
    assert_eq!(site.state(ENV).await, ["terraform_data.other"]);
    let said = on_terminal(&site, &["deploy", PROJECT, ENV, "--destroy"]).answer("yes\n").end();
    assert!(said.starts_with("exit: 0\n"), "{said}");
    assert!(said.contains(&format!("{PROJECT}/{ENV} has 1 resource in its state /")), "{said}");
    assert_eq!(site.state(ENV).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_this_machine_asks_the_same() {
    let site = Site::new().await;
    asked(&site, &["--local"]).await;
    assert_eq!(site.client.list(&["agents"], &[]).await.unwrap().len(), 0);
}
