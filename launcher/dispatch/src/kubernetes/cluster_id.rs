//! Identifies an agent's cluster by an id that every agent there finds.

use super::connect::AccessMethod;
use super::{KubernetesPlatform, errors};
use crate::DispatchError;
use canyon_domain::failure::FailureClass;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use std::time::Duration;

/// The namespace whose uid identifies the cluster: every cluster has it, and it cannot be created
/// again.
const NAMESPACE: &str = "kube-system";
const TIMEOUT: Duration = Duration::from_secs(15);
/// Replaces a runner's name in messages.
const ANY_RUNNER: &str = "*";

impl KubernetesPlatform {
    /// The agent's cluster: the uid of namespace `kube-system`, or, if the agent may not read that,
    /// a hash of the API server's address and certificate authority.
    ///
    /// # Errors
    ///
    /// If the cluster could not be asked, or if this platform belongs to no agent.
    pub async fn platform_id(&self) -> Result<String, DispatchError> {
        let AccessMethod::InPlace(source) = self.connector.way() else {
            let message = "this platform has as many clusters as there are runners";
            return Err(DispatchError::refused(FailureClass::Config, message));
        };
        let connection = self.connector.connect_in_place(ANY_RUNNER, source).await?;
        let namespaces = Api::<Namespace>::all(connection.client);
        let what = "read namespace `kube-system`";
        let uid = match tokio::time::timeout(TIMEOUT, namespaces.get_opt(NAMESPACE)).await {
            Ok(Ok(found)) => found.and_then(|found| found.metadata.uid),
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => None,
            Ok(Err(error)) => return Err(errors::explain(&connection.place, what, error).await),
            Err(_) => return Err(errors::no_answer(&connection.place, what)),
        };
        Ok(format!("kubernetes:{}", uid.unwrap_or(connection.fingerprint)))
    }
}
