//! The documents about runners: Canyon accepts their definitions as they are, their commands exist, and their
//! links have targets. The commands and links of the pages for new users, too.

use crate::harness::server::Server;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn pages() -> Vec<(PathBuf, String)> {
    let folder = fs::read_dir(workspace().join("docs/runners")).unwrap();
    let mut pages: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    assert!(pages.len() >= 5, "a page for each type that Canyon launches itself: {pages:?}");
    pages.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The pages for new users. `guides.rs` also runs the commands of the tutorial.
fn guides() -> Vec<(PathBuf, String)> {
    let names = [
        "concepts.md",
        "containers.md",
        "definitions.md",
        "tutorial.md",
        "troubleshooting.md",
        "coming-from.md",
    ];
    let paths = names.map(|name| workspace().join("docs").join(name));
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The commands in the text of a page, without those that it shortens or puts together.
fn commands_in_text(page: &str) -> impl Iterator<Item = &str> {
    let spans = page.split('`').skip(1).step_by(2);
    let spans = spans.filter_map(|span| span.strip_prefix("canyon "));
    spans.filter(|command| !command.contains(['…', '$', '\n']))
}

/// The code blocks of a language.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_definitions_on_the_pages_are_accepted_and_their_trust_can_be_printed() {
    let server = Server::start().await;
    let mut made = 0;
    for (path, page) in pages() {
        for definition in blocks(&page, "yaml") {
            made += 1;
            let name = format!("runner-{made}");
            let create = ["create", "runner", &name, "--set-yaml=-"];
            let said = server.canyon_with(&create, definition, &[]);
            assert_eq!(said.code, 0, "{}: {said:?}\n{definition}", path.display());
            let trust = server.canyon(&["doctor", "runner", &name, "--print-only"]);
            let trust = trust.done();
            let has_rights = trust.contains("Rights of the launcher") || definition.contains("ecs");
            let needs_none = ["-agent", "type: docker"].iter().any(|of| definition.contains(of));
            assert!(has_rights || needs_none, "{trust}");
        }
    }
    assert!(made >= 6, "only {made} definitions");
}

/// The commands whose next word is a kind of object, which determines the flags.
const OF_A_KIND: [&str; 16] = [
    "create", "get", "list", "update", "delete", "doctor", "adopt", "reject", "forget", "disable",
    "enable", "limit", "token", "set", "unset", "explain",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_on_the_pages_exist() {
    let server = Server::start().await;
    let mut commands = BTreeSet::new();
    let words = |line: &str| {
        let bare = line.split('#').next().unwrap_or_default();
        let words = bare.split_whitespace();
        let plain = |word: &&str| !word.contains('=') || word.starts_with("--");
        // A flag is tried without its value: the test checks its name.
        words
            .filter(plain)
            .map(|word| word.split('=').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let is_run = |path: &Path| path.ends_with("tutorial.md");
    for (_, page) in pages().into_iter().chain(guides()).filter(|(path, _)| !is_run(path)) {
        for block in blocks(&page, "sh") {
            commands
                .extend(block.lines().filter_map(|line| line.strip_prefix("canyon ")).map(words));
        }
    }
    for (_, page) in guides() {
        commands.extend(commands_in_text(&page).map(words));
    }
    assert!(commands.len() > 10, "{commands:?}");
    for command in &commands {
        let depth = if OF_A_KIND.contains(&command[0].as_str()) { 2 } else { 1 };
        let words = command.iter().take(depth).filter(|word| !word.starts_with('-'));
        let mut arguments: Vec<&str> = words.map(String::as_str).collect();
        arguments.push("--help");
        let help = server.canyon(&arguments);
        assert_eq!(help.code, 0, "{command:?}: {help:?}");
        for flag in command.iter().filter(|word| word.starts_with("--")) {
            assert!(help.stdout.contains(flag.as_str()), "{command:?} has no {flag}: {help:?}");
        }
    }
}

#[test]
fn the_links_of_the_pages_have_targets() {
    for (path, page) in pages().into_iter().chain(guides()) {
        let targets = page.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
        let mut files: Vec<PathBuf> = Vec::new();
        for target in targets {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            let text = fs::read_to_string(&file);
            let text = text.unwrap_or_else(|error| panic!("{}: {target}: {error}", path.display()));
            let headings: Vec<_> =
                text.lines().filter(|line| line.starts_with('#')).map(anchor).collect();
            assert!(
                heading.is_empty() || headings.iter().any(|one| one == heading),
                "{}: {target}",
                path.display()
            );
        }
        let words = page.split_whitespace();
        files.extend(
            words.filter(|word| word.starts_with("infra/")).map(|word| workspace().join(word)),
        );
        files.extend(words_of_chdir(&page));
        for file in files {
            assert!(file.exists(), "{}: {}", path.display(), file.display());
        }
    }
}

fn words_of_chdir(page: &str) -> Vec<PathBuf> {
    let folders = page.split_whitespace().filter_map(|word| word.strip_prefix("-chdir="));
    folders.map(|folder| workspace().join(folder)).collect()
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || *c == ' ' || *c == '-');
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
