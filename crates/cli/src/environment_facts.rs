//! What the command shows of an environment before it destroys something in it.

use crate::deletions::resources;
use crate::error::CliError;
use crate::resource::Resource;
use canyon_api::client::Client;
use canyon_api::environment::{DeletionProtection, EnvironmentState};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

/// The environment's state, as far as Canyon knows it, and its limit.
#[derive(Clone, Debug)]
pub(crate) struct EnvironmentFacts {
    /// `project/environment`.
    name: String,
    uuid: Option<Uuid>,
    state: Option<EnvironmentState>,
    protection: Option<DeletionProtection>,
}

impl EnvironmentFacts {
    /// Reads `environment`.
    ///
    /// # Errors
    ///
    /// [`CliError::Explained`] with the nearest name, or the client's error.
    pub(crate) async fn read(client: &Client, environment: &Resource) -> Result<Self, CliError> {
        match client.get(&environment.path()).await {
            Ok(found) => Ok(Self {
                name: environment.full_name(),
                uuid: member(&found, "uuid"),
                state: member(&found, "state"),
                protection: member(&found, "deletion_protection"),
            }),
            Err(error) => Err(environment.explain(client, error).await),
        }
    }

    /// The uuid of the environment that was read: another environment may have its name later.
    pub(crate) fn uuid(&self) -> Option<Uuid> {
        self.uuid
    }

    /// How many resources a run may delete or replace; `None` for no limit.
    pub(crate) fn max_deletions(&self) -> Option<u32> {
        self.protection.map(|protection| protection.max_deletions)
    }

    /// `shop/dev has 12 resources in its state s3://... (serial 7)`.
    pub(crate) fn describe(&self) -> String {
        format!("{} has {}{}{}", self.name, self.count(), self.location(), self.uncertainty())
    }

    /// What stays when Canyon deletes the environment without destroying its resources.
    pub(crate) fn left_behind(&self) -> String {
        let (count, location) = (self.count(), self.location());
        format!("left behind by {}: {count}{location}{}", self.name, self.uncertainty())
    }

    /// The number of resources in the state; `None` if there may be more.
    fn known(&self) -> Option<u32> {
        self.state.as_ref().filter(|state| !state.uncertain).and_then(|state| state.resources)
    }

    fn count(&self) -> String {
        self.known().map_or_else(|| "an unknown number of resources".to_owned(), resources)
    }

    fn location(&self) -> String {
        let Some(state) = &self.state else { return String::new() };
        let serial = state.serial.filter(|_| self.known().is_some());
        let serial = serial.map_or_else(String::new, |serial| format!(" (serial {serial})"));
        format!(" in its state {}{serial}", state.location)
    }

    /// Why the number is unknown.
    fn uncertainty(&self) -> String {
        match &self.state {
            _ if self.known().is_some() => String::new(),
            None => ": no run has reported its state".to_owned(),
            Some(state) => match (state.resources, state.serial) {
                (Some(count), Some(serial)) => format!(
                    ": an apply did not report everything that it left; the last count was {} (serial {serial})",
                    resources(count)
                ),
                _ => ": no run has reported what is in it".to_owned(),
            },
        }
    }
}

/// A member; `None` if it is absent, or if this version of Canyon cannot read it.
fn member<T: DeserializeOwned>(environment: &Value, name: &str) -> Option<T> {
    serde_json::from_value(environment.get(name)?.clone()).ok()
}
