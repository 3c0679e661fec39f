//! Deployments that an event on the bus requests.
//!
//! There is no caller to answer, so a request has three results. An accepted request has a deployment. A rejected
//! request is recorded, published on the bus, and not retried. After a failure, EventBridge retries. An event may be
//! delivered more than once, so an acceptance and a rejection are each recorded once for an event id.

mod request;

use super::App;
use super::deploy::Idempotency;
use crate::app::error::AppError;
use canyon_domain::deployment::Deployment;
use canyon_domain::event_source::{self, EventSource};
use canyon_domain::events::{Rejected, RejectedField, SCHEMA_VERSION};
use canyon_domain::ids::PrincipalId;
use canyon_domain::inventory::Organization;
use canyon_domain::principal::{Principal, Role, SignIn};
use canyon_domain::scoped_role::ScopedRole;
use canyon_store::StoreError;
use jiff::SignedDuration;
use request::{DeployEvent, OrgRequest};
use serde_json::Value;
use uuid::Uuid;

/// The `detail-type` of a request to deploy.
pub const DETAIL_TYPE: &str = "canyon.deployment.requested";

/// How long an event id is remembered. `EventBridge` retries for a day, Lambda for six hours more, and a dead-letter
/// queue keeps an event for at most 14 days.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(16 * 24);

/// The most characters of a rejection's reason. It quotes the sender's input, and an event has at most 256 KB.
const MAX_REASON: usize = 2_000;
const MAX_FIELD: usize = 300;
const MAX_FIELDS: usize = 50;

