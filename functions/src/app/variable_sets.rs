//! The variables that an organization keeps: changes, and what applies to an environment.

use super::App;
use super::former_secrets::{former_secrets, is_same_secret, open, retire, sealed_variables};
use super::git_credentials;
use super::permissions::require;
use crate::app::error::AppError;
use canyon_domain::causes::Causes;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::git_credentials::JobGitCredential;
use canyon_domain::ids::{EnvId, EnvTypeId, OrgUuid, ProjectId};
use canyon_domain::json::Json;
use canyon_domain::principal::{Principal, Role};
use canyon_domain::run_context;
use canyon_domain::scoped_role::Target;
use canyon_domain::secret_reference::{SecretReference, SecretStoreId};
use canyon_domain::secret_store::StoreConfiguration;
use canyon_domain::variable_scope::{VariableScope, VariableTarget};
use canyon_domain::variables::edit::{VariableEdit, VariableEdits, secret_fault};
use canyon_domain::variables::effective::{EffectiveVariable, effective};
use canyon_domain::variables::job::{JobVariable, StoredVariable};
use canyon_domain::variables::secret_json::SecretJson;
use canyon_domain::variables::{Variable, VariableKey, VariableSet, VariableValue};
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::Saved;
use canyon_store::page::{Page, PageRequest};
use canyon_store::variable_sets::ScopeOwner;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

/// What the object that a scope names contributes to its set.
pub(super) struct Owner {
    /// The object; `None` for the organization and for groups of projects, which are no objects.
    pub(super) stored: Option<ScopeOwner>,
    env_type: Option<EnvTypeId>,
}

/// What the organization keeps for a job.
#[derive(Default)]
pub(crate) struct KeptForJob {
    /// The variables with their values.
    pub(crate) variables: Vec<JobVariable>,
    /// Those whose values the runner reads in stores.
    pub(crate) stored_variables: Vec<StoredVariable>,
    /// Secrets that the state may have from earlier runs.
    pub(crate) former_secrets: Vec<SecretJson>,
    /// The credentials for git repositories.
    pub(crate) git_credentials: Vec<JobGitCredential>,
}

impl App {
    /// The variables of a scope, without any if none were set.
    pub(crate) async fn variable_set(
        &self,
        by: &Principal,
        scope: &VariableScope,
    ) -> Result<VariableSet, AppError> {
        let owner = self.owner_of_variables(by, Role::Viewer, scope).await?;
        let found = self.table.variable_set(by.org, scope).await?;
        Ok(found.unwrap_or_else(|| self.empty_set(scope, &owner)))
    }

    /// A page of the sets that `by` may read.
    pub(crate) async fn variable_sets(
        &self,
        by: &Principal,
        page: &PageRequest,
    ) -> Result<Page<VariableSet>, AppError> {
        let may_read = |scope: &VariableScope, env_type: Option<&EnvTypeId>| {
            let target = match scope {
                VariableScope::Runner(_)
                | VariableScope::Organization
                | VariableScope::EnvType(_) => Target::Organization,
                VariableScope::Project(id) => Target::Project(id),
                VariableScope::Environment(project, env) => {
                    Target::Environment { project, env, env_type }
                }
            };
            by.role_in(target) >= Role::Viewer
        };
        Ok(self.table.variable_sets(by.org, page, may_read).await?)
    }

    /// Changes variables of a scope.
    pub(crate) async fn update_variable_set(
        &self,
        by: &Principal,
        scope: &VariableScope,
        edits: &VariableEdits,
    ) -> Result<VariableSet, AppError> {
        for _ in 0..MAX_TRIES {
            let owner = self.owner_of_variables(by, Role::Admin, scope).await?;
            let found = self.table.variable_set(by.org, scope).await?;
            let before = found.unwrap_or_else(|| self.empty_set(scope, &owner));
            let mut set = before.clone();
            let mut details = Vec::new();
            self.apply(by, &mut set, edits, &mut details).await?;
            if set.variables == before.variables {
                return Ok(before);
            }
            if let Some(excess) = set.excess() {
                return Err(AppError::conflict(format!("the set `{scope}` {excess}")));
            }
            let mut record = self.record(by, "variables.update", scope.path_of("variables"));
            record.details = details;
            set.updated_at = record.at;
            set.version += 1;
            let saved = self.table.save_variable_set(by.org, &set, owner.stored, &record).await?;
            if saved == Saved::Yes {
                return Ok(set);
            }
        }
        Err(AppError::contended(scope))
    }

    /// The variables that a job of an environment gets, if it runs on the environment's own runner.
    pub(crate) async fn effective_variables(
        &self,
        by: &Principal,
        project: &ProjectId,
        env: &EnvId,
    ) -> Result<BTreeMap<VariableKey, EffectiveVariable>, AppError> {
        let environment = self.environment(by, Role::Viewer, project, env).await?;
        Ok(effective(self.sets_of(by.org, environment.on(&environment.runner_id)).await?))
    }

