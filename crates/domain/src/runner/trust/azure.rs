//! Azure: one federated credential of an application, or of a managed identity, trusts one runner.

use super::kubernetes::{User, cluster_documents};
use super::{Document, TrustSubject};
use crate::job_identity::AZURE_AUDIENCE;
use crate::runner::aks::Aks;
use crate::state_storage::StateStorage;
use serde_json::json;

/// Allows its holder to list the user credentials of a cluster: its address and its certificate authority,
/// and nothing in it.
pub const CLUSTER_ROLE: &str = "Azure Kubernetes Service Cluster User Role";

pub(crate) fn documents(
    trusted: &TrustSubject,
    runner: &Aks,
    storage: &StateStorage,
) -> Vec<Document> {
    let (cluster, auth) = (&runner.cluster, &runner.cluster.auth);
    let scope = format!(
        "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.ContainerService/managedClusters/{}",
        cluster.subscription_id, cluster.resource_group, cluster.name
    );
    let client = &auth.client_id;
    let mut documents = vec![
        Document::json(
            "Federated credential",
            format!(
                "application {client} of tenant {}: az ad app federated-credential create --id \
                 {client} --parameters @credential.json; for a managed identity: az identity \
                 federated-credential create",
                auth.tenant_id
            ),
            &json!({
                "name": "canyon",
                "issuer": trusted.issuer,
                "subject": trusted.subject,
                "audiences": [AZURE_AUDIENCE],
            }),
        ),
        Document::json(
            "Role assignment",
            format!(
                "az role assignment create --assignee {client} --role '{CLUSTER_ROLE}' --scope {scope}"
            ),
            &json!({ "role": CLUSTER_ROLE, "assignee": client, "scope": scope }),
        ),
    ];
    let user = User::Placeholder {
        name: "OBJECT_ID_OF_THE_SERVICE_PRINCIPAL".to_owned(),
        how: format!("az ad sp show --id {client} --query id --output tsv"),
    };
    documents.extend(cluster_documents(&runner.job, storage, &user));
    documents
}
