//! The API and the bus as Lambda functions.

pub mod path;
pub mod source;

use crate::App;
use crate::app::agent_registry::AgentRegistry;
use crate::app::announcements::PublishAnnouncement;
use crate::app::authentication::RecentTokens;
use crate::app::deploy_requests::{self, DeployAnswer};
use crate::app::names::RecentNames;
use crate::app::token_exchange::SignInVerifier;
use crate::changes::Changes;
use crate::http::{HttpSettings, InvalidOrigin, Issuers};
use canyon_aws::clients::Clients;
use canyon_aws::event_bus::EventBus;
use canyon_aws::issuer::{issuer, jobs_issuer};
use canyon_aws::master_key::KmsMasterKey;
use canyon_aws::settings::{SettingError, Settings};
use canyon_domain::attempt::SecretHash;
use canyon_domain::schedule::announcement::DestroyAnnounced;
use canyon_identity::job_name::parse_job_name;
use canyon_identity::master_keys::MasterKeys;
use canyon_identity::system::System;
use canyon_identity::verify::{PrivateIssuers, PrivateIssuersError};
use canyon_store::Table;
use canyon_store::error::BoxError;
use jiff::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The interval between two reads of a waiting request. Another function writes, and sends no hint.
const READ_INTERVAL: Duration = Duration::from_secs(1);

/// Builds the use cases from the settings. It sends no request to AWS.
///
/// # Errors
///
/// When the settings are invalid for a client.
pub fn app(settings: &Settings, clients: &Clients<'_>) -> Result<App, BoxError> {
    let table = Table::new(clients.dynamodb(), &settings.table).with_published_ends();
    let kms = clients.kms();
    let master_key =
        KmsMasterKey::new(kms.clone(), &settings.master_key, table.clone(), Arc::new(System))
            .created_for_table(settings.master_key_table.as_deref());
    Ok(App {
        table,
        blobs: clients.blobs(&settings.bucket)?,
        clock: Arc::new(System),
        entropy: Arc::new(System),
        master_keys: Arc::new(MasterKeys::on_demand(master_key)),
        issuer_url: settings.issuer_url.clone(),
        job_issuer: Arc::new(jobs_issuer(settings, &kms)),
        operator: settings.operator_token_hash.clone().map(SecretHash),
        changes: Changes::new(READ_INTERVAL).sharing_waits(),
        sign_in_verifier: Arc::new(SignInVerifier::new(
            private_issuers(settings)?,
            Arc::new(System),
        )),
        authenticated: RecentTokens::default(),
        names: RecentNames::default(),
        agents: AgentRegistry::new(settings.agent_poll_interval),
        api_url: settings.api_url.clone(),
        up_since: Timestamp::MIN,
        job_token_life: crate::app::job_tokens::LIFE,
        serves_local_runners: settings.local_jobs.is_some(),
    })
}

/// The issuers whose documents the function `issuer` serves. It sends no request to KMS.
pub fn issuers(settings: &Settings, clients: &Clients<'_>) -> Issuers {
    let kms = clients.kms();
    Issuers {
        runners: Arc::new(issuer(settings, &kms)),
        jobs: Arc::new(jobs_issuer(settings, &kms)),
    }
}

fn private_issuers(settings: &Settings) -> Result<PrivateIssuers, PrivateIssuersError> {
    let authority = settings.private_issuers_ca.as_deref().map(Into::into);
    PrivateIssuers::new(&settings.private_issuers, authority)
}

/// The settings for callers in browsers.
///
/// # Errors
///
/// [`SettingError`] when an origin is malformed.
pub fn http_settings(settings: &Settings) -> Result<HttpSettings, SettingError> {
    let origin = |text: &String| {
        let fault = |error| format!("`{text}`: {error}");
        text.parse().map_err(|error: InvalidOrigin| fault(error))
    };
    let origins: Result<_, String> = settings.cors_origins.iter().map(origin).collect();
    let fault = |reason| SettingError::new("CANYON_CORS_ORIGINS", reason);
    Ok(HttpSettings { allowed_origins: origins.map_err(fault)?, on_lambda: true })
}

/// The function `events`.
pub struct Events {
    /// The use cases.
    pub app: App,
    /// The bus for rejections and announcements.
    pub bus: EventBus,
}

