//! The documents that make a cloud or a cluster trust Canyon for one runner, generated from the runner's
//! definition and complete as far as Canyon knows the values.
//!
//! Each trusts one subject of one issuer for one audience. The lists of permissions are exactly those of the
//! calls that the dispatchers make.

pub mod aws;
pub mod azure;
pub mod gcp;
mod jobs;
pub mod kubernetes;

use crate::ids::{OrgId, OrgUuid, RunnerId, RunnerUuid};
use crate::runner::RunnerDefinition;
use serde_json::Value;

/// The claim that names the API server for which a token is made, as the runner's definition names it.
pub const SERVER_CLAIM: &str = "server";

/// What to trust, and the documents to apply for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The `iss` of Canyon's tokens.
    pub issuer: String,
    /// The `sub` of the tokens about this runner.
    pub subject: String,
    /// Their `aud`; `None` if the runner authenticates otherwise.
    pub audience: Option<String>,
    /// The documents, in the order in which to apply them.
    pub documents: Vec<Document>,
}

/// One document to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Its title.
    pub title: String,
    /// Where it belongs, or the command that applies it.
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

/// The `sub` of Canyon's tokens about a runner. It contains the runner's uuid, so another runner with the
/// same name is not trusted.
pub fn subject(org: OrgUuid, runner: RunnerUuid) -> String {
    format!("org:{org}:runner:{runner}")
}

/// A runner's identity for clouds.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// Canyon's name as an issuer.
    pub issuer: &'a str,
    /// Its name as the issuer of jobs' tokens.
    pub jobs_issuer: &'a str,
    /// The organization's name, which jobs' tokens have.
    pub org_id: &'a OrgId,
    /// The organization.
    pub org: OrgUuid,
    /// The runner's uuid.
    pub uuid: RunnerUuid,
    /// Its name.
    pub id: &'a RunnerId,
}

/// What a type of runner needs at its platform.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// The `aud` of Canyon's tokens; `None` if the runner authenticates otherwise.
    pub(crate) audience: Option<String>,
    /// The documents, in the order in which to apply them.
    pub(crate) documents: Vec<Document>,
}

/// The subject to trust.
#[derive(Debug)]
pub(crate) struct TrustSubject<'a> {
    issuer: &'a str,
    org: OrgUuid,
    subject: &'a str,
    runner: &'a RunnerId,
}

/// The trust documents of this runner.
pub fn of_runner(who: Identity, definition: &RunnerDefinition) -> Trust {
    let Identity { issuer, jobs_issuer, org_id, org, uuid, id } = who;
    let subject = subject(org, uuid);
    let trusted = TrustSubject { issuer, org, subject: &subject, runner: id };
    let Grants { audience, mut documents } =
        definition.configuration.grants(&trusted, &definition.state_storage);
    let jobs = jobs::JobSubjects { issuer: jobs_issuer, org: org_id };
    let of_jobs = definition.configuration.job_identity().map(|identity| jobs.documents(identity));
    documents.extend(of_jobs.into_iter().flatten());
    Trust { issuer: issuer.to_owned(), subject, audience, documents }
}

#[cfg(test)]
mod tests;
