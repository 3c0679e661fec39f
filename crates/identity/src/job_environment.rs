//! The variables that a runner needs before it claims its attempt.

use crate::bearer::AttemptRef;
use canyon_domain::ids::OrgId;
use secrecy::SecretString;
use std::collections::BTreeMap;

/// The variables of a job: the address of the API, the attempt, and the claim code. Equal for every
/// start of the attempt. Everyone who may read the job on its platform can read them.
pub fn job_environment(
    api_url: &str,
    org: &OrgId,
    of: AttemptRef,
    claim_code: SecretString,
) -> BTreeMap<String, SecretString> {
    [
        ("CANYON_API_URL", api_url.into()),
        ("CANYON_ORG", org.as_str().into()),
        ("CANYON_DEPLOYMENT_ID", of.deployment.to_string().into()),
        ("CANYON_ATTEMPT", of.number.to_string().into()),
        ("CANYON_CLAIM_CODE", claim_code),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
