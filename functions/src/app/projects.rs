//! Creates, changes and deletes projects.

use super::App;
use super::permissions::{forbidden, require};
use super::users::Users;
use crate::app::error::AppError;
use canyon_domain::change::Change;
use canyon_domain::display_name::DisplayName;
use canyon_domain::ids::ProjectId;
use canyon_domain::inventory::{Project, RunnerRule};
use canyon_domain::principal::{Principal, Role};
use canyon_domain::runner::agents::ProfileName;
use canyon_domain::scoped_role::Target;
use canyon_store::StoreError;
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::{Created, Deleted, Saved};

impl App {
    /// Creates a project.
    pub(crate) async fn create_project(
        &self,
        by: &Principal,
        id: ProjectId,
        display_name: DisplayName,
        profile: Option<ProfileName>,
    ) -> Result<Project, AppError> {
        let target = Target::Project(&id);
        if by.role_in(target) < Role::Admin {
            return Err(forbidden(Role::Admin, by.role_in(target), target));
        }
        let record = self.record(by, "project.create", format!("projects/{id}"));
        let project = Project {
            id,
            uuid: self.entropy.id(record.at),
            display_name,
            profile,
            created_at: record.at,
            updated_at: record.at,
        };
        match self.table.create_project(by.org, &project, &record).await? {
            Created::Yes => Ok(project),
            Created::Exists | Created::Missing(_) => {
                Err(AppError::conflict(format!("project `{}` exists already", project.id)))
            }
        }
    }

    /// A project in which `by` may read something. 404 if it does not exist.
    pub(crate) async fn project(
        &self,
        by: &Principal,
        id: &ProjectId,
    ) -> Result<Project, AppError> {
        let missing = || AppError::not_found("project", id);
        if !by.sees_project(id) {
            return Err(missing());
        }
        self.table.project(by.org, id).await?.ok_or_else(missing)
    }

    fn check_rules_project(by: &Principal, id: &ProjectId) -> Result<(), AppError> {
        require(by, Role::Admin, Target::Project(id), || AppError::not_found("project", id))
    }

    /// Changes a project.
    pub(crate) async fn change_project(
        &self,
        by: &Principal,
        id: &ProjectId,
        name: Option<&DisplayName>,
        profile: Change<&ProfileName>,
    ) -> Result<Project, AppError> {
        Self::check_rules_project(by, id)?;
        let record = self.record(by, "project.update", format!("projects/{id}"));
        match self.table.change_project(by.org, id, name, profile, &record).await? {
            Saved::Yes => self.project(by, id).await,
            Saved::Lost => Err(AppError::not_found("project", id)),
        }
    }

    /// Deletes a project without environments. If `with_rules` is set, the rules that name the project are deleted
    /// first; otherwise they block the deletion. Rules that name a group of the project stay.
    pub(crate) async fn delete_project(
        &self,
        by: &Principal,
        id: &ProjectId,
        with_rules: bool,
    ) -> Result<(), AppError> {
        Self::check_rules_project(by, id)?;
        if with_rules && by.role < Role::Admin {
            // Rules belong to the organization.
            return Err(forbidden(Role::Admin, by.role, Target::Organization));
        }
        for _ in 0..MAX_TRIES {
            self.project(by, id).await?;
            let users = self.users_of_project(by, id).await?;
            // Check the environments first, so that no rule is deleted if the project cannot be.
            if !users.environments.is_empty() || (!with_rules && !users.rules.is_empty()) {
                return Err(refusal(id, &users));
            }
            for rule in self.rules_naming(by, id).await? {
                self.delete_rule_of_project(by, &rule).await?;
            }
            let without = self.left_without_projects(by, id).await?;
            let record = self.record(by, "project.delete", format!("projects/{id}"));
            let deleted = self.table.delete_project(by.org, id, &without, &record).await?;
            if deleted == Deleted::Yes {
                return Ok(());
            }
        }
        Err(AppError::contended(id))
    }

    /// The project and its groups, as far as no other project remains in them: their variables go with it. Otherwise a later
    /// project of such a name would get the secrets of the former one.
    async fn left_without_projects(
        &self,
        by: &Principal,
        id: &ProjectId,
    ) -> Result<Vec<ProjectId>, StoreError> {
        let mut empty = Vec::new();
        for group in id.path() {
            if !self.table.has_other_project(by.org, &group, id).await? {
                empty.push(group);
            }
        }
        Ok(empty)
    }

    async fn rules_naming(
        &self,
        by: &Principal,
        id: &ProjectId,
    ) -> Result<Vec<RunnerRule>, StoreError> {
        let mut rules = self.table.all_rules(by.org).await?;
        rules.retain(|rule| rule.scope.project.as_ref() == Some(id));
        Ok(rules)
    }

    /// A rule that is gone already counts as deleted.
    async fn delete_rule_of_project(
        &self,
        by: &Principal,
        rule: &RunnerRule,
    ) -> Result<(), StoreError> {
        let record = self.record(by, "runner_rule.delete", format!("runner-rules/{}", rule.id));
        self.table.delete_rule(by.org, rule, &record).await.map(drop)
    }
}

fn refusal(id: &ProjectId, users: &Users) -> AppError {
    let advice = if users.environments.is_empty() {
        "delete those first, or set `deleteRules=true`"
    } else {
        "delete those first: canyon delete environment PROJECT ENV"
    };
    users.refusal(&format!("project `{id}`"), advice)
}
