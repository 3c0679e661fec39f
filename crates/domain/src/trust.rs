//! What a cloud or a cluster must be told so that it lets Canyon in for one runner: the exact
//! documents, made from the runner's definition, with nothing left to fill in that Canyon knows.
//!
//! Each trusts one subject of one issuer for one audience. The lists of permissions are those of the
//! calls that the dispatchers make, and no others.

pub mod aws;
pub mod azure;
pub mod gcp;
pub mod kubernetes;

use crate::ids::{OrgUuid, RunnerId, RunnerUuid};
use crate::job_identity::AZURE_AUDIENCE;
use crate::runner::{RunnerConfiguration, RunnerDefinition};
use serde_json::Value;

/// The claim by which a token for an API server names it, as the runner's definition does.
pub const SERVER_CLAIM: &str = "server";

/// Whom to trust, and what to configure for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The `iss` of Canyon's tokens.
    pub issuer: String,
    /// The `sub` of the tokens about this runner.
    pub subject: String,
    /// Their `aud`; none where the runner is let in otherwise.
    pub audience: Option<String>,
    /// What to configure, in the order in which it is done.
    pub documents: Vec<Document>,
}

/// One thing to configure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// What it is.
    pub title: String,
    /// Where it belongs, or the command that takes it.
    pub place: String,
    /// Its content.
    pub text: String,
}

impl Document {
    fn new(title: &str, place: impl Into<String>, text: impl Into<String>) -> Self {
        let mut text = text.into();
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Self { title: title.to_owned(), place: place.into(), text }
    }

    fn json(title: &str, place: impl Into<String>, value: &Value) -> Self {
        Self::new(title, place, format!("{value:#}"))
    }
}

/// The `sub` of Canyon's tokens about a runner. It names this life of the runner: whoever makes
/// another one of the same name is not trusted.
pub fn subject(org: OrgUuid, runner: RunnerUuid) -> String {
    format!("org:{org}:runner:{runner}")
}

/// A runner, as clouds know it.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// Canyon's name as an issuer.
    pub issuer: &'a str,
    /// Whose runner it is.
    pub org: OrgUuid,
    /// This life of the runner.
    pub uuid: RunnerUuid,
    /// Its name.
    pub id: &'a RunnerId,
}

/// Whom to trust.
struct Party<'a> {
    issuer: &'a str,
    org: OrgUuid,
    subject: &'a str,
    runner: &'a RunnerId,
}

/// What to configure for this runner.
pub fn of_runner(who: Identity, definition: &RunnerDefinition) -> Trust {
    let Identity { issuer, org, uuid, id } = who;
    let subject = subject(org, uuid);
    let party = Party { issuer, org, subject: &subject, runner: id };
    let storage = &definition.state_storage;
    let (audience, documents) = match &definition.configuration {
        RunnerConfiguration::Kubernetes(runner) => {
            let oidc = runner.cluster.auth.oidc.as_ref();
            (oidc.map(|oidc| oidc.audience.clone()), kubernetes::documents(&party, runner, storage))
        }
        RunnerConfiguration::Gke(runner) => (
            Some(runner.cluster.auth.gcp_audience.clone()),
            gcp::documents(&party, runner, storage),
        ),
        RunnerConfiguration::Eks(runner) => {
            let audience = aws::audience(&runner.cluster.auth);
            (Some(audience.to_owned()), aws::eks_documents(&party, runner, storage))
        }
        RunnerConfiguration::Aks(runner) => {
            (Some(AZURE_AUDIENCE.to_owned()), azure::documents(&party, runner, storage))
        }
        RunnerConfiguration::ServerlessEcs(runner) => {
            (Some(aws::audience(&runner.auth).to_owned()), aws::ecs_documents(&party, runner))
        }
        // An agent proves itself to Canyon, and a process of Canyon's own machine needs nobody's trust.
        RunnerConfiguration::KubernetesAgent(_)
        | RunnerConfiguration::EcsAgent(_)
        | RunnerConfiguration::DockerAgent(_)
        | RunnerConfiguration::Local(_) => (None, Vec::new()),
    };
    Trust { issuer: issuer.to_owned(), subject, audience, documents }
}

#[cfg(test)]
mod tests;
