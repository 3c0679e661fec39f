//! The pages for new users: the commands of the tutorial run exactly as written, the texts that the page about
//! troubleshooting quotes are Canyon's, and the list of documents is complete.

use crate::harness::programs;
use crate::harness::server::Server;
use crate::terminal::Terminal;
use regex_lite::Regex;
use std::fs;
use std::path::Path;
use std::process::Command;

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

fn page(name: &str) -> String {
    fs::read_to_string(workspace().join("docs").join(name)).unwrap()
}

/// The code blocks of a page, each with its language.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    // Every other piece between two fences is a block.
    let pieces = page.split("\n```").skip(1).step_by(2);
    pieces.map(|piece| piece.split_once('\n').unwrap()).collect()
}

/// Gives a command the folder and the variables of a reader.
fn of_a_reader<'a>(command: &'a mut Command, server: &Server, folder: &Path) -> &'a mut Command {
    command
        .current_dir(folder)
        .env_clear()
        .env("HOME", folder)
        .env("PATH", programs::search_path(Some(&programs::built())))
        .env("CANYON_API_URL", server.url())
        .env("CANYON_ORG", server.org())
        .env("CANYON_TOKEN", server.token())
}

/// Runs commands, which must succeed; returns what they print.
fn run(server: &Server, folder: &Path, script: &str) -> String {
    let mut command = Command::new("timeout");
    command.args(["240", "bash", "-euo", "pipefail", "-c", script]);
    let done = of_a_reader(&mut command, server, folder).output().unwrap();
    let printed = [done.stdout, done.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    assert!(done.status.success(), "$ {script}\n{printed}\n{}", server.log());
    printed
}

/// Runs the command of a block on a terminal. It must fail, and print what the block shows after it.
fn run_shown(server: &Server, folder: &Path, block: &str) {
    let (command, shown) = block.strip_prefix("$ ").unwrap().split_once('\n').unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-euo", "pipefail", "-c", command]);
    let mut terminal = Terminal::start(of_a_reader(&mut bash, server, folder), "");
    if shown.contains("is accepted: no") {
        terminal.answer("no\n");
    }
    let printed = terminal.end();
    assert!(!printed.starts_with("exit: 0\n"), "$ {command}\n{printed}");
    for part in shown.lines().flat_map(|line| line.split('…')) {
        assert!(printed.contains(part), "$ {command}\ndoes not print: {part}\n{printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tutorial_can_be_followed_command_by_command() {
    let server = Server::start().await;
    let folder = server.path("tutorial");
    fs::create_dir(&folder).unwrap();
    let text = page("tutorial.md");
    // The harness has started the server, with a port and a folder of its own.
    let (start, rest) = text.split_once("\n## 2. ").unwrap();
    assert!(start.contains("canyon local &"), "the first section starts Canyon");
    let theirs = "/var/tmp/canyon-state";
    assert!(rest.contains(theirs), "the page names a folder for states");
    let rest = rest.replace(theirs, &server.path("states").display().to_string());

    let (mut printed, mut shown) = (String::new(), 0);
    for (language, block) in blocks(&rest) {
        match language {
            "sh" => printed.push_str(&run(&server, &folder, block)),
            "console" => {
                run_shown(&server, &folder, block);
                shown += 1;
            }
            other => panic!("a block of the language `{other}` is not tested"),
        }
    }
    assert_eq!(shown, 4, "the fault, the question, the limit, and the protection");
    assert!(printed.contains("plan: 2 to add, 0 to change, 0 to destroy"), "{printed}");
    let changes = printed.matches("plan: 0 to add, 2 to change, 0 to destroy").count();
    assert_eq!(changes, 2, "the change, and the way back: {printed}");
    for list in ["runners", "runner-rules", "projects", "environment-types"] {
        let left = run(&server, &folder, &format!("canyon list {list} -o json"));
        assert_eq!(left.trim(), "[]", "the last section leaves {list}");
    }
}

/// All sources of the programs, with each text on one line.
fn sources() -> String {
    fn read(folder: &Path, text: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !["tests", "target"].contains(&name) {
                read(&path, text);
            } else if path.extension().is_some_and(|kind| kind == "rs")
                && !name.ends_with("tests.rs")
            {
                text.push_str(&fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut text = String::new();
    for folder in ["crates", "functions", "launcher"] {
        read(&workspace().join(folder), &mut text);
    }
    // A backslash at the end of a line continues a text on the next one.
    Regex::new(r"\\\n\s*").unwrap().replace_all(&text, "").into_owned()
}

#[test]
fn the_texts_that_troubleshooting_quotes_are_canyons() {
    let sources = sources();
    let text = page("troubleshooting.md");
    let in_blocks = blocks(&text).into_iter().filter(|(language, _)| *language == "text");
    let mut quotes: Vec<&str> = in_blocks.flat_map(|(_, block)| block.lines()).collect();
    let cells = text.lines().filter_map(|line| line.strip_prefix('|')?.split('|').next());
    quotes.extend(cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)));
    assert!(quotes.len() > 50, "{quotes:?}");
    for quote in quotes {
        let parts = quote.split('…').map(|part| part.trim_matches([' ', '`', '.']));
        for part in parts.filter(|part| part.len() > 3) {
            assert!(sources.contains(part), "`{part}` of `{quote}` is in no source");
        }
    }
}

#[test]
fn the_list_of_documents_names_every_page() {
    let readme = fs::read_to_string(workspace().join("README.md")).unwrap();
    for entry in fs::read_dir(workspace().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|kind| kind == "md") {
            let link = format!("](docs/{})", path.file_name().unwrap().display());
            assert!(readme.contains(&link), "README.md has no {link}");
        }
    }
}
