//! Where the real programs are, and what none of them may say.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How what is secret begins: Canyon's tokens of each kind (`canyon_identity::bearer`), and what a key or an issuer has
/// signed.
const SECRETS: [&str; 6] = ["cya_", "cyc_", "cyj_", "cyr_", "cyw_", "eyJ"];

/// The path in `variable`, which `scripts/test` sets.
pub(crate) fn given(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable).map(PathBuf::from);
    let path = path.unwrap_or_else(|| {
        panic!("{variable} is not set; run ./scripts/test, which installs and names everything")
    });
    assert!(path.exists(), "{variable} names `{}`, which does not exist", path.display());
    path
}

/// The folder with `canyon`, `canyon-runner` and `canyon-agent`.
pub(crate) fn built() -> PathBuf {
    let folder = given("CANYON_TEST_BIN_DIR");
    for name in ["canyon", "canyon-runner", "canyon-agent"] {
        let path = folder.join(name);
        assert!(
            path.exists(),
            "`{}` is missing; run `cargo build -p canyon-cli -p canyon-runner -p canyon-agent`",
            path.display()
        );
    }
    folder
}

/// A `PATH` on which OpenTofu comes first, then what every machine has.
pub(crate) fn search_path(first: Option<&Path>) -> OsString {
    let tofu = given("CANYON_TEST_TOFU");
    let tofu = tofu.parent().expect("a program lies in a folder").to_owned();
    let usual = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::join_paths(first.map(Path::to_owned).into_iter().chain([tofu]).chain(usual)).unwrap()
}

/// A command that starts the one which follows with one more open descriptor, as a careless parent does: `probe.sh`
/// looks whether a module has it.
pub(crate) const WITH_A_DESCRIPTOR: [&str; 4] =
    ["sh", "-c", "exec 9< /dev/null; exec \"$@\"", "sh"];

/// `name` on the search path, if it is there.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&search_path(None)).map(|folder| folder.join(name)).find(|p| p.is_file())
}

/// What `setpriv` is told so that root's programs have no more rights than those of another user. The kernel lets an
/// administrator look into every process (`CAP_SYS_PTRACE`, `CAP_PERFMON`, `CAP_DAC_OVERRIDE`).
pub(crate) fn of_a_user() -> &'static [&'static str] {
    let is_root = rustix::process::geteuid().is_root();
    if is_root { &["--bounding-set", "-all", "--inh-caps", "-all"] } else { &[] }
}

/// Writes an executable shell script.
pub(crate) fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A folder like [`built`], where `canyon-runner` is the script `text` instead.
pub(crate) fn with_runner(folder: &Path, text: &str) {
    let canyon = folder.join("canyon");
    // A link has the same inode, and so `canyon` finds the runner beside it, in this folder.
    if fs::hard_link(built().join("canyon"), &canyon).is_err() {
        fs::copy(built().join("canyon"), &canyon).unwrap();
    }
    script(&folder.join("canyon-runner"), text);
}

/// A script that ignores every request to stop, and makes the file `noted` once it does.
pub(crate) fn deaf(noted: &Path) -> String {
    format!("trap '' TERM INT; : >'{}'; exec sleep 300", noted.display())
}

/// Waits until what [`deaf`] gave ignores requests.
pub(crate) async fn until_deaf(noted: &Path) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !noted.exists() {
        assert!(Instant::now() < deadline, "no script has made {}", noted.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Nothing secret stands in what a program has said, from its first line to its last.
#[track_caller]
pub(crate) fn assert_no_secret(whose: &str, said: &str) {
    assert!(!said.is_empty(), "{whose} is empty: nothing was looked through");
    for line in said.lines() {
        for secret in SECRETS {
            // The message goes where logs go, and so has what leads to the secret alone.
            if let Some((before, _)) = line.split_once(secret) {
                panic!("`{secret}…` stands in {whose}, after: {before}");
            }
        }
    }
}
