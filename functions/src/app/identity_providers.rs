//! Creates, changes and deletes identity providers.

use super::App;
use super::narrowing::Narrowing;
use crate::app::error::AppError;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::identity_provider::{GroupRule, IdentityProvider};
use canyon_domain::ids::{IdentityProviderId, OrgId};
use canyon_domain::principal::Principal;
use canyon_domain::trust_policy::{IssuerUrl, check_issuer};
use canyon_store::contention::MAX_TRIES;
use canyon_store::outcome::{Created, Deleted, Saved};
use canyon_store::page::{Page, PageRequest};
use serde_json::Value;

/// The most identity providers of an organization: as many as one page lists.
const MAX_PROVIDERS: u32 = 20;

/// A request to create an identity provider, parsed.
#[derive(Clone, Debug)]
pub(crate) struct IdentityProviderRequest {
    pub(crate) id: IdentityProviderId,
    pub(crate) description: String,
    pub(crate) issuer: IssuerUrl,
    pub(crate) client_id: String,
    pub(crate) scopes: Vec<String>,
    pub(crate) name_claim: String,
    pub(crate) groups_claim: String,
    pub(crate) jwks: Option<Value>,
    pub(crate) rules: Vec<GroupRule>,
}

/// The fields of an identity provider to change.
#[derive(Clone, Debug)]
pub(crate) struct IdentityProviderChange {
    pub(crate) description: Option<String>,
    pub(crate) issuer: Option<IssuerUrl>,
    pub(crate) client_id: Option<String>,
    pub(crate) scopes: Option<Vec<String>>,
    pub(crate) name_claim: Option<String>,
    pub(crate) groups_claim: Option<String>,
    /// The keys; without any they are fetched from the issuer.
    pub(crate) jwks: Narrowing<Value>,
    pub(crate) rules: Option<Vec<GroupRule>>,
}

impl App {
    /// A page of the identity providers.
    pub(crate) async fn identity_providers(
        &self,
        by: &Principal,
        page: &PageRequest,
    ) -> Result<Page<IdentityProvider>, AppError> {
        Ok(self.table.identity_providers(by.org, page).await?)
    }

    /// The identity providers of the organization with this name, for people who want to sign in. None if it does not
    /// exist.
    pub(crate) async fn sign_in_choices(
        &self,
        org: &str,
    ) -> Result<Vec<IdentityProvider>, AppError> {
        let Ok(org) = org.parse::<OrgId>() else { return Ok(Vec::new()) };
        let Some(org) = self.table.organization_named(&org).await? else { return Ok(Vec::new()) };
        let all = PageRequest { limit: MAX_PROVIDERS, after: None };
        Ok(self.table.identity_providers(org.uuid, &all).await?.items)
    }

    /// Creates an identity provider.
    pub(crate) async fn create_identity_provider(
        &self,
        by: &Principal,
        order: IdentityProviderRequest,
    ) -> Result<IdentityProvider, AppError> {
        let all = PageRequest { limit: MAX_PROVIDERS, after: None };
        if self.table.identity_providers(by.org, &all).await?.items.len() >= MAX_PROVIDERS as usize
        {
            return Err(AppError::conflict(format!(
                "an organization has at most {MAX_PROVIDERS} identity providers; delete some first"
            )));
        }
        let mut record =
            self.record(by, "identity_provider.create", format!("identity-providers/{}", order.id));
        let provider = IdentityProvider {
            uuid: self.entropy.id(record.at),
            id: order.id,
            description: order.description,
            issuer: order.issuer,
            client_id: order.client_id,
            scopes: order.scopes,
            name_claim: order.name_claim,
            groups_claim: order.groups_claim,
            jwks: order.jwks,
            rules: order.rules,
            created_at: record.at,
            updated_at: record.at,
            version: 1,
        };
        record.details = provider.granted();
        match self.table.create_identity_provider(by.org, &provider, &record).await? {
            Created::Yes => Ok(provider),
            Created::Exists | Created::Missing(_) => Err(AppError::conflict(format!(
                "identity provider `{0}` exists already; change it with: canyon update \
                 identity-provider {0}",
                provider.id
            ))),
        }
    }

    /// An identity provider. 404 if it does not exist.
    pub(crate) async fn identity_provider(
        &self,
        by: &Principal,
        id: &IdentityProviderId,
    ) -> Result<IdentityProvider, AppError> {
        let found = self.table.identity_provider(by.org, id).await?;
        found.ok_or_else(|| AppError::not_found("identity provider", id))
    }

    /// Changes the fields that `change` gives. Its people must sign in again.
    pub(crate) async fn update_identity_provider(
        &self,
        by: &Principal,
        id: &IdentityProviderId,
        change: &IdentityProviderChange,
    ) -> Result<IdentityProvider, AppError> {
        for _ in 0..MAX_TRIES {
            let before = self.identity_provider(by, id).await?;
            let mut record =
                self.record(by, "identity_provider.update", format!("identity-providers/{id}"));
            let change = change.clone();
            let after = IdentityProvider {
                description: change.description.unwrap_or(before.description),
                issuer: change.issuer.unwrap_or(before.issuer),
                client_id: change.client_id.unwrap_or(before.client_id),
                scopes: change.scopes.unwrap_or(before.scopes),
                name_claim: change.name_claim.unwrap_or(before.name_claim),
                groups_claim: change.groups_claim.unwrap_or(before.groups_claim),
                jwks: change.jwks.of(before.jwks),
                rules: change.rules.unwrap_or(before.rules),
                updated_at: record.at,
                version: before.version + 1,
                ..before
            };
            self.check_keys(&after)?;
            record.details = after.granted();
            let saved =
                self.table.save_identity_provider(by.org, before.version, &after, &record).await?;
            if saved == Saved::Yes {
                self.authenticated.forget();
                return Ok(after);
            }
        }
        Err(AppError::contended(id))
    }

    /// Checks issuer and keys together: a change may give one of them alone.
    fn check_keys(&self, provider: &IdentityProvider) -> Result<(), AppError> {
        let private = self.sign_in_verifier.private();
        let mut faults = FieldErrors::default();
        let (issuer, jwks) = (provider.issuer.as_str(), provider.jwks.as_ref());
        check_issuer(&mut faults, issuer, jwks, |issuer| private.includes(issuer));
        Ok(faults.into_result(())?)
    }

    /// Deletes an identity provider: its people cannot sign in any more, and their tokens become invalid. Deployments
    /// that they requested continue.
    pub(crate) async fn delete_identity_provider(
        &self,
        by: &Principal,
        id: &IdentityProviderId,
    ) -> Result<(), AppError> {
        for _ in 0..MAX_TRIES {
            let provider = self.identity_provider(by, id).await?;
            let record =
                self.record(by, "identity_provider.delete", format!("identity-providers/{id}"));
            let deleted = self.table.delete_identity_provider(by.org, &provider, &record).await?;
            if deleted == Deleted::Yes {
                self.authenticated.forget();
                return Ok(());
            }
        }
        Err(AppError::contended(id))
    }
}
