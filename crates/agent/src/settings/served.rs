//! The organizations that the agent serves, and in each its runner and its service account.

use super::Reader;
use super::layers::Given;
use canyon_domain::ids::{OrgId, RunnerId, ServiceAccountId};

/// The most organizations of one agent: it keeps a session, and mostly an open request, for each.
const MAX_SERVED: usize = 16;

/// An organization that the agent serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The organization.
    pub org: OrgId,
    /// The runner to serve; `None` for the runners that select this agent by name or labels.
    pub runner: Option<RunnerId>,
    /// The service account to sign in as; `None` if the agent signs in with a key or a token.
    pub account: Option<ServiceAccountId>,
}

/// A part of a setting: an organization, and a name in it.
struct Path {
    org: String,
    name: Option<String>,
    origin: String,
}

impl Reader<'_> {
    /// The organizations; none after at least one fault.
    pub(super) fn served(&mut self) -> Vec<Served> {
        if self.get("org").is_none() && self.get("runner_path").is_none() {
            // The account's path would suffice, but an agent whose runner was forgotten would wait for work in vain.
            let reason = "set the runner to serve: ORG/RUNNER, or ORG to serve the runners that select this agent";
            self.faults.missing("CANYON_RUNNER_PATH", reason);
        }
        let runners = self.paths("runner_path");
        let accounts = self.paths("service_account_path");
        for account in accounts.iter().filter(|account| account.name.is_none()) {
            self.faults.add(&account.origin, "is not ORG/ACCOUNT");
        }
        match (&*runners, self.get("org").cloned()) {
            ([], None) => Vec::new(),
            ([], Some(Given { value, origin })) => {
                self.fit(&[Path { org: value, name: None, origin }], &accounts)
            }
            ([first, _, ..], Some(given)) => {
                let reason =
                    format!("names several runners, but {} names one organization", given.origin);
                self.faults.add(&first.origin, reason);
                Vec::new()
            }
            (paths, _) => self.fit(paths, &accounts),
        }
    }

    /// The organizations of `paths`, each with its account.
    fn fit(&mut self, paths: &[Path], accounts: &[Path]) -> Vec<Served> {
        for paths in [paths, accounts] {
            for (index, path) in paths.iter().enumerate() {
                if paths.iter().take(index).any(|before| before.org == path.org) {
                    let reason = format!(
                        "names organization `{}` twice; an agent has one session in each",
                        path.org
                    );
                    self.faults.add(&path.origin, reason);
                }
            }
        }
        if let [.., last] = paths
            && paths.len() > MAX_SERVED
        {
            self.faults.add(&last.origin, format!("names more than {MAX_SERVED} organizations"));
        }
        for account in accounts {
            if paths.iter().all(|path| path.org != account.org) {
                let origin = paths.first().map(|path| path.origin.as_str()).unwrap_or_default();
                let reason = format!("names another organization than {origin}");
                self.faults.add(&account.origin, reason);
            }
        }
        paths.iter().filter_map(|path| self.fitted(path, accounts)).collect()
    }

    fn fitted(&mut self, path: &Path, accounts: &[Path]) -> Option<Served> {
        let account = accounts.iter().find(|account| account.org == path.org);
        if let (None, [first, ..]) = (account, accounts) {
            let reason = format!("names no account of organization `{}`", path.org);
            self.faults.add(&first.origin, reason);
        }
        let org = self.id(Some(&path.org), &path.origin);
        let runner = self.id(path.name.as_deref(), &path.origin);
        let account = account.and_then(|account| self.id(account.name.as_deref(), &account.origin));
        Some(Served { org: org?, runner, account })
    }

    /// The organizations and names of a setting with paths, separated by commas.
    fn paths(&mut self, key: &str) -> Vec<Path> {
        let Some(Given { value, origin }) = self.get(key).cloned() else { return Vec::new() };
        value.split(',').filter_map(|path| self.path(path.trim(), &origin)).collect()
    }

    fn path(&mut self, path: &str, origin: &str) -> Option<Path> {
        let parts: Vec<_> = path.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            self.faults.add(origin, "is not ORG/NAME");
            return None;
        }
        let org = self.get("org").map(|given| given.value.clone());
        let (org, name) = match (&*parts, org) {
            ([only], Some(org)) if *only == org => (org, None),
            // With an organization set, the parts before the name are the organization or groups.
            ([.., name], Some(org)) => (org, Some(*name)),
            ([org], None) => ((*org).to_owned(), None),
            ([org, .., name], None) => ((*org).to_owned(), Some(*name)),
            ([], _) => return None,
        };
        Some(Path { org, name: name.map(str::to_owned), origin: origin.to_owned() })
    }
}

#[cfg(test)]
mod tests;
