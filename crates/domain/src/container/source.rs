//! The source of a container job: a git repository that the program finds in its shared directory.

use super::secret::JobSecret;
use super::text;
use crate::module_source::{GitSource, InvalidSource, ModuleSource};
use crate::runner::fields::Fields;
use crate::runner::shape::Shape;
use serde::{Deserialize, Serialize};

const URL: Shape = text("an address that starts with https://, without `?`", 1024, |url| {
    url.starts_with("https://") && !url.contains('?')
});
const REFERENCE: Shape = text("a branch, tag or commit", 255, |_| true);
const FOLDER: Shape = text(
    "a path below the shared directory, without `.`, `..`, `.git` or empty parts",
    1024,
    |path| {
        let is_plain = |part: &str| !matches!(part, "" | "." | ".." | ".git");
        path.split('/').all(is_plain) && !path.contains('\0')
    },
);
const USERNAME: Shape = text("text without `:` and control characters", 255, |name| {
    !name.is_empty() && !name.contains(|c: char| c == ':' || c.is_control())
});

/// A git repository that the runner checks out before the program starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSource {
    /// Its address, with https. The job's git credentials apply to it.
    pub url: String,
    /// A branch, tag or commit. Default: the repository's default branch.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The folder below the shared directory that it is checked out to. Default: the shared directory itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The user name that goes with `password`. Default: `git`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// A password or token, in place of the job's git credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<JobSecret>,
}

impl JobSource {
    pub(super) fn read(fields: &mut Fields) -> Self {
        let read = Self {
            url: fields.required_text("url", &URL),
            reference: fields.text("ref", &REFERENCE),
            path: fields.text("path", &FOLDER),
            username: fields.text("username", &USERNAME),
            password: fields
                .take("password")
                .and_then(|given| JobSecret::parse(given, "password", fields)),
        };
        if !fields.is_faulty("url")
            && !fields.is_faulty("ref")
            && let Err(error) = read.repository()
        {
            let is_of_url = Self { reference: None, ..read.clone() }.repository().is_err();
            fields.fault(if is_of_url { "url" } else { "ref" }, format!("is refused: {error}"));
        }
        if read.username.is_some() && read.password.is_none() && !fields.is_faulty("password") {
            fields.fault("username", "goes only with `password`");
        }
        read
    }

    /// The repository, as modules name one.
    ///
    /// # Errors
    ///
    /// If git must not get this address or this ref.
    pub fn repository(&self) -> Result<GitSource, InvalidSource> {
        let (url, reference) = (&self.url, self.reference.as_deref());
        let reference = reference.map(|name| format!("?ref={name}")).unwrap_or_default();
        let ModuleSource::Git(source) = format!("git::{url}{reference}").parse()? else {
            // What starts with `git::` is parsed as nothing else.
            return Ok(GitSource { url: url.clone(), subdirectory: None, reference: None });
        };
        match source.subdirectory {
            None => Ok(source),
            Some(_) => Err(InvalidSource::FOLDER),
        }
    }

    /// The name of the user who reads it with `password`.
    pub fn username(&self) -> &str {
        self.username.as_deref().unwrap_or("git")
    }
}
