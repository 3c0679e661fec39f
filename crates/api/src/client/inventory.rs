//! Calls about runners, rules, projects, environments and environment types.
//!
//! The command line treats all kinds alike, so these calls take the segments of a path and transfer
//! JSON unchanged. The server checks it; an answer has the form of the wire type of the path.

use super::{Client, ClientError};
use crate::page::{Page, PageQuery};
use reqwest::{Method, StatusCode};
use serde::Serialize;
use serde_json::Value;

impl Client {
    /// Creates a thing.
    ///
    /// # Errors
    ///
    /// 400 names each faulty field; 409 if it exists or another obstacle exists.
    pub async fn create(&self, path: &[&str], body: &Value) -> Result<Value, ClientError> {
        self.write(Method::POST, path, body).await
    }

    /// Reads a thing.
    ///
    /// # Errors
    ///
    /// 404 if it does not exist.
    pub async fn get(&self, path: &[&str]) -> Result<Value, ClientError> {
        self.read(self.request(Method::GET, path)).await
    }

    /// Reads a thing, with options of the read.
    ///
    /// # Errors
    ///
    /// 404 if it does not exist.
    pub async fn get_with(
        &self,
        path: &[&str],
        options: &[(&str, &str)],
    ) -> Result<Value, ClientError> {
        self.read(self.request(Method::GET, path).query(options)).await
    }

    /// Reads a whole list, page by page.
    ///
    /// # Errors
    ///
    /// No status of its own; see [`ClientError`].
    pub async fn list(
        &self,
        path: &[&str],
        filter: &[(&str, String)],
    ) -> Result<Vec<Value>, ClientError> {
        let mut items = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let request = self.request(Method::GET, path).query(filter).query(&[("per_page", 100)]);
            let request = match &next {
                Some(token) => request.query(&[("page", token)]),
                None => request,
            };
            let page: Page<Value> = self.read(request).await?;
            items.extend(page.items);
            match page.next_page_token {
                Some(token) => next = Some(token),
                None => return Ok(items),
            }
        }
    }

    /// A page of a list.
    ///
    /// # Errors
    ///
    /// 400 names each faulty filter.
    pub async fn page(
        &self,
        path: &[&str],
        filter: &impl Serialize,
        page: &PageQuery,
    ) -> Result<Page<Value>, ClientError> {
        self.read(self.request(Method::GET, path).query(filter).query(page)).await
    }

    /// Changes a thing.
    ///
    /// # Errors
    ///
    /// 400 names each faulty field; 404 if it does not exist.
    pub async fn update(&self, path: &[&str], body: &Value) -> Result<Value, ClientError> {
        self.write(Method::PATCH, path, body).await
    }

    /// Creates or replaces a thing.
    ///
    /// # Errors
    ///
    /// 400 names each faulty field; 404 if the thing that it refers to does not exist.
    pub async fn put(&self, path: &[&str], body: &Value) -> Result<Value, ClientError> {
        self.write(Method::PUT, path, body).await
    }

    /// Deletes a thing. Returns it if the deletion takes a while (202).
    ///
    /// # Errors
    ///
    /// 404 if it does not exist; 409 if another thing needs it, with the names of those.
    pub async fn delete(
        &self,
        path: &[&str],
        options: &[(&str, String)],
    ) -> Result<Option<Value>, ClientError> {
        let request = self.request(Method::DELETE, path).query(options);
        let answer = self.send(request).await?;
        if answer.status == StatusCode::ACCEPTED {
            return self.parsed(&answer).map(Some);
        }
        self.check_acknowledged(&answer)?;
        Ok(None)
    }

    /// Performs an action on a thing.
    ///
    /// # Errors
    ///
    /// 404 if it does not exist; 409 if the action is not possible now.
    pub async fn act(
        &self,
        path: &[&str],
        options: &[(&str, String)],
    ) -> Result<Value, ClientError> {
        self.read(self.request(Method::POST, path).query(options)).await
    }
}
