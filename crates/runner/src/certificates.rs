//! The certificate authorities that the runner trusts in an image that has none.
//!
//! A container job runs in an image of its author. If that has no certificate authorities, the runner uses the file
//! beside its own program, and its programs do not inherit that.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The variable with the file of the trusted certificate authorities.
pub const CERTIFICATES: &str = "SSL_CERT_FILE";
/// The same for a folder.
const CERTIFICATES_FOLDER: &str = "SSL_CERT_DIR";
/// What the job's own [`CERTIFICATES`] is, if the runner has replaced it for itself; empty if it was not set.
pub const CERTIFICATES_OF_JOB: &str = "CANYON_CERTIFICATES_OF_JOB";
/// The file beside the runner's program.
const OWN: &str = "ca-certificates.crt";

/// The variables to set for the runner itself, so that it trusts the authorities beside its `program`. None, if the machine
/// has authorities, or the program has no such file.
pub fn replacements(program: &Path) -> Vec<(&'static str, OsString)> {
    let own = program.with_file_name(OWN);
    let (file, folder) = (std::env::var_os(CERTIFICATES), std::env::var_os(CERTIFICATES_FOLDER));
    let has_any = match (&file, &folder) {
        // As the TLS of the runner reads them: a variable replaces the files of the machine even if it is wrong.
        (None, None) => {
            let found = openssl_probe::probe();
            found.cert_file.is_some() || found.cert_dir.iter().any(|folder| has_files(folder))
        }
        (file, folders) => {
            file.as_deref().is_some_and(|file| Path::new(file).is_file())
                || folders.as_deref().is_some_and(any_has_files)
        }
    };
    if has_any || !own.is_file() {
        return Vec::new();
    }
    vec![(CERTIFICATES, own.into()), (CERTIFICATES_OF_JOB, file.unwrap_or_default())]
}

/// The file of the authorities that the runner itself trusts, if it is one file.
pub fn trusted_file() -> Option<OsString> {
    let given = std::env::var_os(CERTIFICATES);
    given.or_else(|| openssl_probe::probe().cert_file.map(OsString::from))
}

fn any_has_files(folders: &OsStr) -> bool {
    std::env::split_paths(folders).any(|folder: PathBuf| has_files(&folder))
}

fn has_files(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}
