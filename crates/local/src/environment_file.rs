//! The file with the settings of a laptop's Canyon: shell assignments, to be sourced.

use crate::LocalError;
use secrecy::{ExposeSecret, SecretString};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

const TOKEN: &str = "export CANYON_TOKEN=";

/// The file's settings, except the token.
pub(crate) struct EnvironmentFile {
    pub(crate) url: String,
    pub(crate) org: String,
}

impl EnvironmentFile {
    /// Writes the file with mode 0600. Replaces the old file in one step, so that no shell sources an incomplete file.
    pub(crate) fn write(&self, path: &Path, token: &SecretString) -> Result<(), LocalError> {
        let draft = path.with_extension("new");
        let text = format!(
            "export CANYON_API_URL={}\nexport CANYON_ORG={}\n{TOKEN}{}\n",
            self.url,
            self.org,
            token.expose_secret()
        );
        let write = || -> std::io::Result<()> {
            // A draft of a process that was killed may have another mode.
            let _ = fs::remove_file(&draft);
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(text.as_bytes())?;
            fs::rename(&draft, path)
        };
        write().map_err(|source| LocalError::File { path: path.to_owned(), source })
    }

    /// The token in the file, if there is one.
    pub(crate) fn read_token(path: &Path) -> Option<SecretString> {
        let text = fs::read_to_string(path).ok()?;
        text.lines().find_map(|line| line.strip_prefix(TOKEN)).map(SecretString::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_file_is_for_its_owner_and_keeps_its_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("env");
        let file = EnvironmentFile { url: "http://127.0.0.1:1".into(), org: "local".into() };
        file.write(&path, &"cya_x".into()).unwrap();
        file.write(&path, &"cya_y".into()).unwrap();
        assert_eq!(EnvironmentFile::read_token(&path).unwrap().expose_secret(), "cya_y");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
