//! The variables through which the clouds' libraries, their providers and OpenTofu's backends find the files.

use super::files::Files;
use canyon_domain::job_identity::{
    AwsIdentity, AzureIdentity, GcpIdentity, JobIdentity, TokenPhase,
};
use std::path::Path;

/// Variables that the platform may set and that would take precedence over the files: keys, and switches to other
/// ways to authenticate. A job with an identity of its own does not get them.
const AWS_OVERRIDES: [&str; 5] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
];
const GCP_OVERRIDES: [&str; 6] = [
    "GOOGLE_CREDENTIALS",
    "GCLOUD_KEYFILE_JSON",
    "GOOGLE_BACKEND_CREDENTIALS",
    "GOOGLE_CLOUD_KEYFILE_JSON",
    "GOOGLE_OAUTH_ACCESS_TOKEN",
    "GOOGLE_IMPERSONATE_SERVICE_ACCOUNT",
];
const AZURE_OVERRIDES: [&str; 10] = [
    "ARM_CLIENT_SECRET",
    "ARM_CLIENT_SECRET_FILE_PATH",
    "ARM_CLIENT_CERTIFICATE",
    "ARM_CLIENT_CERTIFICATE_PATH",
    "ARM_USE_MSI",
    "ARM_USE_AKS_WORKLOAD_IDENTITY",
    "ARM_OIDC_TOKEN",
    "ARM_ACCESS_KEY",
    "AZURE_CLIENT_SECRET",
    "AZURE_CLIENT_CERTIFICATE_PATH",
];

/// Whether the variable `name`, which the platform set, would take precedence over the files of `of`.
pub fn overrides_identity(of: &JobIdentity, name: &str) -> bool {
    of.aws.is_some() && AWS_OVERRIDES.contains(&name)
        || of.gcp.is_some() && GCP_OVERRIDES.contains(&name)
        || of.azure.is_some() && AZURE_OVERRIDES.contains(&name)
}

/// The variables in `phase`. `session` is the session name that AWS shows.
pub fn variables(
    of: &JobIdentity,
    files: &Files,
    phase: TokenPhase,
    session: &str,
) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    let mut set = |name: &str, value: &str| variables.push((name.to_owned(), value.to_owned()));
    if let Some(aws) = &of.aws {
        for_aws(aws, &files.aws(), phase, session, &mut set);
    }
    if let Some(gcp) = &of.gcp {
        for_gcp(gcp, &files.gcp_settings(), &mut set);
    }
    if let Some(azure) = &of.azure {
        for_azure(azure, &files.azure(), phase, &mut set);
    }
    for named in of.tokens.iter().flatten() {
        set(&named.variable(), &text(&files.named(named)));
    }
    variables
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// AWS SDKs and Tools Reference Guide, "Assume role credential provider". A job with an identity must not use the
/// machine's own role, so its metadata service is disabled.
fn for_aws(
    aws: &AwsIdentity,
    token: &Path,
    phase: TokenPhase,
    session: &str,
    set: &mut impl FnMut(&str, &str),
) {
    set("AWS_WEB_IDENTITY_TOKEN_FILE", &text(token));
    set("AWS_ROLE_ARN", aws.role(phase));
    set("AWS_ROLE_SESSION_NAME", session);
    set("AWS_EC2_METADATA_DISABLED", "true");
    if let Some(region) = &aws.region {
        set("AWS_REGION", region);
    }
}

/// Google's "Application Default Credentials", which its provider and OpenTofu's backend `gcs` use.
fn for_gcp(gcp: &GcpIdentity, settings: &Path, set: &mut impl FnMut(&str, &str)) {
    set("GOOGLE_APPLICATION_CREDENTIALS", &text(settings));
    if let Some(project) = &gcp.project_id {
        set("GOOGLE_PROJECT", project);
        set("GOOGLE_CLOUD_PROJECT", project);
    }
}

/// `ARM_` for the providers and OpenTofu's backend `azurerm`, `AZURE_` for the libraries ("Workload
/// identity" of the Azure Identity library).
fn for_azure(
    azure: &AzureIdentity,
    token: &Path,
    phase: TokenPhase,
    set: &mut impl FnMut(&str, &str),
) {
    let (token, client) = (text(token), azure.client(phase));
    set("ARM_USE_OIDC", "true");
    set("ARM_OIDC_TOKEN_FILE_PATH", &token);
    set("ARM_CLIENT_ID", client);
    set("ARM_TENANT_ID", &azure.tenant_id);
    set("AZURE_FEDERATED_TOKEN_FILE", &token);
    set("AZURE_CLIENT_ID", client);
    set("AZURE_TENANT_ID", &azure.tenant_id);
    set("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com/");
    if let Some(subscription) = &azure.subscription_id {
        set("ARM_SUBSCRIPTION_ID", subscription);
    }
}
