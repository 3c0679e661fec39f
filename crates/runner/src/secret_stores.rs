//! Reads the variables of a job whose values secret stores keep.
//!
//! The runner reads them before the run begins, because it must mask them in the first line of the log. It signs in with
//! the job's own identity: Canyon's token of the phase `plan`, or what the job's platform gives it.

mod answer;
mod aws;
mod azure;
mod gcp;
mod kubernetes;
mod vault;

use crate::session::ApiConnection;
use crate::stop::{Stop, StopRequest};
use crate::verdict;
use answer::Calls;
use canyon_api::job_token::IssueTokenBody;
use canyon_domain::causes::Causes;
use canyon_domain::failure::{Failure, FailureClass, Phase};
use canyon_domain::job::Job;
use canyon_domain::job_identity::TokenPhase;
use canyon_domain::json::Json;
use canyon_domain::secret_reference::{SecretReference, SecretStoreId};
use canyon_domain::secret_store::StoreConfiguration;
use canyon_domain::variables::edit::secret_fault;
use canyon_domain::variables::job::{JobVariable, StoredVariable};
use canyon_domain::variables::secret_json::SecretJson;
use canyon_domain::variables::{MAX_VALUE_BYTES, VariableKey, VariableKind};
use secrecy::SecretString;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

/// How long reading all secrets may take. A runner that does not report for a minute counts as dead.
const TIME: Duration = Duration::from_secs(45);

/// Why a secret could not be read. The texts never have a value.
#[derive(Debug)]
pub(super) enum Unread {
    /// The store, or what the job signs in at, refuses.
    Refused(String),
    /// It does not answer; another attempt may succeed.
    Unreachable(String),
}

/// What a job needs to sign in.
pub(super) struct Access<'a> {
    job: &'a Job,
    api: &'a ApiConnection,
    calls: Calls,
    /// The job's environment variables that the definition and the organization set.
    environment: HashMap<String, String>,
}

/// A store, signed in.
enum Store {
    Aws(aws::Aws),
    Gcp(gcp::Gcp),
    Azure(azure::Azure),
    Vault(vault::Vault),
    Kubernetes(kubernetes::Kubernetes),
}

/// Reads the stored variables of `job`, and adds them to its variables.
///
/// # Errors
///
/// A [`Failure`] that names the variable, the store, the secret and the identity, when one cannot be read; another one when
/// the run is to stop.
pub async fn read(job: &mut Job, api: &ApiConnection, stop: &Stop) -> Result<(), Failure> {
    if job.stored_variables.is_empty() {
        return Ok(());
    }
    let stored = std::mem::take(&mut job.stored_variables);
    let silent = || {
        let message = format!("the secret stores have not answered within {} s", TIME.as_secs());
        Failure::new(FailureClass::Unreachable, message)
    };
    let reading = tokio::time::timeout(TIME, read_all(job, api, stored));
    let found = tokio::select! {
        found = reading => found.map_err(|_| silent())??,
        () = stop.reached(StopRequest::Stop) => return Err(verdict::cancelled(Phase::Fetch, false)),
    };
    job.variables.extend(found);
    Ok(())
}

async fn read_all(
    job: &Job,
    api: &ApiConnection,
    stored: Vec<StoredVariable>,
) -> Result<Vec<JobVariable>, Failure> {
    let access = Access::new(job, api)?;
    let mut signed_in: HashMap<SecretStoreId, Store> = HashMap::new();
    let mut secrets: HashMap<(SecretStoreId, String, Option<String>), SecretJson> = HashMap::new();
    let mut found = Vec::new();
    for variable in stored {
        let StoredVariable { kind, name, reference, store: configuration, from } = variable;
        let (secret, member) = reference.parts();
        let key = (reference.store.clone(), secret.to_owned(), reference.version.clone());
        let fail = |as_whom: &str, unread: Unread| {
            let variable = VariableKey { kind, name: name.clone() };
            unreadable(&format!("`{variable}` of {from}"), &reference, as_whom, unread)
        };
        let store = match signed_in.entry(reference.store.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let store = Store::sign_in(&configuration, &access).await;
                new.insert(store.map_err(|unread| fail("the job", unread))?)
            }
        };
        let secret = match secrets.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let read = store.secret(&access.calls, secret, reference.version.as_deref()).await;
                new.insert(read.map_err(|unread| fail(store.identity(), unread))?.into())
            }
        };
        let value = value_of(secret.expose(), member, kind);
        let value = value.map_err(|reason| fail(store.identity(), Unread::Refused(reason)))?;
        let (value, is_input) = (value.into(), false);
        found.push(JobVariable { kind, name, value, secret: true, from, is_input });
    }
    Ok(found)
}

