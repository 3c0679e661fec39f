//! Copies what an environment type asks of its environments into each of them: its rule for approvals, and the digest of its
//! policy. What a deployment needs to know of its type is in its environment, which it reads anyway.

use super::App;
use crate::app::error::AppError;
use canyon_domain::inventory::{Environment, EnvironmentType};
use canyon_domain::principal::Principal;
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::Saved;
use canyon_store::page::PageRequest;

/// Whether the environment has the rules of its type.
fn has_rules_of(of: &EnvironmentType, environment: &Environment) -> bool {
    environment.type_approval.as_deref() == of.approval.as_ref()
        && environment.type_policy == of.policy.as_ref().map(|policy| policy.digest())
}

impl App {
    /// Copies the rules of an environment type into its environments. After an interruption, the same change of the type does
    /// the rest.
    pub(super) async fn copy_type_rules(
        &self,
        by: &Principal,
        of: &EnvironmentType,
    ) -> Result<(), AppError> {
        let differs = |env: &Environment| env.env_type_id == of.id && !has_rules_of(of, env);
        let mut request = PageRequest { limit: 100, after: None };
        loop {
            let page = self.table.environments(by.org, None, &request, differs).await?;
            for environment in page.items {
                self.set_type_rules(by, &environment, of).await?;
            }
            request.after = page.next;
            if request.after.is_none() {
                return Ok(());
            }
        }
    }

    /// Gives an environment the rules of its type, unless it has them.
    pub(super) async fn set_type_rules(
        &self,
        by: &Principal,
        known: &Environment,
        of: &EnvironmentType,
    ) -> Result<(), AppError> {
        if has_rules_of(of, known) {
            return Ok(());
        }
        for _ in 0..MAX_TRIES {
            let found = self.table.environment(by.org, &known.project_id, &known.id).await?;
            let found = found.filter(|found| found.uuid == known.uuid);
            let Some(mut environment) = found else { return Ok(()) };
            if has_rules_of(of, &environment) {
                return Ok(());
            }
            let path = format!("projects/{}/envs/{}", known.project_id, known.id);
            let mut record = self.record(by, "environment.update", path);
            if environment.type_approval.as_deref() != of.approval.as_ref() {
                record.details.push(format!("approval as the type `{}`", of.id));
            }
            let policy = of.policy.as_ref().map(|policy| policy.digest());
            if environment.type_policy != policy {
                record.details.push(format!("policy as the type `{}`", of.id));
            }
            environment.type_approval = of.approval.clone().map(Box::new);
            environment.type_policy = policy;
            environment.version += 1;
            if self.table.save_environment(by.org, &environment, &record).await? == Saved::Yes {
                return Ok(());
            }
        }
        Err(AppError::contended(&known.id))
    }
}
