//! A page of the documentation whose commands are executed exactly as written.

use super::bed::bed;
use super::helm::{CommandResult, checkout};
use super::programs;
use super::server::Server;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use tempfile::TempDir;

/// The page, and a folder for its commands that looks like a checkout.
#[derive(Debug)]
pub(crate) struct Page {
    text: String,
    folder: TempDir,
    variables: BTreeMap<&'static str, String>,
    replacements: Vec<(&'static str, String)>,
}

impl Page {
    /// A page of `docs/`. Its commands use this server and the test cluster.
    pub(crate) fn new(name: &str, server: &Server) -> Self {
        let text = fs::read_to_string(checkout().join("docs").join(name)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        for entry in ["infra", "examples"] {
            symlink(checkout().join(entry), folder.path().join(entry)).unwrap();
        }
        let tools = programs::given("CANYON_TEST_HELM");
        let first = [programs::built(), tools.parent().unwrap().to_owned()];
        let usual = std::env::split_paths("/usr/local/bin:/usr/bin:/bin").collect::<Vec<_>>();
        let path = std::env::join_paths(first.into_iter().chain(usual)).unwrap();
        let text_of = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
        let variables = BTreeMap::from([
            ("PATH", path.into_string().unwrap()),
            ("HOME", text_of(folder.path().to_owned())),
            ("KUBECONFIG", text_of(bed().file_beside("kubeconfig"))),
            ("CANYON_API_URL", server.url()),
            ("CANYON_ORG", server.org().to_owned()),
            ("CANYON_TOKEN", server.token().to_owned()),
        ]);
        Self { text, folder, variables, replacements: Vec::new() }
    }

    /// Replaces a name on the page that every reader replaces with their own.
    pub(crate) fn replace(mut self, theirs: &'static str, own: String) -> Self {
        assert!(self.text.contains(theirs), "the page has no {theirs}");
        self.replacements.push((theirs, own));
        self
    }

    /// The code blocks under a heading: language and content.
    fn blocks(&self, heading: &str) -> Vec<(&str, &str)> {
        let start =
            self.text.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
        let section = &self.text[start + heading.len() + 2..];
        let section = section.split("\n##").next().unwrap();
        // Every other piece between two fences is a block.
        let pieces = section.split("\n```").skip(1).step_by(2);
        pieces.map(|piece| piece.split_once('\n').unwrap()).collect()
    }

    /// Follows a section: writes its files, which begin with their names, and runs its commands.
    pub(crate) fn follow(&self, heading: &str) -> String {
        let mut printed = String::new();
        for (language, block) in self.blocks(heading) {
            let block = self
                .replacements
                .iter()
                .fold(block.to_owned(), |text, (theirs, own)| text.replace(theirs, own));
            if language == "sh" {
                printed.push_str(&self.run(&block).done());
            } else {
                let name = block.lines().next().unwrap().trim_start_matches("# ");
                fs::write(self.folder.path().join(name), &block).unwrap();
            }
        }
        assert!(!printed.is_empty(), "{heading} has no command that prints anything");
        printed
    }

    /// Runs commands that are not on the page, in the same folder.
    pub(crate) fn run(&self, script: &str) -> CommandResult {
        let done = Command::new("timeout")
            .args(["240", "bash", "-euo", "pipefail", "-c", script])
            .current_dir(self.folder.path())
            .env_clear()
            .envs(&self.variables)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = CommandResult {
            success: done.status.success(),
            stdout: text(&done.stdout),
            stderr: text(&done.stderr),
        };
        println!("$ {script}\n{}{}", said.stdout, said.stderr);
        said
    }
}
