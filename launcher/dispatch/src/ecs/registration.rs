//! Finds a task definition, and registers it if it does not exist: once for each process and
//! content.

use super::definition::Definition;
use super::refusal::Refusals;
use super::session::Clients;
use crate::DispatchError;
use aws_sdk_ecs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_ecs::types::TaskDefinitionStatus;
use canyon_domain::failure::FailureClass;
use std::collections::BTreeSet;
use tokio::sync::Mutex;

/// The maximum number of families that are remembered; each image of container jobs has one. A family that is forgotten
/// costs a request when it is needed again.
const MAX_FAMILIES: usize = 1_000;

/// The families that are known to be registered. Concurrent callers wait while one registers: AWS throttles
/// registrations.
#[derive(Default)]
pub(super) struct Registration(Mutex<BTreeSet<String>>);

impl Registration {
    /// The family's name. `RunTask` uses its latest revision, so that each start of an attempt
    /// sends the same request, also if another process registers a revision in between.
    pub(super) async fn family(
        &self,
        clients: &Clients,
        definition: &Definition,
        refusals: &Refusals<'_>,
    ) -> Result<String, DispatchError> {
        let mut known = self.0.lock().await;
        let family = definition.family();
        if known.contains(&family) {
            return Ok(family);
        }
        if !is_there(clients, definition, &family, refusals).await? {
            register(clients, definition, refusals).await?;
        }
        if known.len() >= MAX_FAMILIES {
            known.clear();
        }
        known.insert(family.clone());
        Ok(family)
    }

    /// Forgets the family, because its definition was deregistered: the next call looks for it
    /// again.
    pub(super) async fn forget(&self, family: &str) {
        self.0.lock().await.remove(family);
    }
}

async fn is_there(
    clients: &Clients,
    definition: &Definition,
    family: &str,
    refusals: &Refusals<'_>,
) -> Result<bool, DispatchError> {
    match clients.ecs.describe_task_definition().task_definition(family).send().await {
        Ok(found) => Ok(found.task_definition().is_some_and(|found| {
            found.status() == Some(&TaskDefinitionStatus::Active) && definition.is(found)
        })),
        // ECS answers this for a family without an active revision: "Unable to describe task definition."
        Err(SdkError::ServiceError(context)) if context.err().code() == Some("ClientException") => {
            Ok(false)
        }
        Err(error) => Err(refusals.before_start("ecs:DescribeTaskDefinition", &error)),
    }
}

async fn register(
    clients: &Clients,
    definition: &Definition,
    refusals: &Refusals<'_>,
) -> Result<(), DispatchError> {
    let request = definition.register(&clients.ecs).map_err(|error| {
        let message = format!("cannot build a task definition from the runner's `job`: {error}");
        DispatchError::refused(FailureClass::Config, message)
    })?;
    let registered = request.send().await;
    registered
        .map(drop)
        .map_err(|error| refusals.before_start("ecs:RegisterTaskDefinition", &error))
}
