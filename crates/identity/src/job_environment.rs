//! What a runner must know before it has claimed its attempt.

use crate::bearer::AttemptRef;
use canyon_domain::ids::OrgId;
use secrecy::SecretString;
use std::collections::BTreeMap;

/// The variables of a job: where the API is, which attempt is meant, and the claim code. The same for
/// every start of the attempt. Anybody who may look at the job on its platform can read them.
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
