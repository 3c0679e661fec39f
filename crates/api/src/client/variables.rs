//! Calls about the variables that an organization keeps. They are typed, because values keep every digit of a number.

use super::{Client, ClientError};
use crate::page::{Page, PageQuery};
use crate::variable_set::{EffectiveVariables, VariableSet, VariableSetUpdateBody};
use reqwest::Method;

impl Client {
    /// All sets of variables that the caller may read.
    ///
    /// # Errors
    ///
    /// No status of its own; see [`ClientError`].
    pub async fn variable_sets(&self) -> Result<Vec<VariableSet>, ClientError> {
        let mut sets = Vec::new();
        let mut query = PageQuery { per_page: Some(100), page: None };
        loop {
            let request = self.request(Method::GET, &["variable-sets"]).query(&query);
            let page: Page<VariableSet> = self.read(request).await?;
            sets.extend(page.items);
            if page.next_page_token.is_none() {
                return Ok(sets);
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
