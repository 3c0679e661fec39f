//! The real command line, against a real server.

use super::{programs, server::Server};
use regex_lite::Regex;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

/// The result of a call of `canyon`.
#[derive(Clone, Debug)]
pub(crate) struct CommandResult {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    org: String,
}

impl Server {
    /// Runs `canyon` with the settings of this server, in the folder of the test's own files.
    pub(crate) fn canyon(&self, arguments: &[&str]) -> CommandResult {
        self.canyon_with(arguments, "", &[])
    }

    /// The same with a standard input and further variables.
    pub(crate) fn canyon_with(
        &self,
        arguments: &[&str],
        stdin: &str,
        variables: &[(&str, &str)],
    ) -> CommandResult {
        let url = self.url();
        let mut child = Command::new(programs::built().join("canyon"))
            .args(arguments)
            .current_dir(self.path("."))
            .env_clear()
            .env("HOME", self.path("."))
            .envs([("CANYON_API_URL", url.as_str()), ("CANYON_ORG", self.org())])
            .envs([("CANYON_TOKEN", self.token()), ("COLUMNS", "100")])
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A program that refuses its arguments does not read its input.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        CommandResult::from(child.wait_with_output().unwrap(), self.token(), self.org())
    }
}

impl CommandResult {
    fn from(output: Output, token: &str, org: &str) -> Self {
        let said = Self {
            code: output.status.code().expect("it was not killed"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            org: org.to_owned(),
        };
        assert!(!format!("{said:?}").contains(token), "the token was printed");
        said
    }

    /// Its standard output; it must have succeeded.
    #[track_caller]
    pub(crate) fn done(&self) -> &str {
        assert_eq!(self.code, 0, "{}\n{}", self.stdout, self.stderr);
        &self.stdout
    }

    /// Its exit code and output, without what differs from run to run.
    pub(crate) fn snapshot(&self) -> String {
        let text =
            format!("exit: {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr);
        let hidden = [
            ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "[uuid]"),
            (r"\d{4}-\d\d-\d\dT[\d:.]+Z", "[time]"),
            (r"http://127\.0\.0\.1:\d+", "[server]"),
            (r"\d+(\.\d+)? ?m?s\b", "[duration]"),
        ];
        let text = text.replace(&format!("org_id: {}\n", self.org), "org_id: [org]\n");
        hidden.iter().fold(text, |text, (pattern, name)| {
            Regex::new(pattern).unwrap().replace_all(&text, *name).into_owned()
        })
    }
}
