//! The token of an attempt, and the deployment that proves it.

use super::App;
use crate::app::error::AppError;
use canyon_domain::attempt::SecretHash;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{EnvId, ProjectId};
use canyon_domain::inventory::Environment;
use canyon_domain::lifecycle::TOKEN_LIFETIME;
use canyon_identity::bearer::AttemptRef;
use jiff::{SignedDuration, Timestamp};

/// For so long a request uses the deployment that was read before its body. With a slow body it would otherwise use one as
/// old as its sender likes, whose attempt has perhaps ended.
const FRESH: SignedDuration = SignedDuration::from_secs(1);

/// The token of an attempt, as a request presents it.
pub(crate) struct RunToken {
    /// The attempt that it names.
    pub(crate) of: AttemptRef,
    hash: SecretHash,
    /// The environment that the request names: read with the deployment.
    environment: Option<(ProjectId, EnvId)>,
    /// What verified it before the body was read, and when.
    proved: Option<Box<(Proved, Timestamp)>>,
}

/// An attempt that has proved its token, with its deployment at that time.
pub(crate) struct Proved {
    pub(crate) deployment: Deployment,
    /// Whether the attempt is over. Then only a repeated result is answered, and all else is refused.
    pub(crate) over: bool,
    /// The deployment's environment, if the request named it.
    pub(crate) environment: Option<Box<Environment>>,
}

impl RunToken {
    pub(crate) const fn new(of: AttemptRef, hash: SecretHash) -> Self {
        Self { of, hash, environment: None, proved: None }
    }

    /// The same, and the name of the deployment's environment as its sender says it.
    pub(crate) fn naming(self, environment: Option<(ProjectId, EnvId)>) -> Self {
        Self { environment, ..self }
    }
}

impl App {
    /// Verifies a token before the body of its request is read.
    ///
    /// # Errors
    ///
    /// 401 when the token is not that attempt's, or the runner has not reported for too long.
    pub(crate) async fn verify(&self, token: &mut RunToken) -> Result<(), AppError> {
        let at = self.now();
        token.proved = Some(Box::new((self.prove_now(token).await?, at)));
        Ok(())
    }

    /// The deployment of an attempt whose token this is: as [`Self::verify`] has just read it, for the first caller, or as
    /// it is now.
    ///
    /// # Errors
    ///
    /// 401 when the token is not that attempt's, or the runner has not reported for too long.
    pub(crate) async fn prove(&self, token: &mut RunToken) -> Result<Proved, AppError> {
        match token.proved.take() {
            Some(before) if (before.1..before.1 + FRESH).contains(&self.now()) => Ok(before.0),
            Some(_) | None => self.prove_now(token).await,
        }
    }

    /// The deployment of an attempt whose token this is, as it is now.
    ///
    /// # Errors
    ///
    /// 401 when the token is not that attempt's, or the runner has not reported for too long.
    pub(crate) async fn prove_now(&self, token: &RunToken) -> Result<Proved, AppError> {
        let of = token.of;
        let (deployment, environment) = match &token.environment {
            None => (self.table.deployment(of.org, of.deployment).await?, None),
            Some((project, env)) => {
                let (org, id) = (of.org, of.deployment);
                self.table.deployment_and_environment(org, id, project, env).await?
            }
        };
        let deployment = deployment.ok_or_else(AppError::unauthorized)?;
        let attempt = deployment.attempts.iter().find(|attempt| attempt.number == of.number);
        let claim = attempt.and_then(|attempt| attempt.claim.as_ref());
        let claim = claim.filter(|claim| claim.token_hash == token.hash);
        let claim = claim.ok_or_else(AppError::unauthorized)?;
        let over = attempt.is_none_or(|attempt| attempt.ended.is_some());
        if !over && self.now() >= claim.heartbeat_at.max(self.up_since) + TOKEN_LIFETIME {
            return Err(AppError::unauthorized());
        }
        let environment = environment.filter(|found| found.uuid == deployment.env_uuid);
        let environment = environment.map(Box::new);
        Ok(Proved { deployment, over, environment })
    }
}
