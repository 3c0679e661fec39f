//! Runs the binary `canyon`.

use crate::canned_server::CannedServer;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// One call of the binary, in its own folder.
pub(crate) struct Invocation {
    command: Command,
    stdin: Vec<u8>,
    hidden: Vec<(String, &'static str)>,
}

impl Invocation {
    /// `canyon` with `arguments`, separated by spaces, and without any setting.
    pub(crate) fn new(folder: &Path, arguments: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_canyon"));
        command.args(arguments.split_whitespace()).current_dir(folder).env_clear();
        command.env("HOME", folder).env("COLUMNS", "100");
        let hidden = vec![(folder.display().to_string(), "[folder]")];
        Self { command, stdin: Vec::new(), hidden }
    }

    /// Adds the settings for `server`.
    pub(crate) fn at(mut self, server: &CannedServer) -> Self {
        let settings =
            [("CANYON_API_URL", server.url()), ("CANYON_ORG", "local"), ("CANYON_TOKEN", "t0ken")];
        self.command.envs(settings);
        self.hidden.push((server.url().to_owned(), "[server]"));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn stdin(mut self, text: &str) -> Self {
        text.as_bytes().clone_into(&mut self.stdin);
        self
    }

    /// Exit code, stdout and stderr.
    pub(crate) fn run(mut self) -> String {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap();
        // A program that refuses its arguments does not read its stdin.
        let _ = child.stdin.take().unwrap().write_all(&self.stdin);
        self.shown(&child.wait_with_output().unwrap())
    }

    /// Starts the program, for tests that interrupt it.
    pub(crate) fn spawn(mut self) -> std::process::Child {
        self.command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.command.spawn().unwrap()
    }

    /// The command.
    pub(crate) fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    fn shown(&self, output: &Output) -> String {
        let mut text = format!(
            "exit: {}\n--- stdout\n{}--- stderr\n{}",
            output.status.code().map_or("signal".to_owned(), |code| code.to_string()),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        for (value, name) in &self.hidden {
            text = text.replace(&format!("{value}/"), &format!("{name}/")).replace(value, name);
        }
        assert!(!text.contains("t0ken"), "the token was printed:\n{text}");
        text
    }
}
