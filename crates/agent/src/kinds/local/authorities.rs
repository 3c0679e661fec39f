//! The certificate authorities of local jobs: the machine's, and the agent's additional ones.
//!
//! The programs of a job read one file, `SSL_CERT_FILE`, instead of the machine's. So that file contains both.

use crate::kinds::KindError;
use crate::settings::authorities::Authorities;
use std::io;
use std::path::{Path, PathBuf};

/// The paths at which Linux distributions keep their authorities.
const OF_MACHINES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
const FILE: &str = "authorities.pem";

/// Writes a file in `state_dir` with the given authorities and the machine's. `variable` reads the environment.
///
/// # Errors
///
/// [`KindError`] when an authority's file cannot be read, or the new file cannot be written.
pub(super) fn with(
    given: &Authorities,
    state_dir: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<PathBuf, KindError> {
    let machines = match (variable("SSL_CERT_FILE"), variable("SSL_CERT_DIR")) {
        (Some(file), _) => Some(PathBuf::from(file)),
        // Jobs inherit the variable with the folder, which replaces the machine's file.
        (None, Some(_)) => None,
        (None, None) => OF_MACHINES.map(PathBuf::from).into_iter().find(|file| file.is_file()),
    };
    let mut authorities = given.read().map_err(KindError)?;
    if let Some(machines) = machines {
        authorities.push(b'\n');
        authorities.extend(read(&machines)?);
    }
    write(state_dir, &authorities).map_err(|error| {
        let folder = state_dir.display();
        KindError(format!("CANYON_AGENT_STATE_DIR: cannot write `{FILE}` in `{folder}`: {error}"))
    })
}

fn read(path: &Path) -> Result<Vec<u8>, KindError> {
    std::fs::read(path).map_err(|error| {
        KindError(format!("SSL_CERT_FILE `{}` cannot be read: {error}", path.display()))
    })
}

/// Replaces the file in one step, because jobs of an earlier process may be reading it.
fn write(state_dir: &Path, authorities: &[u8]) -> io::Result<PathBuf> {
    // An absolute path, because jobs have another working folder.
    let file = std::path::absolute(state_dir.join(FILE))?;
    let new = state_dir.join(format!("{FILE}.{}", std::process::id()));
    std::fs::write(&new, authorities)?;
    std::fs::rename(&new, &file)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_trusts_the_given_authorities_and_those_of_its_machine() {
        let folder = tempfile::tempdir().unwrap();
        let [own, machines] = ["own.pem", "machines.pem"].map(|name| folder.path().join(name));
        // Without a line break at the end, as some files are.
        std::fs::write(&own, "OWN").unwrap();
        std::fs::write(&machines, "MACHINE'S\n").unwrap();
        let with = |name: &'static str, value: &Path| {
            let value = value.to_str().unwrap().to_owned();
            let variable = move |wanted: &str| (wanted == name).then(|| value.clone());
            let own = Authorities::File(own.clone());
            with(&own, folder.path(), &variable).map(|file| std::fs::read_to_string(file).unwrap())
        };
        assert_eq!(with("SSL_CERT_FILE", &machines).unwrap(), "OWN\nMACHINE'S\n");
        assert_eq!(with("SSL_CERT_DIR", folder.path()).unwrap(), "OWN");
        assert!(with("NOTHING", folder.path()).unwrap().starts_with("OWN"));
        let missing = folder.path().join("missing.pem");
        let KindError(refused) = with("SSL_CERT_FILE", &missing).unwrap_err();
        assert!(refused.starts_with("SSL_CERT_FILE `"), "{refused}");
        let pem = Authorities::Pem("PEM".to_owned());
        let file = super::with(&pem, folder.path(), &|_| None).unwrap();
        assert!(std::fs::read_to_string(file).unwrap().starts_with("PEM"));
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            3,
            "no temporary file is left"
        );
    }
}
