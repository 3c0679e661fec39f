//! Checks of runners (`canyon doctor`): one item for each runner, which holds its last check.

use crate::conditional::{Item, condition_outcome};
use crate::items::{Condition, number, put, text, to_item};
use crate::keys::OPEN_CHECKS;
use crate::outcome::Saved;
use crate::table::{GSI2, PK, SK, TTL, WAKE};
use crate::{StoreError, Table, audit, keys};
use aws_sdk_dynamodb::types::AttributeValue;
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::{OrgUuid, RunnerId};
use canyon_domain::runner_check::{DEADLINE, RunnerCheck};
use jiff::{SignedDuration, Timestamp};

/// How long the last check of a runner can be read.
const ITEM_LIFETIME: SignedDuration = SignedDuration::from_hours(24);
/// Most open checks that one query returns.
const MAX_OPEN: i32 = 100;

/// A check that no launcher has begun.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OpenCheck {
    /// The organization of the runner.
    pub org: OrgUuid,
    /// The runner.
    pub runner: RunnerId,
}

impl OpenCheck {
    /// The check in the image of a stream record; `None` if the image is not a check.
    pub fn from_stream_image(image: serde_dynamo::Item) -> Option<Self> {
        parse(&Item::from(image))
    }
}

fn parse(item: &Item) -> Option<OpenCheck> {
    let (Some(AttributeValue::S(pk)), Some(AttributeValue::S(sk))) = (item.get(PK), item.get(SK))
    else {
        return None;
    };
    let (org, runner) = keys::parse_runner_check(pk, sk)?;
    Some(OpenCheck { org, runner })
}

impl Table {
    /// The last check of a runner. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn runner_check(
        &self,
        org: OrgUuid,
        runner: &RunnerId,
    ) -> Result<Option<RunnerCheck>, StoreError> {
        self.read("read check", &keys::runner_check(org, runner)).await
    }

    /// Stores a requested check and wakes the launcher. Keys: the check, audit; on condition that
    /// the last check is still `before`. 4 write units.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn request_check(
        &self,
        org: OrgUuid,
        before: Option<&RunnerCheck>,
        check: &RunnerCheck,
        record: &AuditRecord,
    ) -> Result<Saved, StoreError> {
        const OPERATION: &str = "request check";
        let mut item = item(OPERATION, org, check)?;
        item.insert(WAKE.to_owned(), AttributeValue::Bool(true));
        let condition = before.map_or_else(Condition::absent, is_unchanged);
        let items = vec![put(self, item, condition), audit::record(self, org, record)?];
        let done = self.transact(OPERATION, check.runner.as_str(), items).await?;
        Ok(if done.is_ok() { Saved::Yes } else { Saved::Lost })
    }

    /// Stores the results of the launcher so far; `check` has the next version. On condition that
    /// the stored version is the one before. One write unit for each KB.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn save_check(&self, org: OrgUuid, check: &RunnerCheck) -> Result<Saved, StoreError> {
        const OPERATION: &str = "save check";
        let before = RunnerCheck { version: check.version - 1, ..check.clone() };
        let condition = is_unchanged(&before);
        let put = self
            .client()
            .put_item()
            .table_name(self.name())
            .set_item(Some(item(OPERATION, org, check)?))
            .condition_expression(condition.expression)
            .set_expression_attribute_values(Some(condition.values));
        if condition_outcome(OPERATION, check.runner.as_str(), put.send().await)?.is_ok() {
            return Ok(Saved::Yes);
        }
        // The SDK retries a write whose answer was lost. The retry can fail on its own first
        // result.
        let found = self.runner_check(org, &check.runner).await?;
        Ok(if found.as_ref() == Some(check) { Saved::Yes } else { Saved::Lost })
    }

    /// The checks that no launcher has begun and that have not timed out. The index lags behind the
    /// table. Half a read unit if there are none.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn open_checks(&self, now: Timestamp) -> Result<Vec<OpenCheck>, StoreError> {
        let query = self
            .client()
            .query()
            .table_name(self.name())
            .index_name(GSI2.name)
            .key_condition_expression(format!("{} = :pk AND {} > :since", GSI2.pk, GSI2.sk))
            .expression_attribute_values(":pk", text(OPEN_CHECKS))
            .expression_attribute_values(":since", text(keys::due_at(now - DEADLINE)))
            .limit(MAX_OPEN);
        let output = query
            .send()
            .await
            .map_err(|error| StoreError::sdk("list open checks in", OPEN_CHECKS, error))?;
        Ok(output.items().iter().filter_map(parse).collect())
    }
}

/// Condition: the stored check has the version of `check`, and is no later check with the same
/// version.
fn is_unchanged(check: &RunnerCheck) -> Condition {
    let mut condition = Condition::version(check.version);
    condition.expression.push_str(" AND id = :id");
    condition.values.insert(":id".to_owned(), text(check.id.to_string()));
    condition
}

fn item(operation: &'static str, org: OrgUuid, check: &RunnerCheck) -> Result<Item, StoreError> {
    let mut item = to_item(operation, &keys::runner_check(org, &check.runner), check)?;
    let expires: Timestamp = check.asked_at + ITEM_LIFETIME;
    item.insert(TTL.to_owned(), number(expires.as_second()));
    if check.begun_at.is_none() {
        item.insert(GSI2.pk.to_owned(), text(OPEN_CHECKS));
        item.insert(GSI2.sk.to_owned(), text(keys::due_at(check.asked_at)));
    }
    Ok(item)
}
