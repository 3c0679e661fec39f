//! Where a runner keeps the states of its environments.

use crate::environment_state::same_location;
use crate::ids::EnvUuid;
use crate::runner::RunnerDefinition;
use crate::state_storage::StateStorage;
use serde_json::Value;
use uuid::Uuid;

/// Where a runner keeps the states of its environments.
#[derive(Clone, Debug, PartialEq)]
pub struct StateHome {
    /// The storage.
    pub storage: StateStorage,
    /// The platform of the runner's jobs, if the storage is a part of it: a disk, or a cluster.
    platform: Option<Value>,
}

impl StateHome {
    /// Whether each environment has its state at the same place in both.
    ///
    /// ```
    /// use canyon_domain::runner::RunnerDefinition;
    /// use canyon_domain::state_home::StateHome;
    /// use serde_json::{Value, json};
    ///
    /// let home = |configuration: Value, storage: Value| {
    ///     let runner = json!({ "runner_configuration": configuration, "state_storage_configuration": storage });
    ///     StateHome::from(&RunnerDefinition::parse_stored(runner).unwrap())
    /// };
    /// let (here, agents) = (json!({ "type": "local" }), json!({ "type": "docker-agent" }));
    /// let (bucket, disk) = (json!({ "type": "s3", "bucket": "states" }), json!({ "type": "local" }));
    /// assert!(home(here.clone(), bucket.clone()).is_same_as(&home(agents.clone(), bucket.clone())));
    /// assert!(!home(here.clone(), disk).is_same_as(&home(here, bucket)));
    /// ```
    pub fn is_same_as(&self, other: &Self) -> bool {
        // Two storages map either every environment to the same location, or none.
        same_location(&self.storage, &other.storage, EnvUuid(Uuid::nil()))
            && self.platform == other.platform
    }
}

impl From<&RunnerDefinition> for StateHome {
    fn from(of: &RunnerDefinition) -> Self {
        Self { storage: of.state_storage.clone(), platform: of.state_platform() }
    }
}
