//! Creates, changes and deletes resource definitions.

use super::App;
use crate::app::error::AppError;
use canyon_domain::definition::affected::{Affected, affected};
use canyon_domain::definition::criterion::Criterion;
use canyon_domain::definition::matching::rival;
use canyon_domain::definition::secrets::{
    Leaf, OPENED, each_leaf, from_texts, is_placeholder, leaf,
};
use canyon_domain::definition::{Definition, DefinitionId, StoredDefinition};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::OrgUuid;
use canyon_domain::inventory::Environment;
use canyon_domain::merge_patch::merge_patch;
use canyon_domain::principal::Principal;
use canyon_store::contention::MAX_TRIES;
use canyon_store::definitions::MAX_DEFINITIONS;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::{Page, PageRequest};
use serde_json::{Map, Value, json};

/// How a request changes a definition.
#[derive(Clone, Debug)]
pub(crate) enum DefinitionChange {
    /// This one takes its place.
    Replace(Box<Definition>),
    /// Merged into its body (RFC 7396).
    Merge(Map<String, Value>),
    /// One more criterion.
    AddCriterion(Criterion),
    /// The criterion with this id goes.
    RemoveCriterion(String),
}

impl App {
    /// A page of the definitions.
    pub(crate) async fn definitions(
        &self,
        by: &Principal,
        page: &PageRequest,
    ) -> Result<Page<StoredDefinition>, AppError> {
        Ok(self.table.resource_definitions(by.org, page).await?)
    }

    /// A definition. 404 if it does not exist.
    pub(crate) async fn definition(
        &self,
        by: &Principal,
        id: &DefinitionId,
    ) -> Result<StoredDefinition, AppError> {
        let found = self.table.resource_definition(by.org, id).await?;
        found.ok_or_else(|| AppError::not_found("resource definition", id))
    }

    /// Creates a definition.
    pub(crate) async fn create_definition(
        &self,
        by: &Principal,
        mut definition: Definition,
    ) -> Result<StoredDefinition, AppError> {
        let others = self.table.all_resource_definitions(by.org).await?;
        if others.len() >= MAX_DEFINITIONS {
            return Err(AppError::conflict(format!(
                "an organization has at most {MAX_DEFINITIONS} resource definitions; delete some first"
            )));
        }
        refuse_rival(&definition, &others)?;
        self.seal_definition(by.org, &mut definition).await?;
        let path = path_of(&definition.id);
        let record = self.record(by, "resource_definition.create", path);
        let (created_at, updated_at) = (record.at, record.at);
        let stored = StoredDefinition { definition, created_at, updated_at, version: 1 };
        match self.table.create_definition(by.org, &stored, &record).await? {
            Created::Yes => Ok(stored),
            Created::Exists | Created::Missing(_) => Err(AppError::conflict(format!(
                "resource definition `{0}` exists already; change it with: canyon update definition {0}, or delete it with: canyon \
                 delete definition {0}",
                stored.definition.id
            ))),
        }
    }

    /// Changes a definition. It applies to deployments that are accepted from then on.
    pub(crate) async fn change_definition(
        &self,
        by: &Principal,
        id: &DefinitionId,
        change: &DefinitionChange,
    ) -> Result<StoredDefinition, AppError> {
        for _ in 0..MAX_TRIES {
            let mut stored = self.definition(by, id).await?;
            stored.definition = self.changed(by.org, &stored.definition, change).await?;
            let record = self.record(by, "resource_definition.update", path_of(id));
            stored.updated_at = record.at;
            stored.version += 1;
            if self.table.save_definition(by.org, &stored, &record).await? == Saved::Yes {
                return Ok(stored);
            }
        }
        Err(AppError::contended(id))
    }

    /// The resources that a change would give another definition. Nothing is written.
    pub(crate) async fn propose_change(
        &self,
        by: &Principal,
        id: &DefinitionId,
        change: &DefinitionChange,
    ) -> Result<Vec<Affected>, AppError> {
        let stored = self.definition(by, id).await?;
        let changed = self.changed(by.org, &stored.definition, change).await?;
        self.affected_by(by.org, id, Some(changed)).await
    }

