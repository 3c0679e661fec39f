//! The clouds' state: one account, one pool and one tenant that trust a runner.

use canyon_domain::runner::aks::AzureAuth;
use canyon_domain::runner::eks::AwsAuth;
use canyon_domain::runner::gke::GcpAuth;
use canyon_identity::federation::RunnerIdentity;
use serde_json::{Value, json};

pub(crate) const ROLE: &str = "arn:aws:iam::123456789012:role/canyon-runner";
pub(crate) const PROVIDER: &str =
    "projects/123456789012/locations/global/workloadIdentityPools/my-wif-pool/providers/canyon";
const SERVICE_ACCOUNT: &str = "canyon@my-gcp-project.iam.gserviceaccount.com";
pub(crate) const TENANT: &str = "11111111-1111-4111-8111-111111111111";
pub(crate) const CLIENT: &str = "22222222-2222-4222-8222-222222222222";

pub(crate) fn aws_auth() -> AwsAuth {
    AwsAuth { role_arn: ROLE.to_owned(), session_name: None, sts_region: None }
}

pub(crate) fn gcp_auth() -> GcpAuth {
    GcpAuth {
        gcp_audience: format!("//iam.googleapis.com/{PROVIDER}"),
        gcp_service_account: SERVICE_ACCOUNT.to_owned(),
    }
}

pub(crate) fn azure_auth() -> AzureAuth {
    AzureAuth { tenant_id: TENANT.to_owned(), client_id: CLIENT.to_owned() }
}

/// An AWS account whose role trusts `who`.
pub(crate) fn account(issuer: &str, who: RunnerIdentity) -> Value {
    json!({
        "oidc_providers": [{ "url": issuer, "client_ids": ["sts.amazonaws.com"] }],
        "roles": { "canyon-runner": role(issuer, &who.subject()) },
    })
}

/// A role with the trust policy of Canyon's documentation.
pub(crate) fn role(issuer: &str, subject: &str) -> Value {
    let host = issuer.strip_prefix("https://").unwrap();
    json!({
        "trust_policy": {
            "Version": "2012-10-17",
            "Statement": [{
                "Effect": "Allow",
                "Principal": { "Federated": format!("arn:aws:iam::123456789012:oidc-provider/{host}") },
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": { "StringEquals": {
                    format!("{host}:aud"): "sts.amazonaws.com",
                    format!("{host}:sub"): subject,
                }},
            }],
        },
    })
}

/// A Google Cloud whose provider trusts Canyon, and whose service account `who` may use.
pub(crate) fn provider(issuer: &str, who: RunnerIdentity) -> Value {
    let pool = PROVIDER.split_once("/providers/").unwrap().0;
    let member = format!("principal://iam.googleapis.com/{pool}/subject/{}", who.subject());
    json!({
        "providers": [{
            "name": PROVIDER,
            "issuer": issuer,
            "attribute_mapping": { "google.subject": "assertion.sub" },
            "attribute_condition": format!("assertion.sub.startsWith('org:{}:')", who.org),
        }],
        "service_accounts": { SERVICE_ACCOUNT: {
            "bindings": [{ "role": "roles/iam.workloadIdentityUser", "members": [member] }],
        }},
    })
}

/// An Entra tenant with an application that has `who` as a federated credential.
pub(crate) fn application(issuer: &str, who: RunnerIdentity) -> Value {
    json!({ "tenants": { TENANT: { "applications": { CLIENT: {
        "object_id": "33333333-3333-4333-8333-333333333333",
        "federated_credentials": [{
            "issuer": issuer,
            "subject": who.subject(),
            "audiences": ["api://AzureADTokenExchange"],
        }],
    }}}}})
}
