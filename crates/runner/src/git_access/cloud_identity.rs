//! The job's own identity at clouds, as proof for their git servers.

use super::NoToken;
use super::code_commit::Keys;
use crate::session::ApiConnection;
use crate::sign_in::{Access, CallError, SignedIn, aws, azure};
use canyon_domain::git_credentials::cloud::code_commit_region;
use canyon_domain::git_credentials::repository_prefix::RepositoryPrefix;
use canyon_domain::job::Job;
use secrecy::SecretString;
use std::time::Duration;
use tokio::time::Instant;

/// Azure DevOps as a resource of Microsoft Entra. Azure Repos takes its token in the header `Authorization: Bearer`
/// (<https://learn.microsoft.com/azure/devops/repos/git/auth-overview>).
const AZURE_DEVOPS: &str = "499b84ac-1321-427f-aa17-267ca6975798/.default";
/// How long signing in may take, at all clouds together. The runner does not report before, because it must mask what it gets,
/// and one that does not report for a minute counts as dead.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What the job has at each cloud, or why it has nothing there. It signs in at each once.
pub(super) struct Identities<'a> {
    job: &'a Job,
    api: &'a ApiConnection,
    /// Since it has begun to sign in.
    deadline: Option<Instant>,
    aws: Option<Result<SignedIn<Keys>, NoToken>>,
    azure: Option<Result<SignedIn<SecretString>, NoToken>>,
}

impl<'a> Identities<'a> {
    pub(super) fn new(job: &'a Job, api: &'a ApiConnection) -> Self {
        Self { job, api, deadline: None, aws: None, azure: None }
    }

    /// The keys with which the job signs for `repositories`, and the region to sign for.
    pub(super) async fn aws(
        &mut self,
        repositories: &RepositoryPrefix,
    ) -> Result<(SignedIn<Keys>, String), NoToken> {
        let (access, deadline) = (self.access()?, self.deadline());
        let region = region(repositories, &access)?;
        let signed_in = match &self.aws {
            Some(known) => known.clone(),
            None => in_time("AWS", deadline, aws::sign_in(&region, &access)).await.map(|found| {
                SignedIn { proof: Keys::from(&found.proof), identity: found.identity }
            }),
        };
        self.aws = Some(signed_in.clone());
        signed_in.map(|signed_in| (signed_in, region))
    }

    /// The job's token for Azure Repos.
    pub(super) async fn azure(&mut self) -> Result<SignedIn<SecretString>, NoToken> {
        let (access, deadline) = (self.access()?, self.deadline());
        let signed_in = match &self.azure {
            Some(known) => known.clone(),
            None => {
                in_time("Microsoft Entra", deadline, azure::sign_in(AZURE_DEVOPS, &access)).await
            }
        };
        self.azure = Some(signed_in.clone());
        signed_in
    }

    fn deadline(&mut self) -> Instant {
        *self.deadline.get_or_insert_with(|| Instant::now() + TIMEOUT)
    }

    fn access(&self) -> Result<Access<'a>, NoToken> {
        Access::new(self.job, self.api).map_err(refused)
    }
}

/// The region of the address; for one of this machine, that of the job.
fn region(repositories: &RepositoryPrefix, access: &Access<'_>) -> Result<String, NoToken> {
    if let Some(region) = code_commit_region(repositories.host()) {
        return Ok(region.to_owned());
    }
    let of_identity = access.job.identity.as_ref().and_then(|of| of.aws.as_ref()?.region.clone());
    let of_environment =
        || ["AWS_REGION", "AWS_DEFAULT_REGION"].iter().find_map(|name| access.variable(name));
    of_identity.or_else(of_environment).ok_or_else(|| {
        refused(
            "its address names no region: set `job.identity.aws.region` of the runner".to_owned(),
        )
    })
}

async fn in_time<T>(
    of: &str,
    deadline: Instant,
    signing_in: impl Future<Output = Result<T, CallError>>,
) -> Result<T, NoToken> {
    match tokio::time::timeout_at(deadline, signing_in).await {
        Ok(Ok(signed_in)) => Ok(signed_in),
        Ok(Err(CallError::Refused(reason))) => Err(refused(reason)),
        Ok(Err(CallError::Unreachable(reason))) => Err(NoToken { reason, unreachable: true }),
        Err(_) => {
            let reason = format!("{of} has not answered within {} s", TIMEOUT.as_secs());
            Err(NoToken { reason, unreachable: true })
        }
    }
}

fn refused(reason: String) -> NoToken {
    NoToken { reason, unreachable: false }
}
