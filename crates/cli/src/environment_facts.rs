//! What a person is shown of an environment before something in it is destroyed.

use crate::deletions::resources;
use crate::error::CliError;
use crate::resource::Resource;
use canyon_api::client::Client;
use canyon_api::environment::{DeletionProtection, EnvironmentState};
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

/// Its state as far as it is known, and its limit.
#[derive(Clone, Debug)]
pub(crate) struct EnvironmentFacts {
    /// `project/environment`.
    name: String,
    uuid: Option<Uuid>,
    state: Option<EnvironmentState>,
    protection: Option<DeletionProtection>,
}

impl EnvironmentFacts {
    /// Those of `environment` now.
    ///
    /// # Errors
    ///
    /// 404 with what was probably meant.
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

    /// Which environment was read: another may have its name later.
    pub(crate) fn uuid(&self) -> Option<Uuid> {
        self.uuid
    }

    /// How many resources a run may delete or replace; `None` for no limit.
    pub(crate) fn max_deletions(&self) -> Option<u32> {
        self.protection.map(|protection| protection.max_deletions)
    }

    /// `shop/dev has 12 resources in its state s3://... (serial 7)`.
    pub(crate) fn describe(&self) -> String {
        format!("{} has {}{}{}", self.name, self.count(), self.place(), self.doubt())
    }

    /// What stays when the environment is deleted and nothing is destroyed.
    pub(crate) fn left_behind(&self) -> String {
        format!("left behind by {}: {}{}{}", self.name, self.count(), self.place(), self.doubt())
    }

    /// The resources that are in the state for certain; `None` if more are possible.
    fn known(&self) -> Option<u32> {
        self.state.as_ref().filter(|state| !state.uncertain).and_then(|state| state.resources)
    }

    fn count(&self) -> String {
        self.known().map_or_else(|| "an unknown number of resources".to_owned(), resources)
    }

    fn place(&self) -> String {
        let Some(state) = &self.state else { return String::new() };
        let serial = state.serial.filter(|_| self.known().is_some());
        let serial = serial.map_or_else(String::new, |serial| format!(" (serial {serial})"));
        format!(" in its state {}{serial}", state.place)
    }

    /// Why the number is not known.
    fn doubt(&self) -> String {
        match &self.state {
            _ if self.known().is_some() => String::new(),
            None => ": no run has reported its state".to_owned(),
            Some(state) => match (state.resources, state.serial) {
                (Some(count), Some(serial)) => format!(
                    ": an apply did not say all that it left; the last count was {} (serial {serial})",
                    resources(count)
                ),
                _ => ": no run has reported what is in it".to_owned(),
            },
        }
    }
}

/// A member that is absent, or that another version of Canyon writes otherwise, is not known.
fn member<T: DeserializeOwned>(environment: &Value, name: &str) -> Option<T> {
    serde_json::from_value(environment.get(name)?.clone()).ok()
}
