//! Signs a job in at a cloud, as the runner itself needs it: with the job's own identity, which is Canyon's token of the phase
//! `plan`, or what the job's platform gives it.

pub(crate) mod answer;
pub(crate) mod aws;
pub(crate) mod azure;
pub(crate) mod gcp;

use crate::session::ApiConnection;
use answer::Calls;
use canyon_api::job_token::IssueTokenBody;
use canyon_domain::causes::Causes;
use canyon_domain::job::Job;
use canyon_domain::job_identity::TokenPhase;
use canyon_domain::variables::job::JobVariable;
use secrecy::SecretString;
use serde::Deserialize;
use std::collections::HashMap;

/// Why a call gave nothing. The texts never have a secret.
#[derive(Clone, Debug)]
pub(crate) enum CallError {
    /// The server, or what the job signs in at, refuses.
    Refused(String),
    /// It does not answer; another attempt may succeed.
    Unreachable(String),
}

/// What the job has at a cloud: `T` is a token, or keys to sign requests with.
#[derive(Clone)]
pub(crate) struct SignedIn<T> {
    pub(crate) proof: T,
    /// As whom, for messages.
    pub(crate) identity: String,
}

/// A token service's answer. Google's API for service accounts spells it in camel case.
#[derive(Deserialize)]
struct Granted {
    #[serde(alias = "accessToken")]
    access_token: SecretString,
}

/// What a job needs to sign in.
pub(crate) struct Access<'a> {
    pub(crate) job: &'a Job,
    pub(crate) api: &'a ApiConnection,
    pub(crate) calls: Calls,
    /// The job's environment variables that the definition and the organization set.
    pub(crate) environment: HashMap<String, String>,
}

impl<'a> Access<'a> {
    /// # Errors
    ///
    /// The reason, such as that the machine has no root certificates.
    pub(crate) fn new(job: &'a Job, api: &'a ApiConnection) -> Result<Self, String> {
        let calls = Calls::new()?;
        let mut environment: HashMap<_, _> = job.environment.clone().into_iter().collect();
        let kept = job.variables.iter().filter_map(JobVariable::environment);
        environment.extend(kept.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Ok(Self { job, api, calls, environment })
    }

    /// A variable of the job's environment, else of the platform's.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        let given = self.environment.get(name).cloned();
        given.or_else(|| std::env::var(name).ok()).filter(|text| !text.is_empty())
    }

    /// Canyon's token for `audience`.
    pub(crate) async fn token(&self, audience: &str) -> Result<SecretString, CallError> {
        let body = IssueTokenBody { audience: audience.to_owned(), phase: TokenPhase::Plan };
        let issued = self.api.issue_token(&body).await.map_err(|error| {
            let reason =
                format!("Canyon gives the job no token for `{audience}`: {}", Causes(&error));
            if error.is_final() {
                CallError::Refused(reason)
            } else {
                CallError::Unreachable(reason)
            }
        })?;
        Ok(issued.token.into())
    }
}
