//! A newer deployment of the same source replaces one that still waits.
//!
//! Both must have asked for it, so that a deployment whose requester waits for it is not ended by another's.

use crate::deployment::{Deployment, Status};
use crate::ids::DeploymentId;
use crate::lifecycle;
use jiff::Timestamp;

impl Deployment {
    /// Whether `newer` replaces it: it has not begun, or its plan waits for approval, and both have asked for that with the same
    /// source, for the same thing.
    pub fn is_superseded_by(&self, newer: &Self) -> bool {
        let has_not_begun = self.status == Status::Queued && self.attempts.is_empty();
        (has_not_begun || self.awaits_approval())
            && self.id < newer.id
            && self.env_uuid == newer.env_uuid
            && self.mode == newer.mode
            && self.resource() == newer.resource()
            && self.supersede.is_some()
            && self.supersede == newer.supersede
    }

    /// Ends it, because `newer` replaces it.
    pub fn end_as_superseded(&mut self, newer: DeploymentId, now: Timestamp) {
        lifecycle::give_up(self, format!("deployment {newer} of the same source replaces it"), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source_id::SourceId;
    use serde_json::{Value, json};
    use uuid::Uuid;

    fn source(text: &str) -> SourceId {
        SourceId::of(&text.parse().unwrap())
    }

    fn deployment(number: u128, more: &Value) -> Deployment {
        let mut value = json!({
            "id": Uuid::from_u128(number), "project": "shop", "env": "dev", "env_uuid": Uuid::from_u128(1),
            "runner": "laptop", "mode": "deploy", "created_at": "2026-01-01T00:00:00Z",
            "created_by": Uuid::from_u128(9), "status": "queued", "supersede": source("inline"), "version": 1,
        });
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_one_that_still_waits_and_asked_for_it_is_replaced() {
        let newer = deployment(5, &json!({}));
        let approval = |more: Value| {
            let mut rule = json!({
                "required": "always", "count": 1, "forbid_author": true, "expires_seconds": 600,
                "asked_at": "2026-01-01T00:00:00Z",
            });
            rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({ "status": "running", "approval": rule })
        };
        for (number, more, replaced) in [
            (4, json!({}), true),
            (6, json!({}), false),
            (4, json!({ "supersede": null }), false),
            (4, json!({ "supersede": source("git::https://h/a") }), false),
            (4, json!({ "status": "launching" }), false),
            (4, approval(json!({})), true),
            (4, approval(json!({ "granted_at": "2026-01-01T00:01:00Z" })), false),
            (4, json!({ "mode": "destroy" }), false),
            (4, json!({ "env_uuid": Uuid::from_u128(2) }), false),
            (4, json!({ "resource": "s3#photos" }), false),
        ] {
            assert_eq!(deployment(number, &more).is_superseded_by(&newer), replaced, "{more}");
        }
        let mut older = deployment(4, &json!({}));
        older.end_as_superseded(newer.id, Timestamp::UNIX_EPOCH);
        assert_eq!(older.status, Status::Cancelled);
        assert!(older.message.contains(&newer.id.to_string()), "{}", older.message);
    }
}
