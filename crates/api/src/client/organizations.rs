//! Organizations.

use super::{Client, ClientError};
use crate::organization::NewOrganization;
use secrecy::ExposeSecret as _;

impl Client {
    /// Makes an organization with the token of its first admin. For the operator of a Canyon, who
    /// is of none: the organization of this caller does not matter.
    ///
    /// # Errors
    ///
    /// 403 when the token is not the operator's.
    pub async fn create_organization(&self) -> Result<NewOrganization, ClientError> {
        let request = self.http.post(format!("{}/orgs", self.url));
        self.read(request.bearer_auth(self.token.expose_secret())).await
    }
}
