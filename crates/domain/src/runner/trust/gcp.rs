//! Google Cloud: a workload identity pool trusts Canyon's issuer, and one runner may act as one service
//! account.

use super::kubernetes::{User, cluster_documents};
use super::{Document, TrustSubject};
use crate::runner::gke::Gke;
use crate::state_storage::StateStorage;
use serde_json::json;

/// Admits the launcher, whose subjects are runners, and not the jobs, whose subjects are longer.
pub(super) const RUNNERS_ALONE: &str =
    "assertion.sub.matches('^org:[0-9a-f-]{36}:runner:[0-9a-f-]{36}$')";

/// The parts of a provider's name,
/// `//iam.googleapis.com/projects/N/locations/L/workloadIdentityPools/POOL/providers/PROVIDER`.
pub(super) struct Provider<'a> {
    pub(super) project: &'a str,
    pub(super) location: &'a str,
    pub(super) pool: &'a str,
    name: &'a str,
}

impl<'a> Provider<'a> {
    pub(super) fn of(audience: &'a str) -> Self {
        let path = audience.split("//iam.googleapis.com/").nth(1).unwrap_or_default();
        let part = |n| path.split('/').nth(n).unwrap_or_default();
        Self { project: part(1), location: part(3), pool: part(5), name: part(7) }
    }
}

pub(crate) fn documents(
    trusted: &TrustSubject,
    runner: &Gke,
    storage: &StateStorage,
) -> Vec<Document> {
    let (cluster, auth) = (&runner.cluster, &runner.cluster.auth);
    let provider = Provider::of(&auth.gcp_audience);
    let (pool, location) = (provider.pool, provider.location);
    let pool_path =
        format!("projects/{}/locations/{location}/workloadIdentityPools/{pool}", provider.project);
    let member = format!("principal://iam.googleapis.com/{pool_path}/subject/{}", trusted.subject);
    let account = &auth.gcp_service_account;
    // Without a list of audiences, Google accepts both forms of the provider's own name.
    let mut documents = vec![
        Document::json(
            "Workload identity provider",
            format!(
                "project {}, once for all runners there: gcloud iam workload-identity-pools create \
                 {pool} --location={location}; gcloud iam workload-identity-pools providers \
                 create-oidc {} --workload-identity-pool={pool} --location={location} \
                 --issuer-uri={} --attribute-mapping=google.subject=assertion.sub \
                 --attribute-condition=\"{RUNNERS_ALONE}\"",
                provider.project, provider.name, trusted.issuer
            ),
            &json!({
                "name": format!("{pool_path}/providers/{}", provider.name),
                "attributeMapping": { "google.subject": "assertion.sub" },
                "attributeCondition": RUNNERS_ALONE,
                "oidc": { "issuerUri": trusted.issuer },
            }),
        ),
        Document::json(
            "Binding of the service account",
            format!(
                "gcloud iam service-accounts add-iam-policy-binding {account} \
                 --role=roles/iam.workloadIdentityUser --member={member}"
            ),
            &json!({
                "role": "roles/iam.workloadIdentityUser",
                "members": [member],
            }),
        ),
        Document::json(
            "Binding of the project",
            format!(
                "gcloud projects add-iam-policy-binding {} --role=roles/container.clusterViewer \
                 --member=serviceAccount:{account}",
                cluster.project_id
            ),
            &json!({
                "role": "roles/container.clusterViewer",
                "members": [format!("serviceAccount:{account}")],
            }),
        ),
    ];
    documents.extend(cluster_documents(&runner.job, storage, &User::Named(account.clone())));
    documents
}
