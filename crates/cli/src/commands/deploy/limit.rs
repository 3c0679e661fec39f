//! How much a run may delete or replace, and whether the command asks for more when its plan needs it.

use super::Request;
use crate::confirm;
use crate::deletions::{Deletions, resources};
use crate::environment_facts::EnvironmentFacts;
use crate::error::CliError;
use crate::output::Output;
use crate::resource::Resource;
use canyon_api::client::Client;
use canyon_api::deployment::{Deployment, DeploymentCreateBody, RequestedMode};

/// The limit of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    /// What the request sends; `None` for no limit except the environment's own.
    max_deletions: Option<u32>,
    /// Whether the command may ask the user for more.
    can_ask: bool,
}

/// What the command does after a deployment ended.
pub(super) enum Next {
    /// Send the same request again, with the limit that the user has allowed.
    Rerun(Limit),
    /// Stop; with an error if a limit ended the run before its apply.
    End(Option<CliError>),
}

impl Limit {
    /// On a terminal, the command deletes nothing before it has asked the user, unless a flag allows it.
    pub(super) fn of(request: &Request) -> Self {
        let flags = &request.flags;
        // Before a destroy run, and before the apply of a kept plan, the command asks already; a plan deletes nothing.
        let is_asked = matches!(request.mode, RequestedMode::Destroy | RequestedMode::Apply);
        // A container job makes no plan that a limit could end.
        let is_settled = flags.yes || is_asked || flags.plan_only || request.container.is_given();
        let fixed = is_settled || flags.no_wait || flags.max_deletions.is_some();
        if fixed {
            return Self { max_deletions: flags.max_deletions, can_ask: false };
        }
        // With the module on stdin the user cannot answer: an error names the flag to use instead.
        let is_module_on_stdin = request.module.is_on_stdin();
        let can_ask = confirm::is_possible();
        let is_watched = can_ask || is_module_on_stdin && confirm::is_stderr_terminal();
        Self { max_deletions: is_watched.then_some(0), can_ask }
    }

    /// `body` with this limit.
    pub(super) fn apply_to(self, body: &DeploymentCreateBody) -> DeploymentCreateBody {
        DeploymentCreateBody { max_deletions: self.max_deletions, ..body.clone() }
    }

    /// Finds out whether a limit ended `deployment`, and asks the user if the user may raise it.
    pub(super) async fn next(
        self,
        deployment: &Deployment,
        client: &Client,
        interrupted: impl Future<Output = ()>,
        output: Output,
    ) -> Next {
        let Some(count) = deployment.refused_deletions else { return Next::End(None) };
        let id = deployment.id.to_string();
        let environment =
            Resource::environment(deployment.project_id.clone(), deployment.env_id.clone());
        let name = environment.full_name();
        let deletions = Deletions::read(client, &id).await;
        for line in deletions.describe(&name, count) {
            output.notice(&line);
        }
        let effect = if deletions.has_vanished() {
            Effect { asked: "delete, replace or drop", said: "deletes, replaces or drops", count }
        } else {
            Effect { asked: "delete or replace", said: "deletes or replaces", count }
        };
        // If this read fails, the next run shows whether the environment refuses.
        let facts = EnvironmentFacts::read(client, &environment).await.ok();
        let allowed = facts.and_then(|facts| facts.max_deletions());
        let is_below_own = self.max_deletions.is_none_or(|own| count <= own);
        if is_below_own || allowed.is_some_and(|allowed| count > allowed) {
            return Next::End(Some(refused_by_environment(deployment, effect, allowed)));
        }
        if !self.can_ask {
            return Next::End(Some(refused_by_own(&id, effect, self.max_deletions)));
        }
        let action = format!("apply it and {} {} of {name}", effect.asked, resources(count));
        match confirm::ask(&action, interrupted, output).await {
            Ok(()) => Next::Rerun(Self { max_deletions: Some(count), can_ask: true }),
            Err(refusal) => Next::End(Some(refusal)),
        }
    }
}

/// What the plan does to how many resources. An apply drops those from the state that the provider did not find.
#[derive(Clone, Copy, Debug)]
struct Effect {
    asked: &'static str,
    said: &'static str,
    count: u32,
}

fn refused_by_environment(
    deployment: &Deployment,
    effect: Effect,
    allowed: Option<u32>,
) -> CliError {
    let Effect { said, count, .. } = effect;
    let (project, environment) = (&deployment.project_id, &deployment.env_id);
    let allowed =
        allowed.map_or_else(|| "fewer".to_owned(), |allowed| format!("at most {allowed}"));
    CliError::TooManyDeletions {
        message: format!(
            "deployment {} ended before its apply: its plan {said} {}, and {project}/{environment} \
             allows {allowed}",
            deployment.id,
            resources(count),
        ),
        hint: format!(
            "an administrator can change this with `canyon update environment {project} {environment} \
             --set=deletion_protection.max_deletions={count}`"
        ),
    }
}

fn refused_by_own(id: &str, effect: Effect, own: Option<u32>) -> CliError {
    let Effect { said, count, .. } = effect;
    CliError::TooManyDeletions {
        message: format!(
            "deployment {id} ended before its apply: its plan {said} {}, and --max-deletions allows at \
             most {}",
            resources(count),
            own.unwrap_or_default(),
        ),
        hint: format!("read its plan with `canyon logs {id}`; `--max-deletions {count}` allows it"),
    }
}
