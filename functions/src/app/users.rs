//! The users of an object that a caller wants to delete.
//!
//! The table only counts the uses, which makes the refusal safe. Their names are read afterwards, for the message.

use super::App;
use crate::app::error::AppError;
use canyon_domain::ids::ProjectId;
use canyon_domain::inventory::{Environment, RunnerRule};
use canyon_domain::principal::Principal;
use canyon_store::StoreError;
use canyon_store::page::PageRequest;
use canyon_store::runner_rules::RuleFilter;
use serde_json::{Value, json};

/// The most users of each kind that a message names.
const NAMED: u32 = 10;

/// The environments and rules that refer to an object; at most as many as a message names.
#[derive(Debug, Default)]
pub(super) struct Users {
    pub(super) environments: Vec<Environment>,
    pub(super) rules: Vec<RunnerRule>,
    more: bool,
}

impl App {
    /// The environments that `refers` selects, and the rules that `filter` selects, if it is given. Reads all
    /// environments of the organization if `refers` selects none of the first ones.
    pub(super) async fn users(
        &self,
        by: &Principal,
        refers: impl Fn(&Environment) -> bool,
        filter: Option<&RuleFilter>,
    ) -> Result<Users, StoreError> {
        let mut users = Users::default();
        let mut request = PageRequest { limit: NAMED, after: None };
        // A page may be empty although another one follows.
        while users.environments.is_empty() {
            let page = self.table.environments(by.org, None, &request, &refers).await?;
            (users.environments, request.after) = (page.items, page.next);
            if request.after.is_none() {
                break;
            }
        }
        users.more = request.after.take().is_some();
        let Some(filter) = filter else { return Ok(users) };
        self.add_rules(by, filter, &mut users).await?;
        Ok(users)
    }

    /// The environments in a project, and the rules that name the project. One query reads the environments: it reads no
    /// others.
    pub(super) async fn users_of_project(
        &self,
        by: &Principal,
        project: &ProjectId,
    ) -> Result<Users, StoreError> {
        let request = PageRequest { limit: NAMED, after: None };
        let page = self.table.environments(by.org, Some(project), &request, |_| true).await?;
        let mut users =
            Users { environments: page.items, more: page.next.is_some(), ..Users::default() };
        let filter = RuleFilter { project: Some(project.clone()), ..RuleFilter::default() };
        self.add_rules(by, &filter, &mut users).await?;
        Ok(users)
    }

    async fn add_rules(
        &self,
        by: &Principal,
        filter: &RuleFilter,
        users: &mut Users,
    ) -> Result<(), StoreError> {
        let mut request = PageRequest { limit: NAMED, after: None };
        while users.rules.is_empty() {
            let page = self.table.rules(by.org, filter, &request).await?;
            (users.rules, request.after) = (page.items, page.next);
            if request.after.is_none() {
                break;
            }
        }
        users.more |= request.after.is_some();
        Ok(())
    }
}

impl Users {
    pub(super) fn is_empty(&self) -> bool {
        self.environments.is_empty() && self.rules.is_empty()
    }

    /// 409: `thing` cannot be deleted while it has these users; `advice` says what to do first.
    pub(super) fn refusal(&self, thing: &str, advice: &str) -> AppError {
        let environment = |e: &Environment| format!("`{}` of project `{}`", e.id, e.project_id);
        let rule = |rule: &RunnerRule| format!("`{}` ({})", rule.id, rule.scope);
        let parts: Vec<_> = [
            named("environment", self.environments.iter().map(environment)),
            named("runner rule", self.rules.iter().map(rule)),
        ]
        .into_iter()
        .flatten()
        .collect();
        let more = if self.more { " and more" } else { "" };
        let users = parts.join("; ");
        AppError::conflict(format!("{thing} is used by {users}{more}; {advice}"))
            .with_detail(
                "environments",
                self.environments.iter().map(reference).collect::<Vec<_>>(),
            )
            .with_detail(
                "runner_rules",
                self.rules.iter().map(|rule| rule.id.to_string()).collect::<Vec<_>>(),
            )
    }
}

fn reference(environment: &Environment) -> Value {
    json!({ "project_id": environment.project_id, "id": environment.id })
}

fn named(kind: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let names: Vec<_> = names.collect();
    let plural = if names.len() == 1 { "" } else { "s" };
    (!names.is_empty()).then(|| format!("{kind}{plural} {}", names.join(", ")))
}
