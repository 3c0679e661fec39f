//! Creates organizations, and changes their settings.

use super::App;
use crate::app::error::AppError;
use canyon_api::organization::OrganizationUpdateBody;
use canyon_domain::ids::{OrgId, OrgUuid, PrincipalId};
use canyon_domain::inventory::{AgentRequests, Organization};
use canyon_domain::ports::Entropy;
use canyon_domain::principal::{Principal, Role, SignIn};
use canyon_identity::bearer;
use canyon_store::organizations::TokenRecord;
use canyon_store::outcome::{Created, Saved};
use secrecy::{ExposeSecret, SecretString};

/// How often another name is drawn if one exists already. With a billion names, that is rare.
const MAX_NAMES: u32 = 5;

// Thirty-two each: five random bits choose one with equal probability.
const ADJECTIVES: [&str; 32] = [
    "amber", "bold", "brave", "bright", "brisk", "calm", "clear", "clever", "cool", "crisp",
    "deep", "eager", "early", "fair", "fine", "fresh", "gentle", "golden", "grand", "green",
    "high", "keen", "kind", "light", "lively", "lucky", "quick", "quiet", "silver", "steady",
    "warm", "wide",
];
const NOUNS: [&str; 32] = [
    "basin", "bay", "beach", "bluff", "brook", "butte", "cave", "cliff", "coast", "cove", "creek",
    "delta", "dune", "field", "fjord", "forest", "glade", "gorge", "grove", "hill", "island",
    "lagoon", "lake", "marsh", "meadow", "mesa", "peak", "ridge", "river", "shore", "summit",
    "valley",
];
const SUFFIX: [u8; 32] = *b"abcdefghijklmnopqrstuvwxyz234567";

impl App {
    /// The organization of the caller.
    pub(crate) async fn organization(&self, by: &Principal) -> Result<Organization, AppError> {
        let found = self.table.organization(by.org).await?;
        found.ok_or_else(|| AppError::not_found("organization", &by.org_id))
    }

    /// Creates an organization with a random name, and the token of its first administrator.
    pub(crate) async fn create_organization(
        &self,
        by: &Principal,
    ) -> Result<(Organization, SecretString), AppError> {
        for _ in 0..MAX_NAMES {
            let now = self.now();
            let (id, uuid) = (name(self.entropy.as_ref())?, OrgUuid(self.entropy.id(now)));
            let organization = Organization::new(id, uuid, now, by.id);
            let (token, secret) = self.first_token(&organization);
            let record = self.record(
                by,
                "organization.create",
                format!("organizations/{}", organization.id),
            );
            let created = self.table.create_organization(&organization, &token, &record).await?;
            if created == Created::Yes {
                return Ok((organization, secret));
            }
        }
        Err(AppError::conflict("no free name was found; try again"))
    }

    /// Changes the settings of the caller's organization. If it refuses requests of agents from now on, pending
    /// agents are forgotten, so that none of them is adopted by mistake later.
    pub(crate) async fn update_organization(
        &self,
        by: &Principal,
        body: &OrganizationUpdateBody,
    ) -> Result<Organization, AppError> {
        let found = self.table.organization(by.org).await?;
        let mut organization =
            found.ok_or_else(|| AppError::not_found("organization", &by.org_id))?;
        let Some(wanted) = body.agent_requests else { return Ok(organization) };
        if organization.agent_requests != wanted {
            organization.agent_requests = wanted;
            let subject = format!("organizations/{}", organization.id);
            let mut record = self.record(by, "organization.update", subject);
            record.details.push(format!("agent_requests: {}", wanted.as_str()));
            if self.table.update_organization(&organization, &record).await? == Saved::Lost {
                return Err(AppError::not_found("organization", &by.org_id));
            }
        }
        if wanted == AgentRequests::Refused {
            self.forget_pending_agents(by.org).await?;
        }
        Ok(organization)
    }

    fn first_token(&self, organization: &Organization) -> (TokenRecord, SecretString) {
        let secret = bearer::api_token(self.entropy.as_ref());
        let principal = Principal {
            id: PrincipalId(self.entropy.id(organization.created_at)),
            org: organization.uuid,
            org_id: organization.id.clone(),
            role: Role::Admin,
            scoped_roles: Vec::new(),
            runner: None,
            operator: false,
            sign_in: SignIn::default(),
        };
        let token = TokenRecord {
            hash: bearer::hash(secret.expose_secret()),
            principal,
            description: "first admin".to_owned(),
            created_at: organization.created_at,
            expires_at: None,
            labels: [].into(),
            grant: None,
        };
        (token, secret)
    }
}

/// Two words and a suffix: `calm-river-k3xq2`.
fn name(entropy: &dyn Entropy) -> Result<OrgId, AppError> {
    let mut random = [0; 7];
    entropy.fill(&mut random);
    let [first, second, suffix @ ..] = random.map(|byte| usize::from(byte % 32));
    let suffix: String = suffix.iter().map(|index| char::from(SUFFIX[*index])).collect();
    let name = format!("{}-{}-{suffix}", ADJECTIVES[first], NOUNS[second]);
    name.parse().map_err(|_| AppError::internal())
}
