//! The modules of running attempts, which may read what a viewer may.

use super::App;
use crate::app::error::AppError;
use canyon_domain::attempt::SecretHash;
use canyon_domain::ids::PrincipalId;
use canyon_domain::lifecycle::TOKEN_LIFETIME;
use canyon_domain::principal::{Principal, Role, SignIn};
use canyon_identity::bearer::{self, AttemptRef};
use secrecy::ExposeSecret;
use std::sync::Arc;

impl App {
    /// The principal of a module's read token. `None` unless a runner has claimed the attempt and the attempt is not
    /// over. It is looked up for each request, so that the token ends with its attempt.
    pub(crate) async fn reader_of_attempt(
        &self,
        of: AttemptRef,
        shown: &SecretHash,
    ) -> Result<Option<Arc<Principal>>, AppError> {
        let deployment = self.table.deployment(of.org, of.deployment).await?;
        let attempt = deployment.as_ref().and_then(|deployment| deployment.open_attempt());
        let Some(attempt) = attempt.filter(|attempt| attempt.number == of.number) else {
            return Ok(None);
        };
        let Some(claim) = &attempt.claim else { return Ok(None) };
        let expected = self.master_keys.get().await?.read_token(of, attempt.fence);
        let is_it = bearer::is_same(&bearer::hash(expected.expose_secret()), shown);
        let until = claim.heartbeat_at.max(self.up_since) + TOKEN_LIFETIME;
        if !is_it || self.now() >= until {
            return Ok(None);
        }
        // The module may read no more than the principal that requested the deployment.
        let (role, scoped_roles) =
            match deployment.as_ref().and_then(|found| found.reads_in.clone()) {
                None => (Role::Viewer, Vec::new()),
                Some(parts) => (Role::None, parts),
            };
        let Some(organization) = self.table.organization(of.org).await? else { return Ok(None) };
        Ok(Some(Arc::new(Principal {
            id: PrincipalId(of.deployment.0),
            org: of.org,
            org_id: organization.id,
            role,
            scoped_roles,
            runner: None,
            operator: false,
            sign_in: SignIn { until: Some(until), ..SignIn::default() },
        })))
    }
}