    /// Deletes a definition. Without `force`, not one that a resource has.
    pub(crate) async fn delete_definition(
        &self,
        by: &Principal,
        id: &DefinitionId,
        force: bool,
    ) -> Result<(), AppError> {
        for _ in 0..MAX_TRIES {
            let stored = self.definition(by, id).await?;
            if !force {
                refuse_use(id, &self.affected_by(by.org, id, None).await?)?;
            }
            let record = self.record(by, "resource_definition.delete", path_of(id));
            if self.table.delete_definition(by.org, &stored, &record).await? == Deleted::Yes {
                return Ok(());
            }
        }
        Err(AppError::contended(id))
    }

    async fn changed(
        &self,
        org: OrgUuid,
        of: &Definition,
        change: &DefinitionChange,
    ) -> Result<Definition, AppError> {
        let mut changed = match change {
            DefinitionChange::Replace(next) if next.id != of.id => {
                return Err(AppError::invalid("id", format!("is not `{}`, as in the path", of.id)));
            }
            DefinitionChange::Replace(next) => (**next).clone(),
            DefinitionChange::Merge(patch) => {
                let mut patch = in_stored_words(patch);
                refuse_sealed(&patch)?;
                replace_secrets(&mut patch);
                let mut body = body_of(of);
                merge_patch(&mut body, Value::Object(patch));
                let merged = Definition::parse_changed(body)?;
                if merged.id != of.id {
                    return Err(AppError::invalid("id", "cannot be changed"));
                }
                merged
            }
            DefinitionChange::AddCriterion(criterion) => {
                let mut next = of.clone();
                if next.criteria.contains(criterion) {
                    let message = format!("`{}` has this criterion already ({criterion})", of.id);
                    return Err(AppError::conflict(message));
                }
                next.criteria.push(criterion.clone());
                next
            }
            DefinitionChange::RemoveCriterion(id) => {
                let mut next = of.clone();
                next.criteria.retain(|one| one.id() != *id);
                if next.criteria.len() == of.criteria.len() {
                    return Err(AppError::not_found("criterion", id));
                }
                next
            }
        };
        refuse_rival(&changed, &self.table.all_resource_definitions(org).await?)?;
        self.seal_definition(org, &mut changed).await?;
        Ok(changed)
    }

    /// The resources whose definition changes if `after` takes the place of `id`.
    async fn affected_by(
        &self,
        org: OrgUuid,
        id: &DefinitionId,
        after: Option<Definition>,
    ) -> Result<Vec<Affected>, AppError> {
        let before = self.table.all_resource_definitions(org).await?;
        let others = before.iter().filter(|one| one.id != *id).cloned();
        let after: Vec<_> = others.chain(after).collect();
        let mut request = PageRequest { limit: 100, after: None };
        let has_resources = |found: &Environment| !found.resources.is_empty();
        let mut found = Vec::new();
        loop {
            let page = self.table.environments(org, None, &request, has_resources).await?;
            for environment in &page.items {
                found.extend(affected(environment, &before, &after));
            }
            match page.next {
                Some(next) => request.after = Some(next),
                None => return Ok(found),
            }
        }
    }

    /// Seals the values of the secrets that are not sealed yet.
    async fn seal_definition(
        &self,
        org: OrgUuid,
        definition: &mut Definition,
    ) -> Result<(), AppError> {
        let keys = self.master_keys.get().await?;
        let (id, mut failed) = (definition.id.clone(), None);
        each_leaf(&mut definition.secrets, "", &mut |path, members| {
            let value = match leaf(members) {
                Some(Leaf::Value(value)) if !is_placeholder(value) => value.to_owned(),
                Some(Leaf::Value(_) | Leaf::Sealed(_) | Leaf::Reference) | None => return,
            };
            let context = sealing_context(org, &id, path);
            match keys.seal(&context, value.as_bytes(), self.entropy.as_ref()) {
                Ok(sealed) => *members = Map::from_iter([("sealed".to_owned(), json!(sealed))]),
                Err(error) => failed = Some(error),
            }
        });
        match failed {
            None => Ok(()),
            Some(error) => {
                tracing::error!(definition = %id, %error, "a secret cannot be sealed");
                Err(AppError::internal())
            }
        }
    }

