//! Parses an event that requests a deployment. It accepts unknown members of EventBridge's envelope, and rejects
//! unknown members of the sender's detail.

use super::DETAIL_TYPE;
use crate::app::deploy::DeploymentRequest;
use crate::app::deployment_request;
use crate::json;
use crate::json::JsonError;
use crate::quoted::quoted;
use canyon_api::deployment::DeploymentCreateBody;
use canyon_domain::event_source::{AccountId, Origin, SourceName};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::OrgId;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The member of a request's `detail` that the API's body does not have.
const ORG: &str = "org_id";

/// A request as it was received. The first three fields are empty if they were not strings.
pub(super) struct DeployEvent {
    /// The event's id.
    pub(super) event_id: String,
    /// The account that sent it.
    pub(super) account: String,
    /// The `source` of the event, which the sender chooses.
    pub(super) source: String,
    /// The rule that forwarded it.
    pub(super) rule: Option<String>,
    /// The request to an organization, or the faults that prevent reading it.
    pub(super) asked: Result<OrgRequest, FieldErrors>,
}

/// A request to an organization.
pub(super) struct OrgRequest {
    /// Its name.
    pub(super) org: OrgId,
    /// The deployment request, or its faults.
    pub(super) order: Result<DeploymentRequest, FieldErrors>,
    /// The SHA-256 of `detail` in hexadecimal. It does not depend on the order of members or on whitespace.
    pub(super) digest: String,
}

impl DeployEvent {
    pub(super) fn parse(given: &Value) -> Self {
        let (rule, event) = unwrapped(given);
        let mut faults = FieldErrors::default();
        let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
        let (event_id, account, source) = (text("id"), text("account"), text("source"));
        if !is_event_id(event_id) {
            faults.add("id", "must be the id of an event: 1 to 64 letters, digits and `-_.:`");
        }
        if let Err(error) = account.parse::<AccountId>() {
            faults.add("account", error.to_string());
        }
        if source.is_empty() {
            faults.add("source", "is missing");
        }
        if text("detail-type") != DETAIL_TYPE {
            faults.add("detail-type", format!("must be `{DETAIL_TYPE}`"));
        }
        let detail = event.get("detail").unwrap_or(&Value::Null);
        if !detail.is_object() {
            faults.add("detail", "must be an object");
        }
        Self {
            event_id: quoted(event_id),
            account: quoted(account),
            source: source.to_owned(),
            rule: rule.map(str::to_owned),
            asked: faults.into_result(()).and_then(|()| OrgRequest::parse(detail.clone())),
        }
    }

    /// The source, cleaned for messages and for the log.
    pub(super) fn shown_source(&self) -> String {
        if self.source.parse::<SourceName>().is_ok() {
            self.source.clone()
        } else {
            quoted(&self.source)
        }
    }

    /// The origin of the event, to find its event source.
    pub(super) fn origin(&self) -> Origin<'_> {
        Origin { account: &self.account, source: &self.source, rule: self.rule.as_deref() }
    }
}

/// Whether the text has the form of an event id. `EventBridge` uses UUIDs.
fn is_event_id(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-_.:".contains(&b);
    (1..=64).contains(&text.len()) && text.bytes().all(good)
}

/// Splits the event from its rule. An event does not name its rule, but the rule's target can wrap both. An event of
/// `EventBridge` has a `detail-type`, so its `detail` cannot imitate the wrapper.
fn unwrapped(given: &Value) -> (Option<&str>, &Value) {
    match given.get("event") {
        Some(event @ Value::Object(_)) if given.get("detail-type").is_none() => {
            (given.get("rule").and_then(Value::as_str), event)
        }
        _ => (None, given),
    }
}

impl OrgRequest {
    fn parse(mut detail: Value) -> Result<Self, FieldErrors> {
        detail.sort_all_objects();
        let digest = hex::encode(Sha256::digest(detail.to_string()));
        let org = detail.as_object_mut().and_then(|members| members.remove(ORG));
        let org: Result<OrgId, String> = match &org {
            Some(Value::String(name)) => name.parse().map_err(|e| format!("{e}")),
            Some(_) => Err("must be the name of an organization".to_owned()),
            None => Err("is required".to_owned()),
        };
        match (org, parse_order(&detail)) {
            (Ok(org), order) => Ok(Self { org, order, digest }),
            (Err(reason), order) => {
                let mut faults = FieldErrors::default();
                faults.add(ORG, reason);
                faults.add_under("", order.err().unwrap_or_default());
                Err(faults)
            }
        }
    }
}

