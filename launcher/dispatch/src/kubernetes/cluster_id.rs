//! Which cluster an agent is in, by an id that another agent there finds too.

use super::connect::Way;
use super::{KubernetesPlatform, errors};
use crate::DispatchError;
use canyon_domain::failure::FailureClass;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use std::time::Duration;

/// Every cluster has it, and nobody can make it anew: a cluster is usually told by its uid.
const NAMESPACE: &str = "kube-system";
const TIMEOUT: Duration = Duration::from_secs(15);
/// In place of a runner's name, in messages.
const ANY_RUNNER: &str = "*";

impl KubernetesPlatform {
    /// The agent's cluster: the uid of namespace `kube-system`, or, where the agent may not read that, a hash
    /// of the API server's address and authority.
    ///
    /// # Errors
    ///
    /// If the cluster could not be asked, or is not the agent's own.
    pub async fn place(&self) -> Result<String, DispatchError> {
        let Way::InPlace(source) = self.connector.way() else {
            let message = "this platform has as many clusters as there are runners";
            return Err(DispatchError::refused(FailureClass::Config, message));
        };
        let connection = self.connector.connect_in_place(ANY_RUNNER, source).await?;
        let namespaces = Api::<Namespace>::all(connection.client);
        let what = "read namespace `kube-system`";
        let uid = match tokio::time::timeout(TIMEOUT, namespaces.get_opt(NAMESPACE)).await {
            Ok(Ok(found)) => found.and_then(|found| found.metadata.uid),
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => None,
            Ok(Err(error)) => return Err(errors::meaning(&connection.place, what, error).await),
            Err(_) => return Err(errors::no_answer(&connection.place, what)),
        };
        Ok(format!("kubernetes:{}", uid.unwrap_or(connection.fingerprint)))
    }
}
