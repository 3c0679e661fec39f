//! Certificate authorities that the agent trusts in addition to the system's.

use super::faults::Faults;
use super::layers::Layer;
use std::fmt;
use std::path::PathBuf;

/// The additional authorities, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorities {
    /// The path of a file.
    File(PathBuf),
    /// The PEM text itself, for platforms where a container cannot get a file, such as Fargate.
    Pem(String),
}

impl Authorities {
    /// The authorities in PEM.
    ///
    /// # Errors
    ///
    /// A text with the setting and the reason, when the file cannot be read.
    pub fn read(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::File(file) => {
                std::fs::read(file).map_err(|error| format!("{self} cannot be read: {error}"))
            }
            Self::Pem(pem) => Ok(pem.clone().into_bytes()),
        }
    }
}

impl fmt::Display for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => write!(f, "CANYON_CA_FILE `{}`", file.display()),
            Self::Pem(_) => f.write_str("CANYON_CA_PEM"),
        }
    }
}

/// Reads the settings `ca_file` and `ca_pem`.
pub(super) fn read(layer: &Layer, faults: &mut Faults) -> Option<Authorities> {
    match (layer.0.get("ca_file"), layer.0.get("ca_pem")) {
        (Some(file), Some(pem)) => {
            faults.add(&pem.origin, format!("contradicts {}: set only one of them", file.origin));
            None
        }
        (Some(file), None) => Some(Authorities::File(PathBuf::from(&file.value))),
        (None, pem) => pem.map(|pem| Authorities::Pem(pem.value.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The authorities from these variables, or the faults.
    fn given(variables: &[(&str, &str)]) -> Result<Option<Authorities>, String> {
        let mut faults = Faults::default();
        let owned = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let layer = Layer::of_environment(owned, &mut faults);
        let read = read(&layer, &mut faults);
        if faults.is_empty() { Ok(read) } else { Err(faults.to_string()) }
    }

    #[test]
    fn authorities_come_from_a_file_or_a_variable_but_not_from_both() {
        let (file, pem) = (("CANYON_CA_FILE", "/ca.pem"), ("CANYON_CA_PEM", "PEM"));
        assert_eq!(given(&[]), Ok(None));
        assert_eq!(given(&[file]), Ok(Some(Authorities::File("/ca.pem".into()))));
        assert_eq!(given(&[pem]), Ok(Some(Authorities::Pem("PEM".to_owned()))));
        let both = given(&[file, pem]).unwrap_err();
        assert_eq!(both, "CANYON_CA_PEM contradicts CANYON_CA_FILE: set only one of them");
    }

    #[test]
    fn authorities_that_cannot_be_used_are_reported_with_their_setting() {
        for (given, expected) in [
            (
                Authorities::File("/nowhere/ca.pem".into()),
                "CANYON_CA_FILE `/nowhere/ca.pem` cannot be read",
            ),
            (Authorities::Pem("text".to_owned()), "CANYON_CA_PEM has no certificates"),
        ] {
            let refused = crate::connection::http_client(Some(&given)).unwrap_err();
            assert!(refused.starts_with(expected), "{refused}");
        }
    }
}