fn unreadable(variable: &str, of: &SecretReference, as_whom: &str, unread: Unread) -> Failure {
    let (class, reason) = match unread {
        Unread::Refused(reason) => (FailureClass::Config, reason),
        Unread::Unreachable(reason) => (FailureClass::Unreachable, reason),
    };
    let message = format!(
        "the variable {variable} cannot be read from the secret store {of}, as {as_whom}: {reason}"
    );
    Failure::new(class, message)
}

/// The value of a variable: the secret, or one member of it.
fn value_of(secret: &Json, member: Option<&str>, kind: VariableKind) -> Result<Json, String> {
    let value = match member {
        None => secret.clone(),
        Some(member) => {
            let parsed;
            let object = match secret {
                Json::String(text) => {
                    parsed = Json::parse(text).map_err(|_| no_object())?;
                    &parsed
                }
                other => other,
            };
            let Json::Object(fields) = object else { return Err(no_object()) };
            let found = fields.get(member);
            found.cloned().ok_or_else(|| format!("the secret has no member `{member}`"))?
        }
    };
    let value = match (kind, value) {
        (VariableKind::Environment, Json::String(text)) if text.contains('\0') => {
            return Err("it has a NUL character, which no environment variable can have".to_owned());
        }
        (_, Json::Null) => return Err("it is `null`".to_owned()),
        (_, text @ Json::String(_)) => text,
        (VariableKind::Environment, other) => Json::String(other.to_string()),
        (VariableKind::Terraform, other) => other,
    };
    if value.to_string().len() > MAX_VALUE_BYTES {
        return Err(format!("it has more than {} KiB", MAX_VALUE_BYTES / 1024));
    }
    secret_fault(&value).map_or(Ok(value), |fault| Err(format!("it {fault}")))
}

fn no_object() -> String {
    "the secret is no JSON object, so it has no members; leave out `#` and what follows".to_owned()
}

impl<'a> Access<'a> {
    fn new(job: &'a Job, api: &'a ApiConnection) -> Result<Self, Failure> {
        let calls = Calls::new().map_err(|reason| Failure::new(FailureClass::Config, reason))?;
        let mut environment: HashMap<_, _> = job.environment.clone().into_iter().collect();
        let kept = job.variables.iter().filter_map(JobVariable::environment);
        environment.extend(kept.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Ok(Self { job, api, calls, environment })
    }

    /// A variable of the job's environment, else of the platform's.
    fn variable(&self, name: &str) -> Option<String> {
        let given = self.environment.get(name).cloned();
        given.or_else(|| std::env::var(name).ok()).filter(|text| !text.is_empty())
    }

    /// Canyon's token for `audience`.
    async fn token(&self, audience: &str) -> Result<SecretString, Unread> {
        let body = IssueTokenBody { audience: audience.to_owned(), phase: TokenPhase::Plan };
        let issued = self.api.issue_token(&body).await.map_err(|error| {
            let reason =
                format!("Canyon gives the job no token for `{audience}`: {}", Causes(&error));
            if error.is_final() { Unread::Refused(reason) } else { Unread::Unreachable(reason) }
        })?;
        Ok(issued.token.into())
    }
}

impl Store {
    async fn sign_in(of: &StoreConfiguration, access: &Access<'_>) -> Result<Self, Unread> {
        Ok(match of {
            StoreConfiguration::AwsSecretsManager { region, endpoint } => Self::Aws(
                aws::Aws::sign_in(
                    aws::Service::SecretsManager,
                    region,
                    endpoint.as_deref(),
                    access,
                )
                .await?,
            ),
            StoreConfiguration::AwsSsm { region, endpoint } => Self::Aws(
                aws::Aws::sign_in(aws::Service::Ssm, region, endpoint.as_deref(), access).await?,
            ),
            StoreConfiguration::GcpSecretManager { project_id, endpoint } => {
                Self::Gcp(gcp::Gcp::sign_in(project_id, endpoint.as_deref(), access).await?)
            }
            StoreConfiguration::AzureKeyVault { url } => {
                Self::Azure(azure::Azure::sign_in(url, access).await?)
            }
            StoreConfiguration::Vault { .. } => {
                Self::Vault(vault::Vault::sign_in(of, access).await?)
            }
            StoreConfiguration::KubernetesSecret { namespace } => {
                Self::Kubernetes(kubernetes::Kubernetes::sign_in(namespace.as_deref(), access)?)
            }
        })
    }

