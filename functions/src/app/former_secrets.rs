//! Secrets that an environment's state may have from earlier runs: former values of kept variables, values that a nearer
//! scope has replaced, and secret inputs of earlier deployments. Runs mask them too.

use super::App;
use crate::app::error::AppError;
use canyon_domain::causes::Causes;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_domain::inputs;
use canyon_domain::inventory::Environment;
use canyon_domain::json::Json;
use canyon_domain::variable_scope::VariableScope;
use canyon_domain::variables::former::FormerSecret;
use canyon_domain::variables::secret_json::SecretJson;
use canyon_domain::variables::{Variable, VariableKey, VariableSet, VariableValue};
use canyon_identity::master_key::MasterKey;
use jiff::Timestamp;
use std::error::Error;

/// A secret of a set.
pub(super) struct SealedSecret {
    pub(super) scope: VariableScope,
    pub(super) key: VariableKey,
    sealed: String,
}

impl SealedSecret {
    /// Its value. One that does not open any more hides nothing, and stops no job.
    pub(super) fn open(&self, keys: &MasterKey, org: OrgUuid) -> Option<SecretJson> {
        open(keys, org, &self.scope, &self.key, &self.sealed).ok().map(SecretJson::from)
    }
}

/// The former values of the secrets in `sets`.
pub(super) fn former_secrets(sets: &[VariableSet]) -> Vec<SealedSecret> {
    let of_set = |set: &VariableSet| {
        let (scope, former) = (set.scope.clone(), set.former_secrets.clone());
        former.into_iter().map(move |FormerSecret { key, sealed, .. }| SealedSecret {
            scope: scope.clone(),
            key,
            sealed,
        })
    };
    sets.iter().flat_map(of_set).collect()
}

/// The secrets in `sets`, whether a nearer scope has the same variable or not.
pub(super) fn sealed_variables(sets: &[VariableSet]) -> Vec<SealedSecret> {
    let secret = |scope: &VariableScope, key: &VariableKey, variable: &Variable| {
        let VariableValue::Sealed(sealed) = &variable.value else { return None };
        Some(SealedSecret { scope: scope.clone(), key: key.clone(), sealed: sealed.clone() })
    };
    let of_set = |set: &VariableSet| {
        let VariableSet { scope, variables, .. } = set;
        variables.iter().filter_map(|(key, of)| secret(scope, key, of)).collect::<Vec<_>>()
    };
    sets.iter().flat_map(of_set).collect()
}

/// Keeps a value that the variable no longer has, if it is a secret.
pub(super) fn retire(
    set: &mut VariableSet,
    key: &VariableKey,
    value: &VariableValue,
    until: Timestamp,
) {
    if let VariableValue::Sealed(sealed) = value {
        let (key, sealed) = (key.clone(), sealed.clone());
        set.former_secrets.add(FormerSecret { key, sealed, until });
    }
}

/// Whether both are the same secret, although each is sealed in its own way.
pub(super) fn is_same_secret(
    keys: &MasterKey,
    org: OrgUuid,
    (scope, key): (&VariableScope, &VariableKey),
    values: [&VariableValue; 2],
) -> bool {
    let [VariableValue::Sealed(one), VariableValue::Sealed(other)] = values else { return false };
    let opened = [one, other].map(|sealed| open(keys, org, scope, key, sealed).ok());
    opened[0].is_some() && opened[0] == opened[1]
}

/// The value of a secret.
pub(super) fn open(
    keys: &MasterKey,
    org: OrgUuid,
    from: &VariableScope,
    key: &VariableKey,
    sealed: &str,
) -> Result<Json, AppError> {
    let context = VariableSet::sealing_context(org, from, key);
    opened(keys, &context, sealed).map_err(|error| {
        log_unopened(&format!("{key} of {from}"), &*error);
        AppError::internal()
    })
}

fn log_unopened(what: &str, error: &(dyn Error + 'static)) {
    tracing::error!(what, error = %Causes(error), "a stored secret cannot be opened");
}

fn opened(keys: &MasterKey, context: &str, sealed: &str) -> Result<Json, Box<dyn Error>> {
    let text = String::from_utf8(keys.open(context, sealed)?)?;
    Ok(Json::parse(&text)?)
}

impl App {
    /// The secret inputs of the environment's earlier deployments. One request, if there were such.
    pub(super) async fn former_inputs(
        &self,
        org: OrgUuid,
        environment: &Environment,
        of: DeploymentId,
    ) -> Result<Vec<SecretJson>, AppError> {
        let earlier = environment.secret_inputs.iter().copied().filter(|earlier| *earlier != of);
        let bundles = self.table.bundles(org, earlier).await?;
        let sealed: Vec<_> = bundles.into_iter().flat_map(|bundle| bundle.sealed_inputs).collect();
        if sealed.is_empty() {
            return Ok(Vec::new());
        }
        let keys = self.master_keys.get().await?;
        let value = |(name, sealed): (String, String)| {
            let context = inputs::sealing_context(org, environment.uuid, &name);
            let opened = opened(&keys, &context, &sealed);
            opened.map_err(|error| log_unopened(&name, &*error)).ok()
        };
        Ok(sealed.into_iter().filter_map(value).map(SecretJson::from).collect())
    }
}
