//! Writes thousands of deployments directly into the table.

use crate::Error;
use crate::installation::Installation;
use serde_json::{Value, json};
use std::time::Duration;
use uuid::Uuid;

/// The maximum number of items of one request.
const BATCH: usize = 25;
/// Concurrent requests. With more, DynamoDB Local fails some.
const WRITERS: usize = 2;
/// How often a failed request is retried.
const TRIES: u32 = 5;

/// A client of DynamoDB whose requests are not counted.
#[derive(Clone)]
pub(crate) struct Fill {
    client: reqwest::Client,
    table: String,
    authorization: String,
}

impl Fill {
    pub(crate) fn new(installation: &Installation) -> Self {
        let key = &installation.cloud.database;
        let scope = format!("{key}/20260101/us-east-1/dynamodb/aws4_request");
        let signed = "SignedHeaders=host;x-amz-date;x-amz-target, Signature=00";
        Self {
            client: reqwest::Client::new(),
            table: installation.table().to_owned(),
            authorization: format!("AWS4-HMAC-SHA256 Credential={scope}, {signed}"),
        }
    }

    async fn call(&self, operation: &str, body: &Value) -> Result<Value, Error> {
        let answer = self
            .client
            .post(Installation::dynamodb())
            .header("authorization", &self.authorization)
            .header("x-amz-target", format!("DynamoDB_20120810.{operation}"))
            .header("content-type", "application/x-amz-json-1.0")
            .body(body.to_string())
            .send()
            .await?;
        let (ok, said) = (answer.status().is_success(), answer.text().await?);
        if ok { Ok(serde_json::from_str(&said)?) } else { Err(said.into()) }
    }

    async fn write(&self, body: &Value) -> Result<Value, Error> {
        for _ in 1..TRIES {
            if let Ok(answer) = self.call("BatchWriteItem", body).await {
                return Ok(answer);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        self.call("BatchWriteItem", body).await
    }

    /// The items of the newest deployment: itself and its bundle.
    pub(crate) async fn newest(&self) -> Result<Vec<Value>, Error> {
        let mut found = self.items("#dep#").await?;
        let newest = found.iter().filter_map(|item| item["pk"]["S"].as_str()).max();
        let newest = newest.ok_or("the table holds no deployment")?.to_owned();
        found.retain(|item| item["pk"]["S"] == newest.as_str());
        Ok(found)
    }

    /// The item with this `id` of a partition whose key has this part.
    pub(crate) async fn item(&self, part: &str, id: &str) -> Result<Value, Error> {
        let found = self.items(part).await?.into_iter().find(|item| item["id"]["S"] == id);
        found.ok_or_else(|| format!("the table holds no {id} in {part}").into())
    }

    /// The items whose partition key has this part.
    async fn items(&self, part: &str) -> Result<Vec<Value>, Error> {
        let mut found: Vec<Value> = Vec::new();
        let mut start = Value::Null;
        loop {
            let mut body = json!({
                "TableName": self.table, "ConsistentRead": true,
                "FilterExpression": "contains(pk, :part)",
                "ExpressionAttributeValues": {":part": {"S": part}},
            });
            if !start.is_null() {
                body["ExclusiveStartKey"] = start;
            }
            let mut page = self.call("Scan", &body).await?;
            found.extend(page["Items"].as_array().cloned().unwrap_or_default());
            start = page["LastEvaluatedKey"].take();
            if start.is_null() {
                return Ok(found);
            }
        }
    }

    /// Writes `count` copies of a deployment's items, each with an id of its own. `change` modifies
    /// each copy.
    pub(crate) async fn deployments(
        &self,
        pattern: &[Value],
        count: usize,
        change: impl Fn(&mut Value, Uuid),
    ) -> Result<(), Error> {
        let pk = pattern.first().and_then(|item| item["pk"]["S"].as_str()).unwrap_or_default();
        let id = pk.rsplit('#').next().unwrap_or_default().to_owned();
        self.copies(pattern, &id, |own| own.to_string(), count, change).await
    }

    /// Writes `count` copies of these items. In each, another `name` replaces `id`, and `change` modifies it.
    pub(crate) async fn copies(
        &self,
        pattern: &[Value],
        id: &str,
        name: impl Fn(Uuid) -> String,
        count: usize,
        change: impl Fn(&mut Value, Uuid),
    ) -> Result<(), Error> {
        let text = Value::from(pattern).to_string();
        let (mut left, mut tasks) = (count, tokio::task::JoinSet::new());
        while left > 0 {
            let some = (BATCH / pattern.len()).min(left);
            left -= some;
            let mut puts = Vec::new();
            for _ in 0..some {
                let own = Uuid::now_v7();
                let mut items: Value = serde_json::from_str(&text.replace(id, &name(own)))?;
                for item in items.as_array_mut().into_iter().flatten() {
                    change(item, own);
                    puts.push(json!({"PutRequest": {"Item": item}}));
                }
            }
            let body = json!({"RequestItems": {&self.table: puts}});
            let fill = self.clone();
            tasks.spawn(async move { fill.write(&body).await });
            if tasks.len() == WRITERS {
                done(tasks.join_next().await)?;
            }
        }
        while !tasks.is_empty() {
            done(tasks.join_next().await)?;
        }
        Ok(())
    }
}

fn done(task: Option<Result<Result<Value, Error>, tokio::task::JoinError>>) -> Result<(), Error> {
    let Some(answer) = task else { return Ok(()) };
    let left = &answer??["UnprocessedItems"];
    if left.as_object().is_none_or(serde_json::Map::is_empty) {
        Ok(())
    } else {
        Err("DynamoDB Local left items unwritten".into())
    }
}