/// Parses like the API's request body. The faults contain no value, because they go to the log and to the event bus.
fn parse_order(body: &Value) -> Result<DeploymentRequest, FieldErrors> {
    let text = body.to_string();
    let mut faults = FieldErrors::default();
    if text.len() > json::MAX_BYTES {
        let limit = json::MAX_BYTES / 1024;
        let reason = format!("has more than {limit} KiB; upload a large module as an archive");
        faults.add("detail", reason);
        return Err(faults);
    }
    let body: DeploymentCreateBody =
        json::read(text.as_bytes()).map_err(JsonError::without_values)?;
    if body.is_dry_run {
        faults.add("is_dry_run", "is not for events, which have no answer; leave it out");
    }
    if !body.secret_inputs.is_empty() {
        let reason = "is not for events, which the bus and its archives keep; keep the secret as a variable of the environment";
        faults.add("secret_inputs", reason);
    }
    match deployment_request::parse(body) {
        Ok(order) => {
            let secrets = order.secret_inputs.keys().filter(|_| order.resource.is_some());
            for path in secrets {
                let reason = "has a value, which the bus and its archives would keep; refer to a secret store";
                faults.add(format!("container.{path}"), reason);
            }
            faults.into_result(order)
        }
        Err(others) => {
            faults.add_under("", others);
            Err(faults)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn event(changes: &Value) -> Value {
        let mut event = json!({
            "version": "0", "id": "e-1", "account": "111122223333", "source": "com.acme.ci",
            "detail-type": DETAIL_TYPE, "time": "2026-01-15T12:00:00Z", "region": "eu-west-1",
            "resources": [], "replay-name": "unknown members are allowed",
            "detail": {
                "org_id": "acme", "project_id": "shop", "env_id": "main", "mode": "deploy",
            },
        });
        event.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        event
    }

    fn faults(event: &Value) -> String {
        match DeployEvent::parse(event).asked {
            Err(faults) => faults.to_string(),
            Ok(asked) => asked.order.err().map(|faults| faults.to_string()).unwrap_or_default(),
        }
    }

    #[test]
    fn an_event_alone_and_one_beside_its_rule_say_the_same() {
        let plain = DeployEvent::parse(&event(&json!({})));
        let pair = DeployEvent::parse(&json!({ "rule": "arn:x", "event": event(&json!({})) }));
        assert_eq!((plain.rule.as_deref(), pair.rule.as_deref()), (None, Some("arn:x")));
        for request in [plain, pair] {
            let asked = request.asked.unwrap();
            assert_eq!((asked.org.as_str(), request.account.as_str()), ("acme", "111122223333"));
            assert_eq!(asked.order.unwrap().env.as_str(), "main");
        }
        // The sender of an event controls only its detail, and cannot add a rule.
        let forged = event(&json!({ "event": event(&json!({ "account": "999988887777" })) }));
        assert_eq!(DeployEvent::parse(&forged).account, "111122223333");
    }

    #[test]
    fn a_value_is_never_repeated_wherever_it_stands() {
        // Cut at this position, the rest of the value looks like serde's text of what it expected.
        let long = format!("{}, expected hunter2", "x".repeat(260));
        let module =
            |inputs: &str| json!({ "source": "inline", "source_code": "", "inputs": inputs });
        let cases = [
            (json!({ "mode": "hunter2" }), "`mode` must be one of `deploy`"),
            (json!({ "plan_only": "hunter2" }), "`plan_only` must be `true` or `false`"),
            (
                json!({ "module": module("hunter2, expected it") }),
                "`module.inputs` must be an object",
            ),
            (json!({ "module": module(&long) }), "`module.inputs` has a value of another type"),
            (json!({ "runner_log_level": "hunter2" }), "`runner_log_level` must be one of"),
        ];
        for (changes, reason) in cases {
            let mut detail = event(&json!({}))["detail"].clone();
            detail.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            let reason_given = faults(&event(&json!({ "detail": detail })));
            assert!(
                reason_given.starts_with(reason) && !reason_given.contains("hunter2"),
                "{reason_given}"
            );
        }
    }

    #[test]
    fn the_order_of_members_does_not_make_another_body() {
        let digest = |text: &str| {
            let detail: Value = serde_json::from_str(text).unwrap();
            OrgRequest::parse(detail).unwrap().digest
        };
        let one = r#"{"org_id":"acme","project_id":"shop","env_id":"main","mode":"destroy"}"#;
        let two = r#"{ "mode":"destroy","env_id":"main", "project_id":"shop","org_id":"acme"}"#;
        assert_eq!(digest(one), digest(two));
        assert_ne!(digest(one), digest(&one.replace("acme", "acme-2")));
        assert_ne!(digest(one), digest(&one.replace("destroy", "deploy")));
    }
}
