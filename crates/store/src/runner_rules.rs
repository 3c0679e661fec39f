//! Runner rules.

use crate::items::{Condition, count_use, delete, put, text, to_item};
use crate::outcome::{Created, Deleted};
use crate::page::{Page, PageRequest, Partition};
use crate::{StoreError, Table, audit, keys};
use aws_sdk_dynamodb::types::TransactWriteItem;
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::{EnvTypeId, OrgUuid, ProjectId, RuleId, RunnerId};
use canyon_domain::inventory::RunnerRule;
use canyon_domain::runner_rules::Scope;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Most rules of an organization. Canyon reads all of them when an environment is created.
pub const MAX_RULES: usize = 1_000;

#[derive(Serialize, Deserialize)]
struct RuleItem {
    id: RuleId,
    runner_id: RunnerId,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    fallback_runner_ids: Vec<RunnerId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    project_id: Option<ProjectId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    env_type_id: Option<EnvTypeId>,
    created_at: Timestamp,
}

impl From<&RunnerRule> for RuleItem {
    fn from(rule: &RunnerRule) -> Self {
        Self {
            id: rule.id,
            runner_id: rule.runner_id.clone(),
            fallback_runner_ids: rule.fallback_runner_ids.clone(),
            project_id: rule.scope.project.clone(),
            env_type_id: rule.scope.env_type.clone(),
            created_at: rule.created_at,
        }
    }
}

impl From<RuleItem> for RunnerRule {
    fn from(item: RuleItem) -> Self {
        Self {
            id: item.id,
            runner_id: item.runner_id,
            fallback_runner_ids: item.fallback_runner_ids,
            scope: Scope { project: item.project_id, env_type: item.env_type_id },
            created_at: item.created_at,
        }
    }
}

/// Filter of the list of rules.
#[derive(Clone, Debug, Default)]
pub struct RuleFilter {
    /// Only rules with this runner, also as a fallback.
    pub runner: Option<RunnerId>,
    /// Only rules that name this project.
    pub project: Option<ProjectId>,
    /// Only rules that name this environment type.
    pub env_type: Option<EnvTypeId>,
}

impl RuleFilter {
    fn keeps(&self, rule: &RuleItem) -> bool {
        let has = |runner: &RunnerId| {
            rule.runner_id == *runner || rule.fallback_runner_ids.contains(runner)
        };
        self.runner.as_ref().is_none_or(has)
            && self.project.as_ref().is_none_or(|p| rule.project_id.as_ref() == Some(p))
            && self.env_type.as_ref().is_none_or(|t| rule.env_type_id.as_ref() == Some(t))
    }
}

impl Table {
    /// Creates a rule. Keys: the rule, the guard of its scope, the use counts of the runners
    /// and of the environment type, audit; on condition that no rule has the same scope and that the runners and
    /// the environment type exist. A project path may name a group, so it need
    /// not exist. Up to 10 write units, and 2 for each fallback. [`Created::Missing`]: from 2 on
    /// the runners, then the environment type.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn create_rule(
        &self,
        org: OrgUuid,
        rule: &RunnerRule,
        record: &AuditRecord,
    ) -> Result<Created, StoreError> {
        const OPERATION: &str = "create runner rule";
        let scope = keys::rule_scope(org, &rule.scope);
        let mut guard = crate::items::key_item(&scope);
        guard.insert("rule".to_owned(), text(rule.id.to_string()));
        let item = to_item(OPERATION, &keys::rule(org, rule.id), &RuleItem::from(rule))?;
        let mut items =
            vec![put(self, guard, Condition::absent()), put(self, item, Condition::absent())];
        items.extend(self.rule_uses(org, rule, 1));
        items.push(audit::record(self, org, record)?);
        match self.transact(OPERATION, &rule.id.to_string(), items).await? {
            Ok(()) => Ok(Created::Yes),
            Err(cancelled) if cancelled.first() <= 1 => Ok(Created::Exists),
            Err(cancelled) => Ok(Created::Missing(cancelled.first())),
        }
    }

    fn rule_uses(&self, org: OrgUuid, rule: &RunnerRule, change: i64) -> Vec<TransactWriteItem> {
        let mut items = self.runner_uses(org, rule.runner_ids(), change);
        let env_type = rule.scope.env_type.iter().map(|id| keys::env_type(org, id));
        items.extend(env_type.map(|key| count_use(self, &key, change)));
        items
    }

    /// A rule. One read unit.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn rule(&self, org: OrgUuid, id: RuleId) -> Result<Option<RunnerRule>, StoreError> {
        let item: Option<RuleItem> = self.read("read runner rule", &keys::rule(org, id)).await?;
        Ok(item.map(RunnerRule::from))
    }

    /// The rules, oldest first. One read unit for each 4 KB read.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn rules(
        &self,
        org: OrgUuid,
        filter: &RuleFilter,
        request: &PageRequest,
    ) -> Result<Page<RunnerRule>, StoreError> {
        let partition = Partition {
            operation: "list runner rules",
            pk: keys::rules(org),
            prefix: None,
            descending: false,
        };
        let page = self.page::<RuleItem>(partition, request, |rule| filter.keeps(rule)).await?;
        Ok(page.map(RunnerRule::from))
    }

    /// Every rule, to choose a runner. One read unit for each 4 KB: about 20 rules.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table does not answer or rejects the read, or if this version cannot
    /// parse the item.
    pub async fn all_rules(&self, org: OrgUuid) -> Result<Vec<RunnerRule>, StoreError> {
        let mut rules = Vec::new();
        let mut request = PageRequest { limit: 100, after: None };
        while rules.len() < MAX_RULES {
            let page = self.rules(org, &RuleFilter::default(), &request).await?;
            rules.extend(page.items);
            match page.next {
                Some(next) => request.after = Some(next),
                None => break,
            }
        }
        Ok(rules)
    }

    /// Deletes a rule. Keys as in [`Table::create_rule`]; on condition that it exists. Up to 10
    /// write units, and 2 for each fallback.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the table is throttled, does not answer or rejects the write. If it does
    /// not answer, the write may have happened.
    pub async fn delete_rule(
        &self,
        org: OrgUuid,
        rule: &RunnerRule,
        record: &AuditRecord,
    ) -> Result<Deleted, StoreError> {
        let mut items = vec![
            delete(self, &keys::rule(org, rule.id), Condition::present()),
            delete(self, &keys::rule_scope(org, &rule.scope), Condition::present()),
            audit::record(self, org, record)?,
        ];
        items.extend(self.rule_uses(org, rule, -1));
        let done = self.transact("delete runner rule", &rule.id.to_string(), items).await?;
        Ok(if done.is_ok() { Deleted::Yes } else { Deleted::No })
    }
}
