//! Authenticates agents: by a token of the role `agent`, or by a token that their own key has signed.

use super::access::note_organization;
use super::caller::bearer;
use super::error::ApiError;
use super::network_address;
use crate::App;
use crate::app::agent_proofs::{AgentCaller, AgentRequest, Proof, SignedRequest};
use crate::quoted::quoted;
use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::StatusCode;
use axum::http::request::Parts;
use canyon_domain::ids::{AgentId, OrgId};
use canyon_domain::principal::Role;
use canyon_identity::agent_key::KeyToken;
use canyon_identity::bearer::{self, Presented};

impl FromRequestParts<App> for AgentRequest {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let secret = bearer(parts).ok_or_else(ApiError::without_token)?.to_owned();
        match bearer::parse(&secret) {
            Some(Presented::Api(hash)) => {
                let principal = app.authenticate(hash.clone()).await?;
                let principal = principal.ok_or_else(ApiError::unauthorized)?;
                let (org, agent) = path(parts, app).await?;
                if !principal.is_of(&org) {
                    return Err(ApiError::not_found("organization", quoted(&org)));
                }
                note_organization(&principal.org_id);
                if principal.role != Role::Agent {
                    return Err(not_an_agent(principal.role));
                }
                let agent = agent.ok_or_else(ApiError::not_an_id)?;
                let (org, org_id) = (principal.org, principal.org_id.clone());
                let (source, proof) = (network_address::of(parts), Proof::Token(hash, principal));
                Ok(Self::Known(AgentCaller { org, org_id, agent, at: app.now(), source, proof }))
            }
            Some(_) => Err(ApiError::unauthorized()),
            None => {
                KeyToken::parse(&secret).ok_or_else(ApiError::unauthorized)?;
                let (org, agent) = path(parts, app).await?;
                let org_id: OrgId = org.parse().map_err(|_| ApiError::unauthorized())?;
                let agent = agent.ok_or_else(ApiError::unauthorized)?;
                let org = app.organization_of_agents(&org_id).await?;
                let at = app.now();
                let Some(org) = org else {
                    let token = secret;
                    return Ok(Self::Unknown(SignedRequest { org_id, agent, at, token }));
                };
                note_organization(&org_id);
                let (source, proof) = (network_address::of(parts), Proof::Key(secret));
                Ok(Self::Known(AgentCaller { org, org_id, agent, at, source, proof }))
            }
        }
    }
}

/// The organization and the agent in the path.
async fn path(parts: &mut Parts, app: &App) -> Result<(String, Option<AgentId>), ApiError> {
    let params = RawPathParams::from_request_parts(parts, app).await;
    let params = params.map_err(|_| ApiError::not_an_id())?;
    let named = |wanted: &str| {
        params.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned())
    };
    let org = named("orgId").ok_or_else(ApiError::not_an_id)?;
    Ok((org, named("agentId").and_then(|agent| agent.parse().ok())))
}

fn not_an_agent(role: Role) -> ApiError {
    let message = format!(
        "this is for agents: it needs a token with the role `agent`, and yours has `{}`",
        role.as_str()
    );
    ApiError::new(StatusCode::FORBIDDEN, message)
}
