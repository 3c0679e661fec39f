//! What identifies a source whatever its version is.

use crate::module_source::ModuleSource;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A source without its version: a repository or a registry with a folder. Archives and texts have no name, so all of them are
/// one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SourceId(String);

impl SourceId {
    /// That of `source`.
    pub fn of(source: &ModuleSource) -> Self {
        let (place, subdirectory) = match source {
            ModuleSource::Inline => ("inline", None),
            ModuleSource::Archive { subdirectory, .. } => ("archive", subdirectory.as_deref()),
            ModuleSource::Git(git) => (git.url.as_str(), git.subdirectory.as_deref()),
            ModuleSource::Oci(oci) => (oci.repository.as_str(), oci.subdirectory.as_deref()),
        };
        let digest = Sha256::digest(format!("{place}\n{}", subdirectory.unwrap_or_default()));
        Self(hex::encode(digest.get(..12).unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> SourceId {
        SourceId::of(&text.parse().unwrap())
    }

    #[test]
    fn a_source_is_the_same_whatever_its_version_is() {
        let digest = |digit: &str| format!("sha256:{}", digit.repeat(64));
        for (one, other, same) in [
            ("git::https://h/a?ref=v1", "git::https://h/a?ref=v2", true),
            ("git::https://h/a//net", "git::https://h/a//db", false),
            ("git::https://h/a", "git::https://h/b", false),
            ("oci://h/a?tag=1", "oci://h/a?tag=2", true),
            (&digest("a"), &digest("b"), true),
            ("inline", &digest("a"), false),
        ] {
            assert_eq!(source(one) == source(other), same, "{one} {other}");
        }
    }
}
