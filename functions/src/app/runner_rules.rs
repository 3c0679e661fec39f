//! Creates and deletes runner rules.

use super::App;
use super::env_types::missing_env_type;
use super::runners::stored_definition;
use crate::app::error::AppError;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::ids::{ProjectId, RuleId, RunnerId};
use canyon_domain::inventory::RunnerRule;
use canyon_domain::principal::Principal;
use canyon_domain::runner_rules::Rule;
use canyon_domain::state_home::StateHome;
use canyon_store::StoreError;
use canyon_store::outcome::{Created, Deleted};
use canyon_store::page::{Page, PageRequest};
use canyon_store::runner_rules::MAX_RULES;
use canyon_store::runner_rules::RuleFilter;

/// The index of the first runner among the references that `Table::create_rule` checks.
const RUNNER: usize = 2;

impl App {
    /// A page of the runner rules that `filter` selects.
    pub(crate) async fn rules(
        &self,
        by: &Principal,
        filter: &RuleFilter,
        page: &PageRequest,
    ) -> Result<Page<RunnerRule>, AppError> {
        Ok(self.table.rules(by.org, filter, page).await?)
    }

    /// Creates a rule. Refused if another rule has the same scope, even for the same runner: the order of a list would
    /// then choose between them.
    pub(crate) async fn create_rule(
        &self,
        by: &Principal,
        Rule { runner, fallbacks, scope }: Rule,
    ) -> Result<RunnerRule, AppError> {
        let rules = self.table.all_rules(by.org).await?;
        if let Some(rival) = rules.iter().find(|rule| rule.scope == scope) {
            return Err(same_scope(rival, &runner));
        }
        if rules.len() >= MAX_RULES {
            return Err(AppError::conflict(format!(
                "an organization has at most {MAX_RULES} runner rules; delete some first"
            )));
        }
        if let Some(project) = &scope.project
            && !self.is_project_or_group(by, project).await?
        {
            return Err(AppError::invalid(
                "project_id",
                format!(
                    "names neither a project nor a group that has one; create it: canyon create project {project}"
                ),
            ));
        }
        let at = self.now();
        let rule = RunnerRule {
            id: RuleId(self.entropy.id(at)),
            runner_id: runner,
            fallback_runner_ids: fallbacks,
            scope,
            created_at: at,
        };
        if !rule.fallback_runner_ids.is_empty() {
            self.check_fallbacks(by, &rule).await?;
        }
        let record = self.record(by, "runner_rule.create", format!("runner-rules/{}", rule.id));
        match self.table.create_rule(by.org, &rule, &record).await? {
            Created::Yes => Ok(rule),
            Created::Exists => Err(self.lost_to_rival(by, &rule).await?),
            Created::Missing(position) => {
                let at = position.saturating_sub(RUNNER);
                Err(match (rule.runner_ids().nth(at), &rule.scope.env_type) {
                    (Some(runner), _) => AppError::invalid(runner_path(at), absent(runner)),
                    (None, Some(env_type)) => missing_env_type(env_type),
                    (None, None) => AppError::contended(&rule.scope),
                })
            }
        }
    }

    /// Checks that the runners exist and that all keep states at the same place: an environment has one state.
    async fn check_fallbacks(&self, by: &Principal, rule: &RunnerRule) -> Result<(), AppError> {
        let (mut faults, mut homes) = (FieldErrors::default(), Vec::new());
        for (at, id) in rule.runner_ids().enumerate() {
            match self.table.runner(by.org, id).await? {
                None => faults.add(runner_path(at), absent(id)),
                Some(found) => homes.push((at, StateHome::from(&stored_definition(&found)?))),
            }
        }
        if let [(0, own), others @ ..] = homes.as_slice() {
            for (at, _) in others.iter().filter(|(_, other)| !own.is_same_as(other)) {
                let reason = format!(
                    "keeps states elsewhere than runner `{}`, and an environment has one state: give both the same \
                     `state_storage_configuration`, in a storage that the jobs of both reach",
                    rule.runner_id
                );
                faults.add(runner_path(*at), reason);
            }
        }
        Ok(faults.into_result(())?)
    }

    pub(super) async fn is_project_or_group(
        &self,
        by: &Principal,
        id: &ProjectId,
    ) -> Result<bool, StoreError> {
        Ok(self.table.project(by.org, id).await?.is_some()
            || self.table.is_group(by.org, id).await?)
    }

    /// The refusal after another caller created a rule with the same scope, between this request's read and its write.
    async fn lost_to_rival(&self, by: &Principal, rule: &RunnerRule) -> Result<AppError, AppError> {
        let rules = self.table.all_rules(by.org).await?;
        let rival = rules.iter().find(|other| other.scope == rule.scope);
        Ok(rival.map_or_else(
            || AppError::contended(&rule.scope),
            |rival| same_scope(rival, &rule.runner_id),
        ))
    }

    /// A rule. 404 if it does not exist.
    pub(crate) async fn rule(&self, by: &Principal, id: RuleId) -> Result<RunnerRule, AppError> {
        let found = self.table.rule(by.org, id).await?;
        found.ok_or_else(|| AppError::not_found("runner rule", id))
    }

    /// Deletes a rule. The environments stay linked to its runner.
    pub(crate) async fn delete_rule(&self, by: &Principal, id: RuleId) -> Result<(), AppError> {
        let rule = self.rule(by, id).await?;
        let record = self.record(by, "runner_rule.delete", format!("runner-rules/{id}"));
        match self.table.delete_rule(by.org, &rule, &record).await? {
            Deleted::Yes => Ok(()),
            // A rule never changes, so another caller has deleted it.
            Deleted::No => Err(AppError::not_found("runner rule", id)),
        }
    }
}

fn same_scope(rival: &RunnerRule, runner: &RunnerId) -> AppError {
    let RunnerRule { id, runner_id, scope, .. } = rival;
    let message = if runner_id == runner {
        format!("rule `{id}` has this scope and runner already: runner `{runner_id}` for {scope}")
    } else {
        format!(
            "rule `{id}` gives {scope} to runner `{runner_id}`; delete it first: \
             canyon delete runner-rule {id}"
        )
    };
    AppError::conflict(message).with_detail("runner_rule", id.to_string())
}

/// The field that names a rule's runner: its own one is the first.
fn runner_path(at: usize) -> String {
    at.checked_sub(1).map_or_else(
        || "runner_id".to_owned(),
        |fallback| format!("fallback_runner_ids[{fallback}]"),
    )
}

fn absent(id: &RunnerId) -> String {
    format!("names no runner; create it: canyon create runner {id} --set-yaml=@FILE")
}
