//! Where the real programs are, and the secrets that none of them may log.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Prefixes of secrets: Canyon's tokens of each kind (`canyon_identity::bearer`), and signed tokens of a key or an
/// issuer.
const SECRETS: [&str; 7] = ["cya_", "cyc_", "cyj_", "cyk_", "cyr_", "cyw_", "eyJ"];

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

/// A `PATH` with OpenTofu first, then the folders of every machine.
pub(crate) fn search_path(first: Option<&Path>) -> OsString {
    let tofu = given("CANYON_TEST_TOFU");
    let tofu = tofu.parent().expect("a program is in a folder").to_owned();
    let usual = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
    std::env::join_paths(first.map(Path::to_owned).into_iter().chain([tofu]).chain(usual)).unwrap()
}

/// A command that starts the following one with one more open descriptor, as a careless parent does: `probe.sh` checks
/// whether a module has it.
pub(crate) const WITH_A_DESCRIPTOR: [&str; 4] =
    ["sh", "-c", "exec 9< /dev/null; exec \"$@\"", "sh"];

/// `name` on the search path, if it is there.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&search_path(None)).map(|folder| folder.join(name)).find(|p| p.is_file())
}

/// Arguments of `setpriv` that leave root's programs no more rights than another user's. The kernel lets an
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
    // A hard link has the same inode, so `canyon` finds the runner beside it, in this folder.
    if fs::hard_link(built().join("canyon"), &canyon).is_err() {
        fs::copy(built().join("canyon"), &canyon).unwrap();
    }
    script(&folder.join("canyon-runner"), text);
}

/// A script that ignores every request to stop, and makes the file `noted` once it does.
pub(crate) fn ignoring_stop(noted: &Path) -> String {
    format!("trap '' TERM INT; : >'{}'; exec sleep 300", noted.display())
}

/// Waits until the script of [`ignoring_stop`] ignores requests to stop.
pub(crate) async fn until_ignoring_stop(noted: &Path) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !noted.exists() {
        assert!(Instant::now() < deadline, "no script has made {}", noted.display());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Asserts that a program's whole output holds no secret.
#[track_caller]
pub(crate) fn assert_no_secret(whose: &str, said: &str) {
    assert!(!said.is_empty(), "{whose} is empty: nothing was looked through");
    for line in said.lines() {
        for secret in SECRETS {
            // The message goes where logs go, so it holds only the text before the secret.
            if let Some((before, _)) = line.split_once(secret) {
                panic!("`{secret}…` stands in {whose}, after: {before}");
            }
        }
    }
}
