//! Creating deployments and waiting for their ends.

use super::site::{ENV, PROJECT, Site};
use canyon_api::attempt::Stream;
use canyon_api::client::{Client, ClientError};
use canyon_api::deployment::{Deployment, DeploymentCreateBody, RequestedMode};
use canyon_domain::failure::FailureClass;
use canyon_domain::job::Module;
use serde_json::Value;
use std::time::{Duration, Instant};
use uuid::Uuid;

/// No wait here takes long. On two processors that also build programs, everything takes a multiple of its time; a
/// wait that takes longer than this hangs.
pub(crate) const LIMIT: Duration = Duration::from_mins(10);

/// A request to deploy `module` to `env`.
pub(crate) fn request(env: &str, module: Option<Module>) -> DeploymentCreateBody {
    DeploymentCreateBody {
        module,
        ..DeploymentCreateBody::new(RequestedMode::Deploy, PROJECT, env)
    }
}

/// Creates a deployment, which must be accepted. Without an answer, retries with the same idempotency key.
pub(crate) async fn accept(client: &Client, body: &DeploymentCreateBody, key: &str) -> String {
    answered(async || client.create_deployment(body, key).await).await.id.to_string()
}

/// The answer to a call that changes nothing the second time. While Canyon asks for a retry, retries, as the command
/// line does: on a loaded machine the table answers late. The pause grows, or many callers would keep it loaded.
pub(crate) async fn answered<T>(call: impl AsyncFn() -> Result<T, ClientError>) -> T {
    let deadline = Instant::now() + LIMIT;
    let mut pause = Duration::from_millis(50);
    loop {
        match call().await {
            Ok(answer) => return answer,
            Err(error) if error.is_retryable() && Instant::now() < deadline => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(5));
            }
            Err(error) => panic!("refused: {error:?}"),
        }
    }
}

/// A request to destroy what is in `env`.
pub(crate) fn destruction(env: &str) -> DeploymentCreateBody {
    DeploymentCreateBody { mode: RequestedMode::Destroy, ..request(env, None) }
}

impl Site {
    /// Creates a deployment, which must be accepted.
    pub(crate) async fn accept(&self, body: &DeploymentCreateBody) -> String {
        accept(&self.client, body, &Uuid::new_v4().to_string()).await
    }

    /// Waits for the end of a deployment.
    pub(crate) async fn end(&self, id: &str) -> Deployment {
        end(&self.client, id).await
    }

    /// Deploys, and waits for the end.
    pub(crate) async fn run(&self, body: &DeploymentCreateBody) -> Deployment {
        let id = self.accept(body).await;
        self.end(&id).await
    }

    /// Deploys `module` to the site's environment, which must succeed.
    pub(crate) async fn deploy(&self, module: Module) -> Deployment {
        let ended = self.run(&request(ENV, Some(module))).await;
        assert_succeeded(&ended);
        ended
    }

    /// Waits until `wanted` holds of a deployment.
    pub(crate) async fn until(
        &self,
        id: &str,
        what: &str,
        wanted: impl Fn(&Deployment) -> bool,
    ) -> Deployment {
        let deadline = Instant::now() + LIMIT;
        loop {
            let found = self.client.deployment(id).await;
            let over = match &found {
                Ok(deployment) if wanted(deployment) => return found.unwrap(),
                Ok(deployment) => deployment.completed_at.is_some(),
                Err(error) => !error.is_retryable(),
            };
            assert!(!over && Instant::now() < deadline, "{what} did not come: {found:#?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The whole log.
    pub(crate) async fn log(&self, id: &str) -> String {
        log(&self.client, id).await
    }

    /// OpenTofu's messages in its `-json` lines.
    pub(crate) async fn events(&self, id: &str) -> Vec<Value> {
        let text = whole(&self.client, id, Stream::Events).await;
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// The whole log of a deployment.
pub(crate) async fn log(client: &Client, id: &str) -> String {
    whole(client, id, Stream::Log).await
}

async fn whole(client: &Client, id: &str, stream: Stream) -> String {
    let (mut text, mut offset) = (Vec::new(), 0);
    loop {
        let part = answered(async || client.log_part(id, stream, offset, 0).await).await;
        if part.bytes.is_empty() {
            return String::from_utf8(text).unwrap();
        }
        text.extend_from_slice(&part.bytes);
        offset = part.next_offset;
    }
}

/// Waits for the end of a deployment, also through restarts of the server. Returns what its own read then answers, which
/// has more than the answer to the wait.
pub(crate) async fn end(client: &Client, id: &str) -> Deployment {
    let deadline = Instant::now() + LIMIT;
    loop {
        let waited = client.wait(id, 5).await;
        let found = match waited {
            Ok(Some(_)) => client.deployment(id).await.map(Some),
            Ok(None) | Err(_) => waited,
        };
        match found {
            Ok(Some(deployment)) => return deployment,
            Ok(None) => {}
            Err(error) if error.is_retryable() => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => panic!("cannot wait for {id}: {error:?}"),
        }
        let late = Instant::now() > deadline;
        assert!(!late, "no end within {LIMIT:?}: {:#?}", client.deployment(id).await);
    }
}

/// Asserts that the deployment succeeded.
#[track_caller]
pub(crate) fn assert_succeeded(deployment: &Deployment) {
    assert_eq!(deployment.status, "succeeded", "{deployment:#?}");
}

/// How many resources were added, changed and removed.
pub(crate) fn counts(deployment: &Deployment) -> (u32, u32, u32) {
    let metrics = &deployment.metrics;
    (
        metrics.num_tf_resources_added.unwrap(),
        metrics.num_tf_resources_changed.unwrap(),
        metrics.num_tf_resources_removed.unwrap(),
    )
}

/// The failure of the last attempt.
#[track_caller]
pub(crate) fn failure(deployment: &Deployment) -> (FailureClass, String) {
    let attempt = deployment.attempts.last().expect("it was launched");
    let failure = attempt.failure.clone();
    let failure = failure.unwrap_or_else(|| panic!("it did not fail: {deployment:#?}"));
    (failure.class, failure.message)
}
