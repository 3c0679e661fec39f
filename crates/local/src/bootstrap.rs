//! The first start: the organization `local`, and a token of its admin in a file.

use crate::LocalError;
use crate::environment_file::EnvironmentFile;
use canyon_domain::audit::AuditRecord;
use canyon_domain::ids::{OrgId, OrgUuid, PrincipalId};
use canyon_domain::inventory::Organization;
use canyon_domain::principal::{Principal, Role, SignIn};
use canyon_functions::App;
use canyon_identity::bearer::{self, Presented};
use canyon_store::organizations::TokenRecord;
use canyon_store::outcome::Created;
use secrecy::{ExposeSecret, SecretString};
use std::path::Path;
use uuid::Uuid;

/// The name of a laptop's organization.
const ORG: &str = "local";

/// Ensures that the organization exists, and that the file at `path` has the settings to use it at `url`. A token that
/// is in the file already and still valid is kept. Returns the organization.
pub(crate) async fn organization(app: &App, url: &str, path: &Path) -> Result<OrgUuid, LocalError> {
    #[expect(clippy::expect_used, reason = "a constant; the test below parses it")]
    let id: OrgId = ORG.parse().expect("a valid organization id");
    let known = app.table.organization_named(&id).await?;
    let file = EnvironmentFile { url: url.to_owned(), org: id.to_string() };
    if let (Some(known), Some(token)) = (&known, EnvironmentFile::read_token(path))
        && is_good(app, &token).await?
    {
        file.write(path, &token)?;
        return Ok(known.uuid);
    }
    let token = bearer::api_token(&*app.entropy);
    let now = app.now();
    let uuid = known.as_ref().map_or_else(|| OrgUuid(app.entropy.id(now)), |known| known.uuid);
    let principal = Principal {
        id: PrincipalId(app.entropy.id(now)),
        org: uuid,
        org_id: id.clone(),
        role: Role::Admin,
        scoped_roles: Vec::new(),
        runner: None,
        operator: true,
        sign_in: SignIn::default(),
    };
    let record = TokenRecord {
        hash: bearer::hash(token.expose_secret()),
        description: "admin of this laptop".to_owned(),
        created_at: now,
        expires_at: None,
        labels: [].into(),
        grant: None,
        principal,
    };
    let audit = |action: &str, subject: String| AuditRecord {
        id: app.entropy.id(now),
        at: now,
        by: PrincipalId(Uuid::nil()),
        action: action.to_owned(),
        subject,
        by_right: "canyon".to_owned(),
        details: Vec::new(),
    };
    if known.is_none() {
        let organization = Organization::new(id.clone(), uuid, now, record.principal.id);
        let audit = audit("organization.create", format!("orgs/{id}"));
        let created = app.table.create_organization(&organization, &record, &audit).await?;
        debug_assert_eq!(created, Created::Yes, "one process has the table");
    } else {
        let audit = audit("token.create", format!("tokens/{}", record.principal.id));
        app.table.create_token(&record, &audit).await?;
    }
    file.write(path, &token)?;
    Ok(uuid)
}

async fn is_good(app: &App, token: &SecretString) -> Result<bool, LocalError> {
    let Some(Presented::Api(hash)) = bearer::parse(token.expose_secret()) else {
        return Ok(false);
    };
    Ok(app.authenticate(hash).await?.is_some_and(|principal| principal.org_id.as_str() == ORG))
}
