//! The secrets of a definition, kept apart from it.
//!
//! A definition whose secrets were split off still tells by its shape which ones it needs: a client
//! certificate without its key needs the key, an `auth` with nothing in it needs a token.

use super::patterns::{BASE64, TOKEN};
use super::{RunnerConfiguration, RunnerDefinition};
use crate::field_error::FieldErrors;
use secrecy::{ExposeSecret as _, SecretString};
use std::collections::BTreeMap;

impl RunnerDefinition {
    /// The one secret that this definition needs, by path and place.
    fn secret_mut(&mut self) -> Option<(String, &mut Option<SecretString>)> {
        let RunnerConfiguration::Kubernetes(runner) = &mut self.configuration else { return None };
        let (name, place) = runner.cluster.auth.secret_mut()?;
        Some((format!("runner_configuration.cluster.auth.{name}"), place))
    }

    /// Paths of the secrets that this definition needs, whether it holds them or not.
    pub fn secret_paths(&self) -> Vec<String> {
        self.clone().secret_mut().map(|(path, _)| path).into_iter().collect()
    }

    /// Paths of the secrets that this definition needs and does not hold.
    pub fn missing_secrets(&self) -> Vec<String> {
        let mut copy = self.clone();
        let missing = copy.secret_mut().filter(|(_, place)| place.is_none());
        missing.map(|(path, _)| path).into_iter().collect()
    }

    /// Takes the secrets out. The map has those that were inside, by path.
    pub fn split_secrets(mut self) -> (Self, BTreeMap<String, SecretString>) {
        let secret = self.secret_mut().and_then(|(path, place)| Some((path, place.take()?)));
        let secrets = secret.into_iter().collect();
        (self, secrets)
    }

    /// Puts secrets back that [`Self::split_secrets`] took out; others in the map are left.
    ///
    /// # Errors
    /// The paths of secrets that are needed and not there, or cannot work.
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
        // It was stored with a warning, and no other reading tells of it.
        if let Some((path, Some(secret))) = self.secret_mut() {
            let shape = if path.ends_with("token") { TOKEN } else { BASE64 };
            if !shape.holds(secret.expose_secret()) {
                errors.add(path, format!("must be {}", shape.rule));
            }
        }
        errors.into_result(self)
    }
}
