//! Where kept variables are used: the environments that get one, and the variables that refer to a secret store.

use super::App;
use crate::app::error::AppError;
use canyon_domain::ids::OrgUuid;
use canyon_domain::inventory::Environment;
use canyon_domain::principal::{Principal, Role};
use canyon_domain::secret_reference::SecretStoreId;
use canyon_domain::variable_scope::{VariableScope, VariableTarget};
use canyon_domain::variables::uses::VariableUse;
use canyon_domain::variables::{VariableKey, VariableSet, VariableValue};
use canyon_store::page::{Page, PageRequest};
use std::collections::{BTreeMap, BTreeSet};

/// The most pages that one request reads to find something.
const MAX_READS: u32 = 5;
/// Number of environments whose sets are read at once. A set has at most 256 KiB.
const READ_AT_ONCE: usize = 20;
/// The most sets of one read.
const MAX_SETS: usize = 100;

/// Whether the set of a scope has the variable, as far as it was read.
type Known = BTreeMap<VariableScope, bool>;

/// The run of an environment for which the use of a variable of `scope` is determined: on the runner of the scope if
/// the environment is linked to it, also as a fallback; else on the environment's own.
fn run_of<'a>(
    environment: &'a Environment,
    scope: Option<&'a VariableScope>,
) -> VariableTarget<'a> {
    match scope {
        Some(VariableScope::Runner(id)) if environment.runner_ids().any(|linked| linked == id) => {
            environment.on(id)
        }
        _ => environment.on(&environment.runner_id),
    }
}

impl App {
    /// A page of the environments that `by` may read and whose jobs get the variable `key`; with `scope` only those that
    /// the variable of this scope is for. Pages without any are skipped, but only [`MAX_READS`] of them: then the answer is
    /// empty and has the cursor of the next page.
    pub(crate) async fn variable_uses(
        &self,
        by: &Principal,
        key: &VariableKey,
        scope: Option<&VariableScope>,
        mut request: PageRequest,
    ) -> Result<Page<VariableUse>, AppError> {
        let wanted = |found: &Environment| {
            by.role_in(found.into()) >= Role::Viewer
                && scope.is_none_or(|scope| scope.covers(run_of(found, Some(scope))))
        };
        let project = match scope {
            Some(VariableScope::Environment(project, _)) => Some(project),
            // A project may be a group of others too.
            Some(
                VariableScope::Runner(_)
                | VariableScope::Organization
                | VariableScope::Project(_)
                | VariableScope::EnvType(_),
            )
            | None => None,
        };
        let mut known = Known::new();
        let mut reads = 0;
        loop {
            reads += 1;
            let page = self.table.environments(by.org, project, &request, wanted).await?;
            let mut items = self.uses_among(by.org, key, scope, &page.items, &mut known).await?;
            items.retain(|item| scope.is_none_or(|scope| item.is_offered_by(scope)));
            if !items.is_empty() || page.next.is_none() || reads == MAX_READS {
                // The caller may read every environment that the cursor names, also one that does not get the variable.
                return Ok(Page { items, next: page.next });
            }
            request.after = page.next;
        }
    }

    /// Those of `environments` that get the variable. Reads the sets that are not known yet.
    async fn uses_among(
        &self,
        org: OrgUuid,
        key: &VariableKey,
        scope: Option<&VariableScope>,
        environments: &[Environment],
        known: &mut Known,
    ) -> Result<Vec<VariableUse>, AppError> {
        let mut uses = Vec::new();
        for part in environments.chunks(READ_AT_ONCE) {
            let runs = || part.iter().map(|environment| run_of(environment, scope));
            let scopes = runs().flat_map(VariableScope::covering);
            let unknown: BTreeSet<_> = scopes.filter(|scope| !known.contains_key(scope)).collect();
            let unknown: Vec<_> = unknown.into_iter().collect();
            for scopes in unknown.chunks(MAX_SETS) {
                known.extend(scopes.iter().map(|scope| (scope.clone(), false)));
                for VariableSet { scope, variables, .. } in
                    self.table.variable_sets_of(org, scopes).await?
                {
                    known.insert(scope, variables.contains_key(key));
                }
            }
            let has_it = |scope: &VariableScope| known.get(scope).copied().unwrap_or(false);
            uses.extend(runs().filter_map(|run| VariableUse::of(run, has_it)));
        }
        Ok(uses)
    }

    /// A page of the sets that `by` may read and that have a reference to the secret store, with these variables alone.
    /// Pages without any are skipped, but only [`MAX_READS`] of them.
    pub(crate) async fn variable_sets_with_store(
        &self,
        by: &Principal,
        store: &SecretStoreId,
        mut request: PageRequest,
    ) -> Result<Page<VariableSet>, AppError> {
        let mut reads = 0;
        loop {
            reads += 1;
            let mut page = self.variable_sets(by, &request).await?;
            page.items.retain_mut(|set| {
                set.variables.retain(|_, variable| match &variable.value {
                    VariableValue::Reference(reference) => reference.store == *store,
                    VariableValue::Plain(_) | VariableValue::Sealed(_) => false,
                });
                !set.variables.is_empty()
            });
            if !page.items.is_empty() || page.next.is_none() || reads == MAX_READS {
                return Ok(page);
            }
            request.after = page.next;
        }
    }
}
