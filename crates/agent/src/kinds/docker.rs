//! Platform `docker`: jobs are containers of a Docker engine.

use super::values::Values;
use super::{Kind, KindError};
use crate::settings::dispatcher::DispatcherSettings;
use async_trait::async_trait;
use canyon_api::agent::JobKey;
use canyon_dispatch::docker::{DockerPlatform, DockerSettings, EngineUser};
use canyon_dispatch::{Dispatcher, JobRef, Platform as _, Target};
use canyon_domain::ids::RunnerUuid;
use canyon_domain::runner::RunnerType;
use std::sync::Arc;

/// The kind `docker`.
pub(super) fn kind(
    settings: &DispatcherSettings,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn Kind>, KindError> {
    let mut values = Values::of(settings);
    let given = given(&mut values);
    let made = DockerPlatform::new(given, variable).map_err(|error| {
        let message = error.to_string();
        let reason =
            message.split_once("Docker dispatcher ").map_or(&*message, |(_, reason)| reason);
        values.fault(error.setting, reason);
    });
    match made {
        Ok(platform) if values.faults.is_empty() => {
            Ok(Arc::new(DockerKind { platform: Arc::new(platform) }))
        }
        _ => Err(KindError(values.faults.to_string())),
    }
}

/// The settings unchanged: the platform checks them.
pub(super) fn given(values: &mut Values<'_>) -> DockerSettings {
    DockerSettings {
        user: EngineUser::Agent,
        host: values.text("host"),
        certificates: None,
        image: values.text("image"),
        local_image: values.boolean("local_image").unwrap_or_default(),
        extra_hosts: values.list("extra_hosts"),
        memory_limit: values.text("memory_limit"),
        bind_path: values.text("bind_path"),
        registry_username: values.text("registry_username"),
        registry_password: values.secret("registry_password"),
        network: values.text("network"),
        acknowledge_host_credentials: values
            .boolean("acknowledge_host_credentials")
            .unwrap_or_default(),
    }
}

struct DockerKind {
    platform: Arc<DockerPlatform>,
}

#[async_trait]
impl Kind for DockerKind {
    fn serves(&self) -> RunnerType {
        RunnerType::DockerAgent
    }

    async fn platform_id(&self) -> Result<String, KindError> {
        self.platform.platform_id().await.map_err(KindError::of)
    }

    fn dispatcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        self.platform.dispatcher(target)
    }

    async fn found(&self) -> Result<Vec<JobKey>, KindError> {
        let found = self.platform.all_jobs().await.map_err(KindError::of)?;
        let key = |(runner, job): (RunnerUuid, JobRef)| JobKey {
            runner,
            deployment: job.deployment,
            attempt: job.attempt,
        };
        Ok(found.into_iter().map(key).collect())
    }

    fn cleaner(&self, _: &JobKey) -> Option<Arc<dyn Dispatcher>> {
        Some(self.platform.remover())
    }
}
