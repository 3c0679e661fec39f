//! A page of the documentation whose commands are executed exactly as written, in a copy of the files that installers
//! use.

use super::programs;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Replaces `cargo`: `cargo lambda build` leaves programs, which no test here runs. `scripts/build` uses the real one.
/// real one.
const CARGO: &str = r#"[ "$*" = "lambda build --release --arm64" ] || { echo "cargo $*: not on the page" >&2; exit 1; }
for name in api events issuer launcher sweep; do
    mkdir -p "target/lambda/$name"
    # Another program each time, or there would be nothing to deploy.
    echo "$name $(date +%s%N)" > "target/lambda/$name/bootstrap"
done
"#;

/// The page, and the folder of its commands.
pub(crate) struct Handbook {
    text: String,
    folder: TempDir,
    variables: BTreeMap<&'static str, OsString>,
    replacements: Vec<(&'static str, String)>,
}

impl Handbook {
    /// A page of `docs/`. Its `sam` and `aws` use this endpoint.
    pub(crate) fn new(name: &str, endpoint: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let text = fs::read_to_string(root.join("docs").join(name)).unwrap();
        let folder = tempfile::Builder::new().prefix("canyon-handbook-").tempdir().unwrap();
        for entry in ["infra", "examples"] {
            let mut copy = Command::new("cp");
            copy.arg("-r").arg(root.join(entry)).arg(folder.path());
            assert!(copy.status().unwrap().success(), "{entry} cannot be copied");
        }
        // A file that a developer's checkout may have, and a new one does not.
        let _ = fs::remove_file(folder.path().join("infra/aws/samconfig.toml"));
        fs::create_dir(folder.path().join("bin")).unwrap();
        programs::script(&folder.path().join("bin/cargo"), CARGO);
        let tools = ["CANYON_TEST_SAM", "CANYON_TEST_AWS"].map(programs::given);
        let tools = tools.map(|tool| tool.parent().unwrap().to_owned());
        let usual = ["/usr/local/bin", "/usr/bin", "/bin"].map(std::path::PathBuf::from);
        let first = [folder.path().join("bin"), programs::built()];
        let path = std::env::join_paths(first.into_iter().chain(tools).chain(usual)).unwrap();
        let variables = BTreeMap::from([
            ("PATH", path),
            ("HOME", folder.path().into()),
            ("AWS_ENDPOINT_URL", endpoint.into()),
            ("AWS_ACCESS_KEY_ID", "installer".into()),
            ("AWS_SECRET_ACCESS_KEY", "secret".into()),
            ("AWS_DEFAULT_REGION", canyon_cloud::region::REGION.into()),
            ("SAM_CLI_TELEMETRY", "0".into()),
        ]);
        Self { text, folder, variables, replacements: Vec::new() }
    }

    /// Sets this variable for its commands from now on.
    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.variables.insert(name, value.into());
    }

    /// Replaces a name on the page that every reader replaces with their own.
    pub(crate) fn replace(&mut self, theirs: &'static str, own: impl Into<String>) {
        assert!(self.text.contains(theirs), "the page has no {theirs}");
        self.replacements.push((theirs, own.into()));
    }

    /// A file of the folder.
    pub(crate) fn file(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// The commands under a heading, block by block.
    pub(crate) fn blocks(&self, heading: &str) -> Vec<String> {
        let start = self.text.find(&format!("\n{heading}\n"));
        let start = start.unwrap_or_else(|| panic!("no {heading}")) + heading.len() + 2;
        let section = self.text[start..].split("\n#").next().unwrap();
        // Every other piece between two fences is a block. In a list, it is indented.
        let section = section.replace("\n   ", "\n");
        let pieces = section.split("\n```").skip(1).step_by(2);
        let blocks = pieces.filter_map(|piece| piece.strip_prefix("sh\n"));
        let own = |block: &str| {
            let replaced = self.replacements.iter();
            replaced.fold(block.to_owned(), |text, (theirs, own)| text.replace(theirs, own))
        };
        blocks.map(own).collect()
    }

    /// Follows a section in one run, with these answers to the commands' questions.
    pub(crate) fn follow(&self, heading: &str, answers: &str) -> String {
        let blocks = self.blocks(heading);
        assert!(!blocks.is_empty(), "{heading} has no commands");
        blocks.iter().map(|block| self.run(block, answers)).collect()
    }

    /// Runs commands with this standard input; returns their output.
    pub(crate) fn run(&self, script: &str, answers: &str) -> String {
        let (success, said) = self.tried(script, answers);
        assert!(success, "$ {script}\n{said}");
        said
    }

    /// The same; also returns whether all commands succeeded.
    fn tried(&self, script: &str, answers: &str) -> (bool, String) {
        let mut child = Command::new("timeout")
            .args(["900", "bash", "-euo", "pipefail", "-c", &format!("{{ {script}\n}} 2>&1")])
            .current_dir(self.folder.path())
            .env_clear()
            .envs(&self.variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // A program that asks no question does not read its input.
        let _ = child.stdin.take().unwrap().write_all(answers.as_bytes());
        let done = child.wait_with_output().unwrap();
        (done.status.success(), String::from_utf8_lossy(&done.stdout).into_owned())
    }
}
