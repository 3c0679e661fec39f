//! Calls about what the organization stores.

use super::{Client, ClientError};
use crate::retention::{Usage, UsageQuery};
use reqwest::Method;

impl Client {
    /// What the organization stores, and what a retention would remove of it.
    ///
    /// # Errors
    ///
    /// 400 names each number of days that is out of bounds.
    pub async fn usage(&self, query: &UsageQuery) -> Result<Usage, ClientError> {
        self.read(self.request(Method::GET, &["usage"]).query(query)).await
    }
}
