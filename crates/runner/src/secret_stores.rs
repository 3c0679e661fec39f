//! Reads the variables of a job whose values secret stores keep.
//!
//! The runner reads them before the run begins, because it must mask them in the first line of the log. It signs in with
//! the job's own identity: Canyon's token of the phase `plan`, or what the job's platform gives it.

mod aws;
mod azure;
mod gcp;
mod kubernetes;
mod vault;

use crate::session::ApiConnection;
use crate::sign_in::answer::Calls;
use crate::sign_in::{Access, CallError};
use crate::stop::{Stop, StopRequest};
use crate::verdict;
use canyon_domain::failure::{Failure, FailureClass, Phase};
use canyon_domain::job::Job;
use canyon_domain::json::Json;
use canyon_domain::secret_reference::{SecretReference, SecretStoreId};
use canyon_domain::secret_store::StoreConfiguration;
use canyon_domain::variables::edit::secret_fault;
use canyon_domain::variables::job::{JobVariable, StoredVariable};
use canyon_domain::variables::secret_json::SecretJson;
use canyon_domain::variables::{MAX_VALUE_BYTES, VariableKey, VariableKind};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

/// How long reading all secrets may take. A runner that does not report for a minute counts as dead.
const TIME: Duration = Duration::from_secs(45);

/// A store, signed in.
enum Store {
    Aws(aws::Aws),
    Gcp(gcp::Gcp),
    Azure(azure::Azure),
    Vault(vault::Vault),
    Kubernetes(kubernetes::Kubernetes),
}

/// A variable whose secret cannot be read.
#[derive(Debug)]
pub struct Unread {
    /// The variable.
    pub variable: VariableKey,
    /// The failure of a run that needs it. It names the variable, the store, the secret and the identity.
    pub failure: Failure,
}

/// Reads the stored variables of `job`, and adds them to its variables. Returns those that cannot be read and that the run
/// may not need: a module needs the variables that it declares, and a command that shows nothing of the state needs none.
///
/// # Errors
///
/// The [`Failure`] of a variable that the run needs in any case; another one when the run is to stop.
pub async fn read(job: &mut Job, api: &ApiConnection, stop: &Stop) -> Result<Vec<Unread>, Failure> {
    if job.stored_variables.is_empty() {
        return Ok(Vec::new());
    }
    let stored = std::mem::take(&mut job.stored_variables);
    let silent = || {
        let message = format!("the secret stores have not answered within {} s", TIME.as_secs());
        Failure::new(FailureClass::Unreachable, message)
    };
    let reading = tokio::time::timeout(TIME, read_all(job, api, stored));
    let (found, unread) = tokio::select! {
        found = reading => found.map_err(|_| silent())??,
        () = stop.reached(StopRequest::Stop) => return Err(verdict::cancelled(Phase::Fetch, false)),
    };
    job.variables.extend(found);
    let needs = |one: &Unread| match &job.bundle.state_command {
        Some(command) => command.reads_secrets() || command.needs_module(),
        None => one.variable.kind == VariableKind::Environment,
    };
    let (needed, others): (Vec<_>, Vec<_>) = unread.into_iter().partition(needs);
    match needed.into_iter().next() {
        Some(Unread { failure, .. }) => Err(failure),
        None => Ok(others),
    }
}

async fn read_all(
    job: &Job,
    api: &ApiConnection,
    stored: Vec<StoredVariable>,
) -> Result<(Vec<JobVariable>, Vec<Unread>), Failure> {
    let access =
        Access::new(job, api).map_err(|reason| Failure::new(FailureClass::Config, reason))?;
    let mut reader = Reader { access, signed_in: HashMap::new(), secrets: HashMap::new() };
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    for variable in stored {
        match reader.read(&variable).await {
            Ok(value) => {
                let StoredVariable { kind, name, from, .. } = variable;
                let (value, secret, is_input) = (value.into(), true, false);
                found.push(JobVariable { kind, name, value, secret, from, is_input });
            }
            Err(failure) => {
                let StoredVariable { kind, name, .. } = variable;
                unread.push(Unread { variable: VariableKey { kind, name }, failure });
            }
        }
    }
    Ok((found, unread))
}

/// Reads each secret once, and signs in to each store once.
struct Reader<'a> {
    access: Access<'a>,
    signed_in: HashMap<SecretStoreId, Result<Store, CallError>>,
    secrets: HashMap<(SecretStoreId, String, Option<String>), SecretJson>,
}

impl Reader<'_> {
    async fn read(&mut self, variable: &StoredVariable) -> Result<Json, Failure> {
        let StoredVariable { kind, name, reference, store: configuration, from } = variable;
        let (secret, member) = reference.parts();
        let key = (reference.store.clone(), secret.to_owned(), reference.version.clone());
        let fail = |as_whom: &str, unread: CallError| {
            let variable = VariableKey { kind: *kind, name: name.clone() };
            unreadable(&format!("`{variable}` of {from}"), reference, as_whom, unread)
        };
        let store = match self.signed_in.entry(reference.store.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Store::sign_in(configuration, &self.access).await),
        };
        let store = store.as_ref().map_err(|unread| fail("the job", unread.clone()))?;
        let secret = match self.secrets.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let version = reference.version.as_deref();
                let read = store.secret(&self.access.calls, secret, version).await;
                new.insert(read.map_err(|unread| fail(store.identity(), unread))?.into())
            }
        };
        let value = value_of(secret.expose(), member, *kind);
        value.map_err(|reason| fail(store.identity(), CallError::Refused(reason)))
    }
}

fn unreadable(variable: &str, of: &SecretReference, as_whom: &str, unread: CallError) -> Failure {
    let (class, reason) = match unread {
        CallError::Refused(reason) => (FailureClass::Config, reason),
        CallError::Unreachable(reason) => (FailureClass::Unreachable, reason),
    };
    let message = format!(
        "the variable {variable} cannot be read from the secret store {of}, as {as_whom}: {reason}"
    );
    Failure::new(class, message)
}

/// The secret as a whole. In stores whose secrets are always objects, `value` is the usual name of one that has nothing else.
fn whole(secret: &Json) -> &Json {
    match secret {
        Json::Object(fields) if fields.len() == 1 => fields.get("value").unwrap_or(secret),
        other => other,
    }
}

/// The value of a variable: the secret, or one member of it.
fn value_of(secret: &Json, member: Option<&str>, kind: VariableKind) -> Result<Json, String> {
    let value = match member {
        None => whole(secret).clone(),
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

impl Store {
    async fn sign_in(of: &StoreConfiguration, access: &Access<'_>) -> Result<Self, CallError> {
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
    ) -> Result<Json, CallError> {
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
            (&json(r#"{"value":"hunter22"}"#), None, Terraform, Ok(r#""hunter22""#)),
            (&json(r#"{"other":"hunter22"}"#), None, Terraform, Ok(r#"{"other":"hunter22"}"#)),
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
