//! Calls about the variables that an organization keeps. They are typed, because values keep every digit of a number.

use super::{Client, ClientError};
use crate::page::{Page, PageQuery};
use crate::variable_set::{EffectiveVariables, VariableSet, VariableSetUpdateBody};
use crate::variable_use::{VariableSetQuery, VariableUse, VariableUseQuery};
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

impl Client {
    /// All sets of variables that match and that the caller may read.
    ///
    /// # Errors
    ///
    /// 400 if the filter is malformed.
    pub async fn variable_sets(
        &self,
        filter: &VariableSetQuery,
    ) -> Result<Vec<VariableSet>, ClientError> {
        self.whole_list(&["variable-sets"], filter).await
    }

    /// The environments that get a variable, among those that the caller may read.
    ///
    /// # Errors
    ///
    /// 400 if the name or the filter is malformed.
    pub async fn variable_uses(
        &self,
        kind: &str,
        name: &str,
        filter: &VariableUseQuery,
    ) -> Result<Vec<VariableUse>, ClientError> {
        self.whole_list(&["variables", kind, name, "uses"], filter).await
    }

    async fn whole_list<T: DeserializeOwned>(
        &self,
        path: &[&str],
        filter: &impl Serialize,
    ) -> Result<Vec<T>, ClientError> {
        let mut items = Vec::new();
        let mut query = PageQuery { per_page: Some(100), page: None };
        loop {
            let request = self.request(Method::GET, path).query(filter).query(&query);
            let page: Page<T> = self.read(request).await?;
            items.extend(page.items);
            if page.next_page_token.is_none() {
                return Ok(items);
            }
            query.page = page.next_page_token;
        }
    }

    /// The variables at `path`, which ends in `variables`.
    ///
    /// # Errors
    ///
    /// 404 if the object of the path does not exist.
    pub async fn variables(&self, path: &[&str]) -> Result<VariableSet, ClientError> {
        self.read(self.request(Method::GET, path)).await
    }

    /// Changes variables at `path`, which ends in `variables`.
    ///
    /// # Errors
    ///
    /// 400 names each faulty variable; 404 if the object of the path does not exist; 409 if the set would be too large.
    pub async fn update_variables(
        &self,
        path: &[&str],
        body: &VariableSetUpdateBody,
    ) -> Result<VariableSet, ClientError> {
        self.write(Method::PATCH, path, body).await
    }

    /// The variables that a job of an environment gets.
    ///
    /// # Errors
    ///
    /// 404 if the environment does not exist.
    pub async fn effective_variables(
        &self,
        project: &str,
        env: &str,
    ) -> Result<EffectiveVariables, ClientError> {
        let path = ["projects", project, "envs", env, "variables", "effective"];
        self.read(self.request(Method::GET, &path)).await
    }
}
