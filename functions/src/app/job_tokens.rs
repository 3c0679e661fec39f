//! Tokens of a job for the clouds that trust Canyon's issuer of jobs' tokens.
//!
//! A runner gets them with the token of its attempt, so they end with the attempt: an issued token is valid for
//! [`LIFE`] at most. The runner's current definition lists their audiences; those of secret stores are for the plan.

use super::App;
use super::run_token::{Proved, RunToken};
use super::runners::stored_definition;
use crate::app::error::AppError;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_api::job_token::IssuedToken;
use canyon_domain::causes::Causes;
use canyon_domain::deployment::Deployment;
use canyon_domain::job_identity::{JobStatement, TokenPhase};
use canyon_domain::lifecycle::Refused;
use canyon_identity::assertion::AssertionRequest;
use canyon_identity::bearer::AttemptRef;
use canyon_store::runners::RunnerRecord;
use jiff::Timestamp;
use secrecy::ExposeSecret as _;
use std::time::Duration;

/// The lifetime of a job's token. Clouds exchange it for credentials of an hour, so a run survives some minutes
/// without a new token.
pub const LIFE: Duration = Duration::from_mins(10);

impl App {
    /// A token of the job for `audience`.
    ///
    /// # Errors
    ///
    /// 401 when the attempt's token is invalid. 403 when neither the runner's definition nor a secret store names the audience, or the
    /// deployment only plans. 409 when the attempt is over, or has not reached the phase.
    pub(crate) async fn issue_token(
        &self,
        token: RunToken,
        audience: &str,
        phase: TokenPhase,
    ) -> Result<IssuedToken, AppError> {
        let of = token.of;
        let Proved { deployment, over, .. } = self.prove_now(&token).await?;
        let attempt = deployment.open_attempt().filter(|open| !over && open.number == of.number);
        let attempt = attempt.ok_or(Refused::Superseded)?;
        if !phase.is_reached(attempt.phase, deployment.plan_only) {
            return Err(too_early(&deployment));
        }
        let runner = self.table.runner(of.org, &deployment.runner).await?;
        let runner = runner.ok_or_else(|| gone("runner", &deployment.runner))?;
        let definition = stored_definition(&runner)?;
        let identity = definition.configuration.job_identity();
        let is_of_runner = identity.is_some_and(|identity| identity.audiences().contains(audience));
        let is_allowed =
            is_of_runner || phase == TokenPhase::Plan && self.is_of_store(of, audience).await?;
        if !is_allowed {
            let message = format!(
                "`job.identity` of runner `{}` names no audience `{}`; update the runner with it",
                runner.id,
                crate::quoted::quoted(audience),
            );
            return Err(AppError::denied(message));
        }
        let named = deployment.role.as_ref().map(|role| role.name.as_str());
        if let Some(name) = named
            && identity.is_none_or(|identity| identity.named_role(name).is_none())
        {
            let message = format!(
                "`job.identity.named_roles` of runner `{}` has no role `{name}` any more",
                runner.id
            );
            return Err(AppError::denied(message));
        }
        let statement = self.statement(of, &deployment, &runner, audience, phase).await?;
        let signed =
            self.job_issuer.assertion_with_remaining_life(&statement, statement.lifetime / 2).await;
        let signed = signed.map_err(|error| {
            tracing::error!(error = %Causes(&error), "no token for a job");
            AppError::unavailable("the key that signs tokens does not answer; try again")
        })?;
        let token = signed.expose_secret().to_owned();
        let expires_at = end_of(&token).ok_or_else(AppError::internal)?;
        let left = expires_at.duration_since(self.now()).as_secs().max(0);
        let expires_in = u32::try_from(left).unwrap_or(u32::MAX);
        Ok(IssuedToken { audience: audience.to_owned(), phase, token, expires_in, expires_at })
    }

    /// Whether a secret store of the organization trusts tokens with this audience. A job reads its secrets before its
    /// plan, so there is no such token of the later phase.
    async fn is_of_store(&self, of: AttemptRef, audience: &str) -> Result<bool, AppError> {
        let stores = self.table.all_secret_stores(of.org).await?;
        Ok(stores.iter().any(|store| store.configuration.audience() == Some(audience)))
    }

    async fn statement(
        &self,
        of: AttemptRef,
        deployment: &Deployment,
        runner: &RunnerRecord,
        audience: &str,
        phase: TokenPhase,
    ) -> Result<AssertionRequest, AppError> {
        let organization = self.table.organization(of.org).await?;
        let organization = organization.ok_or_else(AppError::unauthorized)?;
        let environment =
            self.table.environment(of.org, &deployment.project, &deployment.env).await?;
        let environment = environment
            .filter(|environment| environment.uuid == deployment.env_uuid)
            .ok_or_else(|| gone("environment", &deployment.env))?;
        let job = JobStatement {
            org_id: &organization.id,
            org: of.org,
            project: &deployment.project,
            project_uuid: environment.project_uuid,
            env_type: &environment.env_type_id,
            env: &deployment.env,
            env_uuid: deployment.env_uuid,
            runner: &runner.id,
            runner_uuid: runner.uuid,
            deployment: deployment.id,
            attempt: of.number,
            kind: deployment.kind(),
            mode: deployment.mode,
            phase,
            named_role: deployment.role.as_ref().map(|role| role.name.as_str()),
        };
        Ok(AssertionRequest {
            subject: job.subject(),
            audience: audience.to_owned(),
            claims: job.claims(),
            lifetime: self.job_token_life,
        })
    }
}

fn gone(kind: &str, id: &impl std::fmt::Display) -> AppError {
    AppError::conflict(format!("{kind} `{id}` is gone"))
}

fn too_early(deployment: &Deployment) -> AppError {
    if deployment.plan_only {
        let message = "this deployment only plans: there is no token of phase `apply` for it";
        return AppError::denied(message);
    }
    AppError::conflict(
        "the attempt has not begun to apply: report the phase `apply` first, and ask again then",
    )
}

/// When a token that was just signed expires. It may be one that an earlier request was given.
fn end_of(token: &str) -> Option<Timestamp> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    Timestamp::from_second(claims["exp"].as_i64()?).ok()
}
