//! The source of a module: an uploaded archive, a git repository, a package in an OCI registry, or the request itself.
//!
//! The text reaches `git` in the job, so it is parsed here and only validated parts are used. Options in a
//! ref or an address have led to code execution elsewhere (Tekton CVE-2026-40938, go-getter CVE-2024-3817).
//! So an address and a ref never start with `-` and have no white space, and the address has one of the
//! listed schemes.
//!
//! ```
//! use canyon_domain::module_source::ModuleSource;
//!
//! let source: ModuleSource = "git::https://git.example.com/net/vpc.git//modules/eu?ref=v1.2".parse()?;
//! let ModuleSource::Git(git) = source else { unreachable!() };
//! assert_eq!(git.url, "https://git.example.com/net/vpc.git");
//! assert_eq!(git.subdirectory.as_deref(), Some("modules/eu"));
//! assert_eq!(git.reference.as_deref(), Some("v1.2"));
//! # Ok::<(), canyon_domain::module_source::InvalidSource>(())
//! ```

mod oci;

use crate::commit::Commit;
pub use oci::{OciReference, OciSource};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The source of a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ModuleSource {
    /// `inline`: the request carries the text of `main.tf`.
    Inline,
    /// `sha256:<digest>[//subdirectory]`: a gzipped tar that was uploaded before.
    Archive {
        /// SHA-256 of the archive.
        digest: Digest,
        /// The folder in it that contains the module.
        subdirectory: Option<String>,
    },
    /// `git::<url>[//subdirectory][?ref=<ref>]`.
    Git(GitSource),
    /// `oci://<registry>/<repository>[//subdirectory][?tag=<tag>|?digest=sha256:<digest>]`.
    Oci(OciSource),
}

/// A module in a git repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitSource {
    /// The repository; `https`, `ssh` or `file`, without a password.
    pub url: String,
    /// The folder in it that holds the module.
    pub subdirectory: Option<String>,
    /// A branch, tag or commit. Default: the default branch.
    pub reference: Option<String>,
}

impl GitSource {
    /// Whether the repository is on the machine of the job, which only a local runner may read.
    pub fn is_local(&self) -> bool {
        self.url.starts_with("file://")
    }
}

impl ModuleSource {
    /// The same source at `commit`, which a run of it has fetched: of a package, the digest of its manifest. `None` if the
    /// text would be too long. Archives and texts never change, and stay as they are.
    pub fn at_commit(&self, commit: &Commit) -> Option<Self> {
        let pinned = match self {
            Self::Git(git) => {
                Self::Git(GitSource { reference: Some(commit.to_string()), ..git.clone() })
            }
            Self::Oci(oci) => {
                let Ok(digest) = commit.as_str().parse() else { return Some(self.clone()) };
                let reference = Some(OciReference::Digest(digest));
                Self::Oci(OciSource { reference, ..oci.clone() })
            }
            Self::Inline | Self::Archive { .. } => return Some(self.clone()),
        };
        (pinned.to_string().len() <= MAX_BYTES).then_some(pinned)
    }
}

/// Maximum length of a source, in bytes.
const MAX_BYTES: usize = 2_000;

/// A SHA-256 in 64 lower case hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// The digest with these bytes.
    pub fn of_hash(bytes: [u8; 32]) -> Self {
        Self(hex::encode(bytes))
    }

    /// The 64 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Digest {
    type Err = InvalidSource;
    fn from_str(text: &str) -> Result<Self, InvalidSource> {
        let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if text.len() == 64 && text.bytes().all(hex) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidSource("a digest is 64 lower case hexadecimal digits"))
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = InvalidSource;
    fn try_from(text: String) -> Result<Self, InvalidSource> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.0
    }
}

/// Why a text is not a module source. The message does not repeat the text, which may contain a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSource(&'static str);

impl InvalidSource {
    /// The address names a folder in its repository, where that is not possible.
    pub const FOLDER: Self = Self("a folder after `//` is not possible here");
}

const FORMS: InvalidSource = InvalidSource(
    "use `inline`, `sha256:<digest>[//folder]`, `git::<https|ssh|file>://...[//folder][?ref=<ref>]` or \
     `oci://<registry>/<repository>[//folder][?tag=<tag>]`",
);