    /// As whom the job reads.
    fn identity(&self) -> &str {
        match self {
            Self::Aws(store) => store.identity(),
            Self::Gcp(store) => store.identity(),
            Self::Azure(store) => store.identity(),
            Self::Vault(store) => store.identity(),
            Self::Kubernetes(store) => store.identity(),
        }
    }

    async fn secret(
        &self,
        calls: &Calls,
        name: &str,
        version: Option<&str>,
    ) -> Result<Json, Unread> {
        match self {
            Self::Aws(store) => store.secret(calls, name, version).await,
            Self::Gcp(store) => store.secret(calls, name, version).await,
            Self::Azure(store) => store.secret(calls, name, version).await,
            Self::Vault(store) => store.secret(calls, name, version).await,
            Self::Kubernetes(store) => store.secret(name).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn a_value_is_the_secret_or_one_member_of_it() {
        use VariableKind::{Environment, Terraform};
        let text = json(r#""{\"user\":\"app\",\"password\":\"hunter22\",\"ports\":[5432,5433]}""#);
        let object = json(r#"{"password":"hunter22","port":5432678,"none":null,"pin":"1234"}"#);
        for (secret, member, kind, expected) in [
            (&text, Some("password"), Terraform, Ok(r#""hunter22""#)),
            (&text, Some("ports"), Terraform, Ok("[5432,5433]")),
            (&text, Some("ports"), Environment, Ok(r#""[5432,5433]""#)),
            (&object, Some("password"), Environment, Ok(r#""hunter22""#)),
            (&object, Some("port"), Environment, Ok(r#""5432678""#)),
            (&object, Some("port"), Terraform, Ok("5432678")),
            (&object, Some("user"), Terraform, Err("the secret has no member `user`")),
            (&object, Some("none"), Terraform, Err("it is `null`")),
            (&object, Some("pin"), Terraform, Err("it is too short for a secret")),
            (&json(r#""plain-text""#), Some("x"), Terraform, Err("the secret is no JSON object")),
            (&json(r#""plain-text""#), None, Terraform, Ok(r#""plain-text""#)),
            (&json(r#""nul\u0000in-it""#), None, Environment, Err("it has a NUL character")),
        ] {
            match (value_of(secret, member, kind), expected) {
                (Ok(value), Ok(expected)) => assert_eq!(value.to_string(), expected),
                (Err(reason), Err(start)) => assert!(reason.starts_with(start), "{reason}"),
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
    }

    #[test]
    fn no_failure_repeats_a_value() {
        let secret = json(r#""hunter22""#);
        let reason = value_of(&secret, Some("password"), VariableKind::Terraform).unwrap_err();
        assert!(!reason.contains("hunter22"), "{reason}");
    }
}
