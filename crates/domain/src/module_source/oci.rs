//! A module package in an OCI registry, as OpenTofu 1.10 and later read it
//! (<https://opentofu.org/docs/language/modules/sources/#oci-distribution-repositories>).

use super::{Digest, InvalidSource, is_authority, split_subdirectory};
use std::fmt;

/// The longest tag, in bytes (OCI distribution specification, "Pulling manifests").
const MAX_TAG: usize = 128;

/// A module package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OciSource {
    /// `<registry>/<repository>`.
    pub repository: String,
    /// The folder in it that holds the module.
    pub subdirectory: Option<String>,
    /// Which package. Default: the tag `latest`.
    pub reference: Option<OciReference>,
}

/// Which package of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OciReference {
    /// The one that has this tag now.
    Tag(String),
    /// The one whose manifest has this SHA-256.
    Digest(Digest),
}

impl OciSource {
    /// The digest that the source names.
    pub fn digest(&self) -> Option<&Digest> {
        match &self.reference {
            Some(OciReference::Digest(digest)) => Some(digest),
            Some(OciReference::Tag(_)) | None => None,
        }
    }
}

/// Parses what follows `oci://`.
pub(super) fn parse(text: &str) -> Result<OciSource, InvalidSource> {
    let (address, query) = text.split_once('?').map_or((text, None), |(a, q)| (a, Some(q)));
    let (location, subdirectory) = split_subdirectory(address)?;
    // OpenTofu would evaluate `${…}`.
    let plain =
        |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._~+=-".contains(&b));
    if !subdirectory.as_deref().is_none_or(plain) {
        return Err(InvalidSource(
            "the folder of an OCI address has letters, digits, `/`, `.`, `_`, `~`, `+`, `=` and `-` only",
        ));
    }
    let (registry, path) = location.split_once('/').unwrap_or((location, ""));
    if registry.contains('@') || !is_authority(registry) {
        return Err(InvalidSource("the OCI address has no valid host, or a user or password"));
    }
    if !path.split('/').all(is_segment) {
        return Err(InvalidSource(
            "the repository of an OCI address has lower case letters, digits, `.`, `_`, `-` and `/`; a tag is given as `?tag=`",
        ));
    }
    let reference = query.map(reference).transpose()?;
    Ok(OciSource { repository: location.to_owned(), subdirectory, reference })
}

fn is_segment(text: &str) -> bool {
    let is_end = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    let is_inner =
        |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'_' | b'-');
    is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(is_inner)
        && !text.contains("..")
}

/// `tag=<tag>` or `digest=sha256:<digest>`, and nothing else.
fn reference(query: &str) -> Result<OciReference, InvalidSource> {
    if let Some(digest) = query.strip_prefix("digest=sha256:") {
        return digest.parse().map(OciReference::Digest);
    }
    let Some(tag) = query.strip_prefix("tag=") else {
        return Err(InvalidSource(
            "an OCI address takes one query parameter, `tag` or `digest=sha256:…`",
        ));
    };
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    let is_tag = tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|b| is_word(b) || matches!(b, b'.' | b'-'))
        && tag.len() <= MAX_TAG;
    if is_tag {
        Ok(OciReference::Tag(tag.to_owned()))
    } else {
        Err(InvalidSource(
            "an OCI tag has at most 128 letters, digits, `.`, `_` and `-`, and begins with none of `.` and `-`",
        ))
    }
}

impl fmt::Display for OciSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "oci://{}", self.repository)?;
        if let Some(folder) = &self.subdirectory {
            write!(f, "//{folder}")?;
        }
        match &self.reference {
            Some(OciReference::Tag(tag)) => write!(f, "?tag={tag}"),
            Some(OciReference::Digest(digest)) => write!(f, "?digest=sha256:{digest}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::commit::Commit;
    use crate::module_source::ModuleSource;

    #[test]
    fn a_good_address_reads_back_as_it_was_written() {
        let digest = "ab".repeat(32);
        for text in [
            "oci://registry.example.com/acme/network".to_owned(),
            "oci://registry.example.com:5000/acme/network?tag=1.2.0".to_owned(),
            "oci://ghcr.io/acme/net-work_2//modules/eu?tag=_x-Y.z".to_owned(),
            format!("oci://127.0.0.1:5000/a//sub?digest=sha256:{digest}"),
        ] {
            let source: ModuleSource = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(source.to_string(), text);
        }
    }

    #[test]
    fn no_address_becomes_another_source_of_opentofu() {
        for text in [
            "oci://",
            "oci://registry.example.com",
            "oci://registry.example.com/",
            "oci://user:pass@registry.example.com/a",
            "oci://user@registry.example.com/a",
            "oci://-x/a",
            "oci://h/A",
            "oci://h/a/../b",
            "oci://h/a:1.2.0",
            "oci://h/a@sha256:ab",
            "oci://h/a?tag=",
            "oci://h/a?tag=-x",
            "oci://h/a?tag=a&digest=sha256:ab",
            "oci://h/a?digest=sha256:ab",
            "oci://h/a?archive=zip",
            "oci://h/a?tag=${path.root}",
            "oci://h/a//../x?tag=1",
            "oci://h/a//x y",
            "oci://h/a//${path.root}",
            "oci::https://h/a",
            "http://h/a",
        ] {
            assert!(text.parse::<ModuleSource>().is_err(), "{text:?}");
        }
        let long = format!("oci://h/a?tag={}", "a".repeat(129));
        assert!(long.parse::<ModuleSource>().is_err());
    }

    #[test]
    fn a_package_that_was_fetched_is_named_by_its_digest() {
        let digest: Commit = "0a".repeat(32).parse().unwrap();
        let at = |text: &str, of: &Commit| {
            let source: ModuleSource = text.parse().unwrap();
            source.at_commit(of).unwrap().to_string()
        };
        let expected = format!("oci://h/a//eu?digest=sha256:{digest}");
        assert_eq!(at("oci://h/a//eu?tag=1.2.0", &digest), expected);
        assert_eq!(at("oci://h/a//eu", &digest), expected);
        let short: Commit = "0a".repeat(20).parse().unwrap();
        assert_eq!(at("oci://h/a//eu", &short), "oci://h/a//eu");
    }
}
