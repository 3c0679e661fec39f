//! Partial updates of a definition, as in the published `RunnerUpdateBody`.

use super::{
    CONFIGURATION, MAX_DEPTH, RunnerConfiguration, RunnerDefinition, STORAGE,
    configuration::{RunnerType, type_of},
    fields::Fields,
    patterns::DESCRIPTION,
    size::nests_deeper_than,
};
use crate::field_error::FieldErrors;
use serde_json::{Map, Value};

impl RunnerDefinition {
    /// This definition after `patch`. `description` and `state_storage_configuration` are replaced. Of
    /// `runner_configuration`, the given parts (`job`, `cluster`, `auth`, `key`) are replaced; its `type` is
    /// required and must stay the same.
    ///
    /// A secret that the patch leaves out is kept: the result then contains it only if `self` does. A caller
    /// that stores secrets separately merges the new ones into the stored ones and removes those not in
    /// [`Self::secret_paths`]. A secret is kept only while the kind of `auth` and the `cluster_data` stay the
    /// same: otherwise a user who may change the address, and does not know the token, could make Canyon send
    /// it to another server.
    ///
    /// # Errors
    /// Every fault with its path.
    pub fn patched(&self, patch: Value) -> Result<Self, FieldErrors> {
        let mut errors = FieldErrors::default();
        if nests_deeper_than(MAX_DEPTH, &patch) {
            errors.add("", format!("nests more than {MAX_DEPTH} objects and lists"));
            return Err(errors);
        }
        let given = Fields::read(patch, "", &mut errors, |fields| {
            let description = fields.text("description", &DESCRIPTION).map(Value::String);
            (description, fields.take(CONFIGURATION), fields.take(STORAGE))
        });
        let Some((description, configuration, storage)) = given else { return Err(errors) };

        let mut whole = match self.to_value() {
            Value::Object(whole) => whole,
            _ => Map::new(),
        };
        whole.extend(description.map(|text| ("description".to_owned(), text)));
        whole.extend(storage.map(|storage| (STORAGE.to_owned(), storage)));
        if let Some(patch) = configuration {
            self.replace_parts(&mut whole, patch, &mut errors);
        }
        let Some(mut changed) = Self::read(Value::Object(whole), &mut errors) else {
            return Err(errors);
        };
        self.keep_secret(&mut changed, &mut errors);
        changed.with_warnings_of(errors)
    }

    fn replace_parts(
        &self,
        whole: &mut Map<String, Value>,
        patch: Value,
        errors: &mut FieldErrors,
    ) {
        let stored = self.runner_type();
        match type_of::<RunnerType>(&patch, CONFIGURATION, errors) {
            Some(given) if given != stored => errors.add(
                format!("{CONFIGURATION}.type"),
                format!("must stay `{stored}`; create another runner to use `{given}`"),
            ),
            Some(_) | None => {}
        }
        if let (Some(Value::Object(parts)), Value::Object(patch)) =
            (whole.get_mut(CONFIGURATION), patch)
        {
            // The type was checked above; a wrong one would only make every stored part unknown.
            parts.extend(patch.into_iter().filter(|(name, _)| name != "type"));
        }
    }

    fn keep_secret(&self, changed: &mut Self, errors: &mut FieldErrors) {
        let needed = changed.missing_secrets();
        let (RunnerConfiguration::Kubernetes(old), RunnerConfiguration::Kubernetes(new)) =
            (&self.configuration, &mut changed.configuration)
        else {
            return;
        };
        let same_kind = old.cluster.auth.kind() == new.cluster.auth.kind();
        let same_cluster = old.cluster.cluster_data == new.cluster.cluster_data;
        for path in needed {
            if !same_kind {
                errors.add(path, "is required");
            } else if !same_cluster {
                errors.add(path, "is required again, as `cluster_data` changes");
            } else if let Some((_, place)) = new.cluster.auth.secret_mut() {
                *place = old.cluster.auth.clone().secret_mut().and_then(|(_, held)| held.take());
            }
        }
    }
}
