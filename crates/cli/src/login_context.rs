//! Which context a sign-in writes.

use crate::config_file::ConfigFile;
use crate::context::Context;
use crate::context_name::ContextName;
use crate::error::CliError;
use std::path::Path;
use url::{Position, Url};

/// Stores the result of a sign-in to `org` at `url`, makes its context the current one, and returns that context's name.
/// The context is `named`; else the one of this server and organization, if there is one; else a new one.
pub(crate) fn store(
    path: &Path,
    named: Option<ContextName>,
    url: &Url,
    org: &str,
    credential: Context,
) -> Result<ContextName, CliError> {
    ConfigFile::change(path, |file| {
        let name = named.unwrap_or_else(|| choose(file, url, org));
        let (url, org) = (Some(url.to_string()), Some(org.to_owned()));
        file.contexts.insert(name.clone(), Context { url, org, ..credential });
        file.current = Some(name.clone());
        Ok(name)
    })
}

fn choose(file: &ConfigFile, url: &Url, org: &str) -> ContextName {
    let is_same = |name: &ContextName| file.contexts.get(name).is_some_and(|c| is_of(c, url, org));
    // Of several for the same, the current one.
    let known = file.current.iter().chain(file.contexts.keys()).find(|name| is_same(name));
    known.cloned().unwrap_or_else(|| new_name(file, url, org))
}

/// Whether `context` is of this server and organization.
fn is_of(context: &Context, url: &Url, org: &str) -> bool {
    let same_server = context.url.as_deref().is_some_and(|known| is_same_server(known, url));
    same_server && context.org.as_deref() == Some(org)
}

/// Whether the stored address `known` is `url`.
pub(crate) fn is_same_server(known: &str, url: &Url) -> bool {
    Url::parse(known).is_ok_and(|known| known == *url)
}

/// `ORG`; if that name is taken, `ORG@HOST`, with a number if that is taken too.
fn new_name(file: &ConfigFile, url: &Url, org: &str) -> ContextName {
    let with_host = format!("{org}@{}", &url[Position::BeforeHost..Position::AfterPort]);
    let numbered = (2_u32..).map(|number| format!("{with_host}-{number}"));
    let texts = [org.to_owned(), with_host.clone()].into_iter().chain(numbered);
    let mut names = texts.map(|text| ContextName::like(&text));
    names.find(|name| !file.contexts.contains_key(name)).unwrap_or_else(ContextName::of_old_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged_in(path: &Path, named: Option<&str>, url: &str, org: &str) -> String {
        let named = named.map(|name| name.parse().unwrap());
        let url = Url::parse(url).unwrap();
        let token = Context { token: Some("t".into()), ..Context::default() };
        store(path, named, &url, org, token).unwrap().to_string()
    }

    #[test]
    fn a_sign_in_writes_the_context_of_its_server_and_organization_or_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("canyon/config.yaml");
        for (named, url, org, name) in [
            (None, "https://a.example", "acme", "acme"),
            (None, "https://b.example:8443", "acme", "acme@b.example:8443"),
            (None, "https://a.example/", "acme", "acme"),
            (None, "https://a.example", "beta", "beta"),
            (None, "https://b.example:8443/x", "acme", "acme@b.example:8443-2"),
            (Some("prod"), "https://a.example", "acme", "prod"),
            // Two contexts have this server and organization: the current one is meant.
            (None, "https://a.example", "acme", "prod"),
            (Some("beta"), "https://c.example", "gamma", "beta"),
            (None, "http://[::1]:8080", "acme", "acme@-::1-:8080"),
        ] {
            assert_eq!(logged_in(&path, named, url, org), name, "{url} {org}");
            assert_eq!(ConfigFile::read(&path).unwrap().current.unwrap().as_str(), name);
        }
        let file = ConfigFile::read(&path).unwrap();
        assert_eq!(file.contexts.len(), 6);
        let beta = &file.contexts[&"beta".parse().unwrap()];
        assert_eq!(beta.url.as_deref(), Some("https://c.example/"));
    }
}
