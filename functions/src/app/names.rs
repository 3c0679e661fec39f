//! The names of the principals that records contain.

use super::App;
use canyon_domain::expiring_cache::ExpiringCache;
use canyon_domain::ids::{OrgUuid, PrincipalId};
use canyon_domain::principal::Principal;
use canyon_store::StoreError;
use jiff::SignedDuration;
use std::collections::HashMap;
use std::sync::Arc;

/// How long a name is remembered. Names of people may change.
const LIFETIME: SignedDuration = SignedDuration::from_mins(1);
/// The most remembered names.
const MAX_REMEMBERED: usize = 10_000;

/// A cache of names, and of principals without one.
#[derive(Clone, Debug)]
pub struct RecentNames(Arc<ExpiringCache<(OrgUuid, PrincipalId), Option<String>>>);

impl Default for RecentNames {
    fn default() -> Self {
        Self(Arc::new(ExpiringCache::new(LIFETIME, MAX_REMEMBERED)))
    }
}

/// The names of some principals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(HashMap<PrincipalId, String>);

impl Names {
    /// The name of a principal, if it has one.
    pub(crate) fn of(&self, id: PrincipalId) -> Option<String> {
        self.0.get(&id).cloned()
    }
}

impl App {
    /// The names of `ids`, principals of the organization of `by`: those of one page of a list. At most one request of
    /// the table.
    pub(crate) async fn names(
        &self,
        by: &Principal,
        ids: impl IntoIterator<Item = PrincipalId>,
    ) -> Result<Names, StoreError> {
        let now = self.now();
        let (mut names, mut unknown) = (Names::default(), Vec::new());
        // The principal of all zeros is Canyon itself.
        for id in ids.into_iter().filter(|id| !id.0.is_nil()) {
            match self.names.0.get(&(by.org, id), now) {
                Some(name) => names.0.extend(name.map(|name| (id, name))),
                None if unknown.contains(&id) => {}
                None => unknown.push(id),
            }
        }
        if unknown.is_empty() {
            return Ok(names);
        }
        let read = self.table.known_principals(by.org, &unknown).await?;
        names.0.extend(read.into_iter().map(|known| (known.id, known.name)));
        for id in unknown {
            self.names.0.insert((by.org, id), names.of(id), now);
        }
        Ok(names)
    }
}
