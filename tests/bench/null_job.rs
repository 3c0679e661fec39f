//! A job without work: it claims its attempt, and reports success.

use canyon_api::attempt::{ClaimBody, DeploymentResultsUpdateBody, ResultStatus, environment_of};
use canyon_api::client::{Client, ClientError};
use std::collections::BTreeMap;

/// Runs the job of an attempt, as the process `claimant`. `code` is its claim code; `client` only gives the address and
/// the organization.
pub(crate) async fn run(
    client: &Client,
    deployment: &str,
    attempt: u32,
    code: String,
    claimant: String,
) -> Result<(), ClientError> {
    let body = ClaimBody {
        claimant,
        host: None,
        user: None,
        job_format: Some(canyon_domain::job::FORMAT),
    };
    let claimed = client.with_token(code.into()).claim(deployment, attempt, &body).await?;
    let environment = environment_of(&claimed.job.project_id, &claimed.job.env_id);
    let client = client.with_token(claimed.token.into());
    client.post_result(deployment, attempt, &environment, &success()).await
}

fn success() -> DeploymentResultsUpdateBody {
    DeploymentResultsUpdateBody {
        status: ResultStatus::Success,
        outputs: None,
        error: None,
        tf_resource_counts: None,
        state: None,
        unwritten: None,
        fetched: None,
        plan: None,
        stale_plan: false,
        drift: None,
        policy: None,
        refused_deletions: None,
        metadata: None,
        phase: None,
        untouched: false,
        failure: None,
        plain_outputs: BTreeMap::new(),
        secret_outputs: BTreeMap::new(),
        orphans: Vec::new(),
        chunks: Vec::new(),
    }
}