    /// Every definition, with the values of its secrets.
    pub(super) async fn open_definitions(&self, org: OrgUuid) -> Result<Vec<Definition>, AppError> {
        let mut definitions = self.table.all_resource_definitions(org).await?;
        let keys = self.master_keys.get().await?;
        for definition in &mut definitions {
            let (id, mut failed) = (definition.id.clone(), None);
            each_leaf(&mut definition.secrets, "", &mut |path, members| {
                let Some(Leaf::Sealed(sealed)) = leaf(members) else { return };
                let opened = keys.open(&sealing_context(org, &id, path), sealed);
                match opened.map(String::from_utf8) {
                    Ok(Ok(value)) => {
                        *members = Map::from_iter([(OPENED.to_owned(), Value::String(value))]);
                    }
                    Ok(Err(_)) => failed = Some("no text".to_owned()),
                    Err(error) => failed = Some(error.to_string()),
                }
            });
            if let Some(error) = failed {
                tracing::error!(definition = %id, %error, "a secret cannot be opened");
                return Err(AppError::internal());
            }
        }
        Ok(definitions)
    }
}

/// The body of a definition, as a request has it.
pub(crate) fn body_of(of: &Definition) -> Value {
    let Definition { id, name, resource_type, driver, account, values, secrets, criteria } = of;
    let mut body = json!({
        "id": id, "name": name, "type": resource_type, "driver_type": driver,
        "driver_inputs": { "values": values, "secret_refs": secrets }, "criteria": criteria,
    });
    if let Some(account) = account {
        body["driver_account"] = json!(account);
    }
    body
}

fn path_of(id: &DefinitionId) -> String {
    format!("resources/defs/{id}")
}

/// A sealed secret that was copied to another organization, definition or path does not open there.
fn sealing_context(org: OrgUuid, id: &DefinitionId, path: &str) -> String {
    format!("resource-definition#{org}#{id}#{path}")
}

/// The patch with its `secrets` as `secret_refs`, and without the secrets that a reader sees as `{"sealed": true}`: they stay.
fn in_stored_words(patch: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = patch.clone();
    let Some(Value::Object(inputs)) = patch.get_mut("driver_inputs") else { return patch };
    if !inputs.contains_key("secret_refs")
        && let Some(Value::Object(texts)) = inputs.remove("secrets")
    {
        inputs.insert("secret_refs".to_owned(), Value::Object(from_texts(texts)));
    }
    if let Some(Value::Object(secrets)) = inputs.get_mut("secret_refs") {
        leave_out_shown(secrets);
    }
    patch
}

fn leave_out_shown(secrets: &mut Map<String, Value>) {
    secrets.retain(|_, member| *member != json!({ "sealed": true }));
    for member in secrets.values_mut().filter_map(Value::as_object_mut) {
        leave_out_shown(member);
    }
}

/// A secret of the patch replaces the one that is stored, and is not merged into it.
fn replace_secrets(patch: &mut Map<String, Value>) {
    let inputs = patch.get_mut("driver_inputs").and_then(Value::as_object_mut);
    let secrets = inputs.and_then(|inputs| inputs.get_mut("secret_refs"));
    if let Some(secrets) = secrets.and_then(Value::as_object_mut) {
        each_leaf(secrets, "", &mut |_, members| {
            for name in ["store", "ref", "version", "value", "sealed"] {
                members.entry(name).or_insert(Value::Null);
            }
        });
    }
}

/// Only Canyon seals: a text that it has not sealed cannot be opened.
fn refuse_sealed(patch: &Map<String, Value>) -> Result<(), AppError> {
    let inputs = patch.get("driver_inputs").and_then(Value::as_object);
    let given = inputs.and_then(|inputs| inputs.get("secret_refs")).and_then(Value::as_object);
    let mut faults = FieldErrors::default();
    each_leaf(&mut given.cloned().unwrap_or_default(), "", &mut |path, members| {
        if members.contains_key("sealed") {
            let reason = "has either `value`, or `store`, `ref` and perhaps `version`";
            faults.add(format!("driver_inputs.secret_refs.{path}"), reason);
        }
    });
    Ok(faults.into_result(())?)
}

fn refuse_rival(definition: &Definition, others: &[Definition]) -> Result<(), AppError> {
    let Some((id, criterion)) = rival(definition, others) else { return Ok(()) };
    let mut faults = FieldErrors::default();
    faults.add(
        "criteria",
        format!("has a criterion that `{id}` has too ({criterion}), so neither could be chosen; make one of them more specific"),
    );
    Err(faults.into())
}

fn refuse_use(id: &DefinitionId, used: &[Affected]) -> Result<(), AppError> {
    let Some(first) = used.first() else { return Ok(()) };
    let more = match used.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(AppError::conflict(format!(
        "resource `{}` of environment `{}` in project `{}`{more} has definition `{id}`; destroy it first, or delete the definition \
         with `force`: a destroy repeats the job of the last deployment and needs no definition",
        first.resource, first.env, first.project
    )))
}
