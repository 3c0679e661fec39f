//! Calls about organizations.

use super::{Client, ClientError};
use crate::organization::NewOrganization;

impl Client {
    /// Creates an organization with a token of its first admin. For the operator of a Canyon, who
    /// belongs to no organization: the organization of this client is not used.
    ///
    /// # Errors
    ///
    /// 403 if the token is not the operator's.
    pub async fn create_organization(&self) -> Result<NewOrganization, ClientError> {
        let request = self.http.to_canyon.post(format!("{}/orgs", self.url));
        self.read(self.with_bearer(request)).await
    }
}