impl FromStr for ModuleSource {
    type Err = InvalidSource;

    fn from_str(text: &str) -> Result<Self, InvalidSource> {
        if text.len() > MAX_BYTES {
            return Err(InvalidSource("longer than 2,000 bytes"));
        }
        if text == "inline" {
            return Ok(Self::Inline);
        }
        if let Some(rest) = text.strip_prefix("sha256:") {
            let (digest, subdirectory) = split_subdirectory(rest)?;
            return Ok(Self::Archive { digest: digest.parse()?, subdirectory });
        }
        if let Some(rest) = text.strip_prefix("oci://") {
            return oci::parse(rest).map(Self::Oci);
        }
        text.strip_prefix("git::").ok_or(FORMS).and_then(git).map(Self::Git)
    }
}

fn git(text: &str) -> Result<GitSource, InvalidSource> {
    if !text.bytes().all(|b| b.is_ascii_graphic()) || text.contains('\\') {
        return Err(InvalidSource(
            "a git address has printable ASCII characters only, and no backslash",
        ));
    }
    let (address, query) = text.split_once('?').map_or((text, None), |(a, q)| (a, Some(q)));
    let reference = query.map(reference).transpose()?;
    let (scheme, rest) = address.split_once("://").ok_or(FORMS)?;
    let (location, subdirectory) = split_subdirectory(rest)?;
    let (authority, path) = location.split_once('/').unwrap_or((location, ""));
    match scheme {
        "https" if authority.contains('@') => {
            return Err(InvalidSource(
                "an https git address must not contain a user or password; give the job a git credential",
            ));
        }
        "https" | "ssh" if is_authority(authority) => {}
        "file" if authority.is_empty() => {}
        "https" | "ssh" | "file" => return Err(InvalidSource("the git address has no valid host")),
        _ => return Err(InvalidSource("git sources are fetched over https, ssh or file only")),
    }
    let ordinary =
        |part: &str| !part.is_empty() && part != ".." && part != "." && !part.starts_with('-');
    if path.is_empty() || !path.split('/').all(ordinary) {
        return Err(InvalidSource(
            "the git address has no path, or one with `..` or a leading `-`",
        ));
    }
    Ok(GitSource { url: format!("{scheme}://{location}"), subdirectory, reference })
}

/// `[user@]host[:port]`.
fn is_authority(text: &str) -> bool {
    let (user, host) = text.split_once('@').map_or((None, text), |(u, h)| (Some(u), h));
    let (name, port) = host.split_once(':').map_or((host, None), |(h, p)| (h, Some(p)));
    let is_name = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
    };
    user.is_none_or(is_name) && is_name(name) && port.is_none_or(|p| p.parse::<u16>().is_ok())
}

/// `ref=<ref>`, and nothing else.
fn reference(query: &str) -> Result<String, InvalidSource> {
    let text = query
        .strip_prefix("ref=")
        .ok_or(InvalidSource("a git address takes one query parameter, `ref`"))?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'/' | b'-');
    let good = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.len() <= 255
        && text.bytes().all(plain)
        && !text.contains("..");
    if good {
        Ok(text.to_owned())
    } else {
        Err(InvalidSource(
            "a git ref starts with a letter or digit and has letters, digits, `.`, `_`, `/`, `-`, but no `..`",
        ))
    }
}

/// Splits `a//b` into `a` and the folder `b`, which must stay inside.
fn split_subdirectory(text: &str) -> Result<(&str, Option<String>), InvalidSource> {
    let Some((left, right)) = text.split_once("//") else { return Ok((text, None)) };
    let ordinary = |part: &str| {
        !matches!(part, "" | "." | "..") && !part.starts_with('-') && !part.contains('\0')
    };
    if right.split('/').all(ordinary) {
        Ok((left, Some(right.to_owned())))
    } else {
        Err(InvalidSource("the folder after `//` must be inside the module's source"))
    }
}

