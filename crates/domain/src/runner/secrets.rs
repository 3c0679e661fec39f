//! The secrets of a definition, which are stored separately.
//!
//! A definition without its secrets still shows which ones it needs: a client certificate without its key
//! needs the key, an empty `auth` needs a token.

use super::patterns::{BASE64, TOKEN};
use super::{RunnerConfiguration, RunnerDefinition};
use crate::field_error::FieldErrors;
use secrecy::{ExposeSecret as _, SecretString};
use std::collections::BTreeMap;

impl RunnerDefinition {
    /// The path and the field of the one secret that this definition needs.
    fn secret_mut(&mut self) -> Option<(String, &mut Option<SecretString>)> {
        let RunnerConfiguration::Kubernetes(runner) = &mut self.configuration else { return None };
        let (name, place) = runner.cluster.auth.secret_mut()?;
        Some((format!("runner_configuration.cluster.auth.{name}"), place))
    }

    /// Paths of the secrets that this definition needs, present or not.
    pub fn secret_paths(&self) -> Vec<String> {
        self.clone().secret_mut().map(|(path, _)| path).into_iter().collect()
    }

    /// Paths of the secrets that this definition needs and does not contain.
    pub fn missing_secrets(&self) -> Vec<String> {
        let mut copy = self.clone();
        let missing = copy.secret_mut().filter(|(_, place)| place.is_none());
        missing.map(|(path, _)| path).into_iter().collect()
    }

    /// Takes the secrets out; the map contains them by path.
    pub fn split_secrets(mut self) -> (Self, BTreeMap<String, SecretString>) {
        let secret = self.secret_mut().and_then(|(path, place)| Some((path, place.take()?)));
        let secrets = secret.into_iter().collect();
        (self, secrets)
    }

    /// Restores secrets that [`Self::split_secrets`] took out; others in the map are ignored.
    ///
    /// # Errors
    /// The paths of required secrets that are missing or invalid.
    pub fn join_secrets(
        mut self,
        secrets: &BTreeMap<String, SecretString>,
    ) -> Result<Self, FieldErrors> {
        if let Some((path, place)) = self.secret_mut()
            && let Some(secret) = secrets.get(&path)
        {
            *place = Some(secret.clone());
        }
        let mut errors = FieldErrors::default();
        for path in self.missing_secrets() {
            errors.add(path, "has no stored secret");
        }
        // An invalid secret was stored with a warning, and no other check reports it.
        if let Some((path, Some(secret))) = self.secret_mut() {
            let shape = if path.ends_with("token") { TOKEN } else { BASE64 };
            if !shape.holds(secret.expose_secret()) {
                errors.add(path, format!("must be {}", shape.rule));
            }
        }
        errors.into_result(self)
    }
}