    /// What the sets of variables that cover a run have for its job, with the secrets. The inner error says why the job
    /// cannot run with it.
    pub(crate) async fn kept_for_job(
        &self,
        org: OrgUuid,
        sets: Vec<VariableSet>,
    ) -> Result<Result<KeptForJob, String>, AppError> {
        let keys = self.master_keys.get().await?;
        let git_credentials = git_credentials::open_all(&keys, org, &sets)?;
        let (former, mut others) = (former_secrets(&sets), sealed_variables(&sets));
        let found = effective(sets);
        // The state may have a value from before a nearer scope got its own.
        others.retain(|one| found[&one.key].from != one.scope);
        let references = found.values().filter_map(|one| reference_of(&one.variable.value));
        let stores = self.configurations_of(org, references).await?;
        let mut kept = KeptForJob { git_credentials, ..KeptForJob::default() };
        for (key, EffectiveVariable { variable, from, .. }) in found {
            let secret = variable.value.is_secret();
            let value = match variable.value {
                VariableValue::Plain(value) => value,
                VariableValue::Sealed(sealed) => open(&keys, org, &from, &key, &sealed)?,
                VariableValue::Reference(reference) => {
                    let Some(store) = stores.get(&reference.store).cloned() else {
                        return Ok(Err(format!(
                            "the variable `{key}` of {from} {}",
                            missing_store(&reference.store)
                        )));
                    };
                    let VariableKey { kind, name } = key;
                    kept.stored_variables.push(StoredVariable {
                        kind,
                        name,
                        reference,
                        store,
                        from,
                    });
                    continue;
                }
            };
            let VariableKey { kind, name } = key;
            let (value, is_input) = (value.into(), false);
            kept.variables.push(JobVariable { kind, name, value, secret, from, is_input });
        }
        let earlier = former.iter().chain(&others);
        kept.former_secrets = earlier.filter_map(|one| one.open(&keys, org)).collect();
        Ok(Ok(kept))
    }

    /// The stores that `references` name and that exist. One request, if there is a reference.
    pub(super) async fn configurations_of(
        &self,
        org: OrgUuid,
        references: impl Iterator<Item = &SecretReference>,
    ) -> Result<BTreeMap<SecretStoreId, StoreConfiguration>, AppError> {
        let ids: BTreeSet<_> = references.map(|reference| &reference.store).collect();
        let stores = self.table.secret_stores_of(org, ids).await?;
        Ok(stores.into_iter().map(|store| (store.id, store.configuration)).collect())
    }

    pub(super) async fn sets_of(
        &self,
        org: OrgUuid,
        run: VariableTarget<'_>,
    ) -> Result<Vec<VariableSet>, AppError> {
        let scopes = VariableScope::covering(run);
        Ok(self.table.variable_sets_of(org, &scopes).await?)
    }

    pub(super) fn empty_set(&self, scope: &VariableScope, owner: &Owner) -> VariableSet {
        VariableSet::empty(scope.clone(), owner.env_type.clone(), self.now())
    }

    /// The object that a scope names, if it exists and `by` has the role `needed` for all of it.
    pub(super) async fn owner_of_variables(
        &self,
        by: &Principal,
        needed: Role,
        scope: &VariableScope,
    ) -> Result<Owner, AppError> {
        let missing = |kind: &'static str, id: &str| AppError::not_found(kind, id);
        let in_organization = || {
            let hidden = || missing("organization", by.org_id.as_str());
            require(by, needed, Target::Organization, hidden)
        };
        let stored = |created_at| Some(ScopeOwner { created_at });
        match scope {
            VariableScope::Organization => {
                in_organization()?;
                Ok(Owner { stored: None, env_type: None })
            }
            VariableScope::Runner(id) => {
                in_organization()?;
                let runner = self.runner(by, id).await?;
                Ok(Owner { stored: stored(runner.created_at), env_type: None })
            }
            VariableScope::EnvType(id) => {
                in_organization()?;
                let env_type = self.env_type(by, id).await?;
                Ok(Owner { stored: stored(env_type.created_at), env_type: None })
            }
            VariableScope::Project(id) => {
                let hidden = || missing("project", id.as_str());
                require(by, needed, Target::Project(id), hidden)?;
                let project = self.table.project(by.org, id).await?;
                if project.is_none() && !self.table.is_group(by.org, id).await? {
                    return Err(hidden());
                }
                let found = project.and_then(|project| stored(project.created_at));
                Ok(Owner { stored: found, env_type: None })
            }
            VariableScope::Environment(project, env) => {
                let found = self.environment(by, needed, project, env).await?;
                Ok(Owner { stored: stored(found.created_at), env_type: Some(found.env_type_id) })
            }
        }
    }

