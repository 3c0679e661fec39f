//! A script in place of OpenTofu: it records that it ran, has a state without resources, and takes almost no time.
//! Everything else, from the API to the runner, is real.

use super::programs;
use canyon_domain::job::Module;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// What the script does at an apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It succeeds.
    Runs,
    /// It fails.
    Fails,
    /// It runs until it is stopped.
    Hangs,
}

/// The script and its records.
pub(crate) struct StandIn {
    folder: TempDir,
}

/// A record: `begin` or `end`, the environment, and the deployment's number there.
pub(crate) type Line = (String, String, u32);

impl StandIn {
    /// Writes the script, which [`StandIn::search_path`] finds.
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("canyon-stand-in-").tempdir().unwrap();
        let stand_in = Self { folder };
        let script = format!(
            r#"case $1 in
plan)
    echo '{{"type":"change_summary","changes":{{"add":0,"change":0,"remove":0,"operation":"plan"}}}}'
    exit 2
    ;;
apply)
    read -r hash part env number < main.tf
    echo "begin $env $number" >> '{ledger}'
    case $part in
    Fails) exit 1 ;;
    Hangs) exec sleep 300 ;;
    esac
    echo "end $env $number" >> '{ledger}'
    ;;
state)
    read -r hash part env number < main.tf
    serial=$(grep -c "^end $env " '{ledger}')
    [ "$serial" -eq 0 ] ||
        echo "{{\"version\":4,\"lineage\":\"$env\",\"serial\":$serial,\"resources\":[],\"outputs\":{{}}}}"
    ;;
esac
"#,
            ledger = stand_in.path().display()
        );
        programs::script(&stand_in.folder.path().join("tofu"), &script);
        stand_in
    }

    /// The `PATH` of jobs.
    pub(crate) fn search_path(&self) -> OsString {
        programs::search_path(Some(self.folder.path()))
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("ledger")
    }

    /// Every record, in order.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let text = fs::read_to_string(self.path()).unwrap_or_default();
        let line = |line: &str| -> Option<Line> {
            let mut words = line.split(' ');
            let (what, env) = (words.next()?.to_owned(), words.next()?.to_owned());
            Some((what, env, words.next()?.parse().ok()?))
        };
        text.lines().map(|text| line(text).unwrap_or_else(|| panic!("odd line {text:?}"))).collect()
    }

    /// The records of one environment, without its name.
    pub(crate) fn of(&self, env: &str) -> Vec<(String, u32)> {
        let lines = self.lines().into_iter().filter(|(_, of, _)| of == env);
        lines.map(|(what, _, number)| (what, number)).collect()
    }
}

/// A module from which the script reads its part.
pub(crate) fn module(part: Part, env: &str, number: u32) -> Module {
    super::module::inline(format!("# {part:?} {env} {number}\n"))
}