fn shortened(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum DeployAnswer {
    /// The deployment, from this delivery or an earlier one.
    Accepted(Box<Deployment>),
    /// The request is rejected. The same request would be rejected again.
    Rejected(Box<Rejected>),
}

/// Why there is no deployment.
enum Refusal {
    /// Canyon failed: the same event may succeed later.
    Failed(AppError),
    /// The request of a known sender is refused.
    Of(Box<Sender>, AppError),
    /// The request of an unknown sender is refused: nothing is recorded.
    OfUnknownSender(AppError),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

/// An event source that admits the event, as a principal.
struct Sender {
    source: EventSource,
    principal: Principal,
}

impl Sender {
    fn new(organization: &Organization, source: &EventSource) -> Self {
        let (role, scoped_roles) = match &source.scope.project {
            None => (source.role, Vec::new()),
            Some(project) => {
                (Role::None, vec![ScopedRole::new(source.role).in_project(project.clone())])
            }
        };
        let principal = Principal {
            id: source.principal(),
            org: organization.uuid,
            org_id: organization.id.clone(),
            role,
            scoped_roles,
            runner: None,
            operator: false,
            sign_in: SignIn::default(),
        };
        Self { source: source.clone(), principal }
    }

    fn refused(self, why: AppError) -> Refusal {
        if why.is_transient() { Refusal::Failed(why) } else { Refusal::Of(Box::new(self), why) }
    }
}

impl App {
    /// Accepts or rejects the request in `event`: an event as `EventBridge` delivers it, or
    /// `{"rule": <ARN of the rule>, "event": <the event>}`.
    ///
    /// # Errors
    ///
    /// A failure that may be temporary: the event should be delivered again.
    pub async fn deploy_requested(&self, event: &Value) -> Result<DeployAnswer, AppError> {
        let request = DeployEvent::parse(event);
        let outcome = match &request.asked {
            Ok(asked) => self.accept_request(&request, asked).await,
            Err(faults) => Err(Refusal::OfUnknownSender(faults.clone().into())),
        };
        let (sender, why) = match outcome {
            Ok(deployment) => return Ok(DeployAnswer::Accepted(Box::new(deployment))),
            Err(Refusal::Failed(error)) => return Err(error),
            Err(Refusal::Of(sender, why)) => (Some(sender), why),
            Err(Refusal::OfUnknownSender(why)) => (None, why),
        };
        if let Some(sender) = sender {
            self.record_rejection(&sender, &request.event_id).await?;
        }
        let rejected = self.rejected(&request, &why);
        tracing::warn!(
            event = rejected.event_id,
            account = rejected.account,
            source = rejected.source,
            rule = request.rule,
            org = rejected.org_id,
            reason = rejected.reason,
            "a deploy request was rejected"
        );
        Ok(DeployAnswer::Rejected(Box::new(rejected)))
    }

    async fn accept_request(
        &self,
        request: &DeployEvent,
        asked: &OrgRequest,
    ) -> Result<Deployment, Refusal> {
        let key = Idempotency {
            // The caller is not the sender, because the sender's event source may change between two deliveries.
            of: PrincipalId(Uuid::nil()).into(),
            key: format!("event:{}", request.event_id),
            body: asked.digest.clone(),
            life: REMEMBERED,
        };
        // The refusal is the same for a missing organization and for one that does not know the sender.
        let unknown = || Refusal::OfUnknownSender(unknown_sender(request, asked));
        let Some(organization) = self.table.organization_named(&asked.org).await? else {
            return Err(unknown());
        };
        let sources = self.table.all_event_sources(organization.uuid).await?;
        let origin = request.origin();
        let Some(sender) = event_source::sender(&sources, origin) else {
            return self.accepted_before(&organization, &key).await?.ok_or_else(unknown);
        };
        let sender = Sender::new(&organization, sender);
        let order = match &asked.order {
            Ok(order) => order,
            Err(faults) => return Err(sender.refused(faults.clone().into())),
        };
        let Some(source) = event_source::choose(&sources, origin, &order.project) else {
            let before = self.accepted_before(&organization, &key).await?;
            return before.ok_or_else(|| {
                let refusal = other_project(&sender.source, order.project.as_str());
                sender.refused(refusal)
            });
        };
        let sender = Sender::new(&organization, source);
        let done = self.deploy(&sender.principal, order, Some(&key)).await;
        done.map_err(|why| sender.refused(why))
    }

    /// A request that was accepted once stays accepted, even if its sender has lost its rights since.
    async fn accepted_before(
        &self,
        organization: &Organization,
        key: &Idempotency,
    ) -> Result<Option<Deployment>, Refusal> {
        match self.repeated(organization.uuid, None, Some(key)).await {
            Ok(found) => Ok(found),
            Err(refusal) if !refusal.is_transient() => Ok(None),
            Err(failure) => Err(Refusal::Failed(failure)),
        }
    }

    async fn record_rejection(&self, of: &Sender, event: &str) -> Result<(), StoreError> {
        let Sender { source, principal } = of;
        let subject = format!("event-sources/{}/events/{event}", source.id);
        let record = self.record(principal, "deployment.reject", subject);
        let until = record.at + REMEMBERED;
        self.table.record_rejection(principal.org, event, &record, until).await.map(drop)
    }

    fn rejected(&self, request: &DeployEvent, why: &AppError) -> Rejected {
        let field = |(path, reason): (&str, &str)| RejectedField {
            path: shortened(path, MAX_FIELD),
            reason: shortened(reason, MAX_FIELD),
        };
        let fields = why.fields();
        Rejected {
            schema_version: SCHEMA_VERSION,
            id: format!("{}.rejected", request.event_id),
            at: self.now(),
            event_id: request.event_id.clone(),
            account: request.account.clone(),
            source: request.shown_source(),
            org_id: request.asked.as_ref().ok().map(|asked| asked.org.to_string()),
            reason: shortened(why.message(), MAX_REASON),
            fields: fields.iter().take(MAX_FIELDS).map(|e| field((&e.path, &e.reason))).collect(),
        }
    }
}

fn unknown_sender(request: &DeployEvent, asked: &OrgRequest) -> AppError {
    if let Err(faults) = &asked.order {
        return faults.clone().into();
    }
    let (account, source) = (&request.account, request.shown_source());
    AppError::denied(format!(
        "no event source of organization `{org}` speaks for account `{account}` and source \
             `{source}`; an admin makes one: canyon create event-source ID \
             --set=account={account}",
        org = asked.org,
    ))
}

fn other_project(source: &EventSource, project: &str) -> AppError {
    let mut faults = canyon_domain::field_error::FieldErrors::default();
    let reason = format!(
        "event source `{}` speaks for {}, and none for project `{project}`",
        source.id, source.scope
    );
    faults.add("project_id", reason);
    faults.into()
}
