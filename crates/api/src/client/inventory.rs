//! Runners, rules, projects, environments, environment types.
//!
//! The command line treats all kinds alike, so these calls take the segments of a path and carry
//! JSON as it is. The server checks it; an answer has the form of the wire type that
//! the path names.

use super::{Client, ClientError};
use reqwest::{Method, StatusCode};
use serde_json::Value;

impl Client {
    /// Makes something.
    ///
    /// # Errors
    ///
    /// 400 names each faulty field; 409 when it exists or something else stands in the way.
    pub async fn create(&self, path: &[&str], body: &Value) -> Result<Value, ClientError> {
        self.write(Method::POST, path, body).await
    }

    /// Reads something.
    ///
    /// # Errors
    ///
    /// 404 when it is not there.
    pub async fn get(&self, path: &[&str]) -> Result<Value, ClientError> {
        self.read(self.request(Method::GET, path)).await
    }

    /// Reads a whole list, page by page.
    ///
    /// # Errors
    ///
    /// As every call.
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
            let page: crate::page::Page<Value> = self.read(request).await?;
            items.extend(page.items);
            match page.next_page_token {
                Some(token) => next = Some(token),
                None => return Ok(items),
            }
        }
    }

    /// Changes something.
    ///
    /// # Errors
    ///
    /// 400 names each faulty field; 404 when it is not there.
    pub async fn update(&self, path: &[&str], body: &Value) -> Result<Value, ClientError> {
        self.write(Method::PATCH, path, body).await
    }

    /// Sets something, be it there already or not.
    ///
    /// # Errors
    ///
    /// 400 names each faulty field; 404 when what it is about is not there.
    pub async fn put(&self, path: &[&str], body: &Value) -> Result<Value, ClientError> {
        self.write(Method::PUT, path, body).await
    }

    /// Deletes something. Returns what is left of it when that takes a while (202).
    ///
    /// # Errors
    ///
    /// 404 when it is not there; 409 when something needs it, with what that is.
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
        self.acknowledged(&answer)?;
        Ok(None)
    }

    /// Does something to something.
    ///
    /// # Errors
    ///
    /// 404 when it is not there; 409 when it cannot be done now.
    pub async fn act(
        &self,
        path: &[&str],
        options: &[(&str, String)],
    ) -> Result<Value, ClientError> {
        self.read(self.request(Method::POST, path).query(options)).await
    }
}