impl fmt::Display for ModuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let folder = |folder: &Option<String>| {
            folder.as_ref().map_or_else(String::new, |folder| format!("//{folder}"))
        };
        match self {
            Self::Inline => f.write_str("inline"),
            Self::Archive { digest, subdirectory } => {
                write!(f, "sha256:{digest}{}", folder(subdirectory))
            }
            Self::Git(git) => {
                write!(f, "git::{}{}", git.url, folder(&git.subdirectory))?;
                git.reference.as_ref().map_or(Ok(()), |r| write!(f, "?ref={r}"))
            }
            Self::Oci(oci) => oci.fmt(f),
        }
    }
}

impl TryFrom<String> for ModuleSource {
    type Error = InvalidSource;
    fn try_from(text: String) -> Result<Self, InvalidSource> {
        text.parse()
    }
}

impl From<ModuleSource> for String {
    fn from(source: ModuleSource) -> String {
        source.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_good_source_reads_back_as_it_was_written() {
        let digest = "ab".repeat(32);
        for text in [
            "inline".to_owned(),
            format!("sha256:{digest}"),
            format!("sha256:{digest}//net/vpc"),
            "git::https://git.example.com:8443/net/vpc.git".to_owned(),
            "git::ssh://git@git.example.com/net/vpc.git//eu?ref=feature/x".to_owned(),
            "git::file:///srv/repo.git?ref=0a1b2c".to_owned(),
        ] {
            let source: ModuleSource = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(source.to_string(), text);
        }
    }

    #[test]
    fn a_source_has_at_most_2_000_bytes() {
        let of = |bytes: usize| {
            format!("git::https://h/{}", "a".repeat(bytes - "git::https://h/".len()))
        };
        assert!(of(2_000).parse::<ModuleSource>().is_ok());
        for bytes in [2_001, 2_002] {
            let error = of(bytes).parse::<ModuleSource>().unwrap_err();
            assert_eq!(error.to_string(), "longer than 2,000 bytes");
        }
    }

    #[test]
    fn a_repository_at_a_commit_keeps_its_address_and_folder_and_other_sources_stay() {
        let commit: Commit = "0a".repeat(20).parse().unwrap();
        let at = |text: &str| {
            let source: ModuleSource = text.parse().unwrap();
            source.at_commit(&commit).map(|source| source.to_string())
        };
        let expected = format!("git::ssh://git@h/vpc.git//eu?ref={commit}");
        assert_eq!(at("git::ssh://git@h/vpc.git//eu?ref=main").unwrap(), expected);
        assert_eq!(at("git::ssh://git@h/vpc.git//eu").unwrap(), expected);
        assert_eq!(at("inline").unwrap(), "inline");
        assert_eq!(at(&format!("git::https://h/{}", "a".repeat(1_980))), None);
    }

    #[test]
    fn no_source_becomes_an_option_another_program_or_a_path_outside() {
        for text in [
            "git::https://h/r.git?ref=--upload-pack=touch",
            "git::https://h/r.git?ref=-x",
            "git::https://h/r.git?ref=a..b",
            "git::https://h/r.git?ref=a&depth=1",
            "git::https://h/r.git?depth=1",
            "git::ext::sh -c touch% /canary",
            "git::ext://sh",
            "git::--upload-pack=x",
            "git::https://user:pw@h/r.git",
            "git::https://-oProxyCommand=x/r.git",
            "git::ssh://-oProxyCommand=x/r.git",
            "git::ssh://git@-x/r.git",
            "git::https://h/../../etc",
            "git::https://h/r.git//../x",
            "git::https://h/r.git///etc",
            "git::file://host/r.git",
            "git::https://h/r .git",
            "git::https://h/r\n.git",
            "git::http://h/r.git",
            "https://h/r.git",
            "./local",
            "sha256:abc",
            "",
        ] {
            assert!(text.parse::<ModuleSource>().is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_accepted_source_has_safe_parts(text in "git::(https|ssh|file|ext)://[-a-z@:./?=#%~ ]{0,40}") {
            if let Ok(ModuleSource::Git(git)) = text.parse() {
                prop_assert!(!git.url.contains(' ') && !git.url.split('/').any(|p| p == "..") && !git.url.contains("/-"));
                prop_assert!(git.reference.is_none_or(|r| !r.starts_with('-')));
                prop_assert!(git.subdirectory.is_none_or(|d| !d.split('/').any(|p| p == "..")));
            }
        }
    }
}