impl PublishAnnouncement for EventBus {
    async fn publish(&self, event: &DestroyAnnounced) -> Result<(), BoxError> {
        Ok(self.destroy_announced(event).await?)
    }
}

impl Events {
    /// Handles one event: as EventBridge delivers it, or wrapped by a rule's input transformer as
    /// `{"rule": ..., "event": ...}`. Returns the result.
    ///
    /// # Errors
    ///
    /// A failure that may be temporary: Lambda and EventBridge deliver the event again.
    pub async fn serve(&self, event: &str) -> Result<Value, BoxError> {
        let event = &read(event)?;
        let inner = event.get("event").unwrap_or(event);
        match inner["detail-type"].as_str() {
            Some(deploy_requests::DETAIL_TYPE) => self.deploy_requested(event).await,
            Some("ECS Task State Change") => self.task_changed(&inner["detail"]).await,
            // The rule that also begins a sweep each minute.
            Some("Scheduled Event") => self.minute_passed().await,
            other => {
                tracing::warn!(detail_type = other, "ignored an event of an unexpected type");
                Ok(json!({ "ignored": "no event of this type is expected" }))
            }
        }
    }

    /// Requests the deployments of due schedules, and publishes their announcements.
    async fn minute_passed(&self) -> Result<Value, BoxError> {
        match Box::pin(self.app.run_due_schedules(&self.bus)).await {
            Ok(count) => Ok(json!({ "due_schedules": count })),
            Err(error) => Err(error.message().into()),
        }
    }

    async fn deploy_requested(&self, event: &Value) -> Result<Value, BoxError> {
        // Boxed, because the compiler cannot compute the layout of such a deep future.
        match Box::pin(self.app.deploy_requested(event)).await {
            Ok(DeployAnswer::Accepted(deployment)) => {
                tracing::info!(deployment = %deployment.id, "accepted a deploy request");
                Ok(json!({ "accepted": { "deployment_id": deployment.id } }))
            }
            Ok(DeployAnswer::Rejected(rejected)) => {
                self.bus.rejected(&rejected).await?;
                Ok(json!({ "rejected": rejected }))
            }
            Err(error) => Err(error.message().into()),
        }
    }

    /// Handles the ECS event that a task has stopped. ECS delivers it at least once and in any order, so it is only a
    /// hint: the launcher then asks ECS. Only the attempt is read from the event, so an old event does no harm
    /// (Amazon ECS Developer Guide, "Handling events").
    async fn task_changed(&self, detail: &Value) -> Result<Value, BoxError> {
        let attempt = detail["startedBy"].as_str().and_then(parse_job_name);
        let (Some(attempt), Some("STOPPED")) = (attempt, detail["lastStatus"].as_str()) else {
            return Ok(json!({ "ignored": "the task is not one of Canyon's that has stopped" }));
        };
        let news = self.app.job_gone(attempt).await?;
        Ok(json!({ "hinted": { "deployment_id": attempt.deployment, "news": news } }))
    }
}

/// Parses the event in `text`. A value that is nested too deeply is replaced, so that the event is rejected like any
/// other and not delivered again and again.
fn read(text: &str) -> Result<Value, serde_json::Error> {
    if let Ok(event) = serde_json::from_str(text) {
        return Ok(event);
    }
    let outer: BTreeMap<String, &RawValue> = serde_json::from_str(text)?;
    let member = |(name, value): (String, &RawValue)| {
        let value = match name.as_str() {
            "event" => read(value.get()).unwrap_or_default(),
            _ => serde_json::from_str(value.get()).unwrap_or_default(),
        };
        (name, value)
    };
    Ok(outer.into_iter().map(member).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_is_nested_too_deeply_keeps_what_can_be_read() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let event = format!(r#"{{"id": "1", "account": "2", "detail": {deep}}}"#);
        assert_eq!(read(&event).unwrap(), json!({ "id": "1", "account": "2", "detail": null }));
        let pair = format!(r#"{{"rule": "r", "event": {event}}}"#);
        assert_eq!(read(&pair).unwrap()["event"]["account"], "2");
        assert!(read("[").is_err());
    }
}