    /// Applies `edits` to a set, and notes what they do, without values.
    async fn apply(
        &self,
        by: &Principal,
        set: &mut VariableSet,
        edits: &VariableEdits,
        details: &mut Vec<String>,
    ) -> Result<(), AppError> {
        let keys = self.master_keys.get().await?;
        let given = edits.iter().filter_map(|(_, edit)| edit?.reference.as_ref());
        let stores = self.configurations_of(by.org, given).await?;
        let mut faults = FieldErrors::default();
        for (key, edit) in edits.iter() {
            let Some(edit) = edit else {
                if let Some(removed) = set.variables.remove(key) {
                    retire(set, key, &removed.value, self.now());
                    details.push(format!("removed {key}"));
                }
                continue;
            };
            let known = set.variables.get(key);
            let value = match decide(known.map(|known| &known.value), edit) {
                Ok(Decided::Keep(value)) => value.clone(),
                Ok(Decided::Plain(value)) => {
                    // An earlier version accepted any text.
                    if edit.value.is_some() {
                        let path = format!("{}[{:?}].value", key.kind.as_str(), key.name);
                        run_context::check(&path, value, &mut faults);
                    }
                    VariableValue::Plain(value.clone())
                }
                Ok(Decided::Refer(reference)) => {
                    let path = format!("{}[{:?}].reference", key.kind.as_str(), key.name);
                    check(reference, stores.get(&reference.store), &path, &mut faults);
                    VariableValue::Reference(reference.clone())
                }
                Ok(Decided::Seal(value)) => {
                    let context = VariableSet::sealing_context(by.org, &set.scope, key);
                    let text = value.to_string();
                    let sealed = keys.seal(&context, text.as_bytes(), self.entropy.as_ref());
                    VariableValue::Sealed(sealed.map_err(|error| broken(&set.scope, key, &error))?)
                }
                Err((field, fault)) => {
                    faults.add(format!("{}[{:?}]{field}", key.kind.as_str(), key.name), fault);
                    continue;
                }
            };
            let description = edit.description.clone();
            let description = description.or_else(|| known.and_then(|it| it.description.clone()));
            let description = description.filter(|text| !text.is_empty());
            if known.is_some_and(|it| it.value == value && it.description == description) {
                continue;
            }
            let kind = match &value {
                VariableValue::Plain(_) => String::new(),
                VariableValue::Sealed(_) => " (secret)".to_owned(),
                VariableValue::Reference(reference) => format!(" (secret of {reference})"),
            };
            details.push(format!("set {key}{kind}"));
            let (updated_at, updated_by) = (self.now(), by.id);
            let variable = Variable { value, description, updated_at, updated_by };
            if let Some(known) = known
                && !is_same_secret(
                    &keys,
                    by.org,
                    (&set.scope, key),
                    [&known.value, &variable.value],
                )
            {
                let former = known.value.clone();
                retire(set, key, &former, updated_at);
            }
            set.variables.insert(key.clone(), variable);
        }
        Ok(faults.into_result(())?)
    }
}

/// What becomes of a variable's value.
enum Decided<'a> {
    Keep(&'a VariableValue),
    Plain(&'a Json),
    Seal(&'a Json),
    Refer(&'a SecretReference),
}

/// Decides on an edit of a variable that has the value `known`. A fault has the field below the variable, and the reason.
fn decide<'a>(
    known: Option<&'a VariableValue>,
    edit: &'a VariableEdit,
) -> Result<Decided<'a>, (&'static str, String)> {
    if let Some(reference) = &edit.reference {
        return Ok(Decided::Refer(reference));
    }
    let is_secret = edit.secret.unwrap_or_else(|| known.is_some_and(VariableValue::is_secret));
    let value = match (&edit.value, known) {
        (Some(value), _) => value.expose(),
        (None, None) => return Err((".value", "is required for a new variable".to_owned())),
        (None, Some(known @ (VariableValue::Sealed(_) | VariableValue::Reference(_))))
            if is_secret =>
        {
            return Ok(Decided::Keep(known));
        }
        (None, Some(VariableValue::Sealed(_) | VariableValue::Reference(_))) => {
            let fault = "cannot become `false` without a new value: Canyon shows no secret";
            return Err((".secret", fault.to_owned()));
        }
        (None, Some(VariableValue::Plain(value))) => value,
    };
    match secret_fault(value) {
        Some(fault) if is_secret => Err((".value", fault)),
        _ if is_secret => Ok(Decided::Seal(value)),
        _ => Ok(Decided::Plain(value)),
    }
}

/// Notes why the store, if it exists, cannot have what `reference` names.
fn check(
    reference: &SecretReference,
    store: Option<&StoreConfiguration>,
    path: &str,
    faults: &mut FieldErrors,
) {
    let Some(store) = store else {
        faults.add(format!("{path}.store"), missing_store(&reference.store));
        return;
    };
    for (field, reason) in store.faults_of(reference) {
        faults.add(format!("{path}.{field}"), reason);
    }
}

/// Continues a sentence about a reference.
pub(super) fn missing_store(store: &SecretStoreId) -> String {
    format!(
        "names the secret store `{store}`, which does not exist; create it: canyon create secret-store {store}"
    )
}

fn reference_of(value: &VariableValue) -> Option<&SecretReference> {
    match value {
        VariableValue::Reference(reference) => Some(reference),
        VariableValue::Plain(_) | VariableValue::Sealed(_) => None,
    }
}

fn broken(scope: &VariableScope, key: &VariableKey, error: &(dyn Error + 'static)) -> AppError {
    tracing::error!(%scope, %key, error = %Causes(error), "a stored variable cannot be used");
    AppError::internal()
}
