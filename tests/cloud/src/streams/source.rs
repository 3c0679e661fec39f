//! The API of `DynamoDB` Streams, as far as reading needs it.

use serde_json::{Value, json};
use std::time::Duration;

/// No call takes long on one machine.
const LIMIT: Duration = Duration::from_secs(10);

/// The address and reader of the stream.
#[derive(Clone, Debug)]
pub struct StreamSource {
    /// `DynamoDB` Local, or a front before it: a mapping reads with the function's role.
    pub endpoint: String,
    /// `DynamoDB` Local keeps a database for each access key.
    pub access_key: String,
    /// And for each region.
    pub region: String,
    /// The table.
    pub table: String,
}

pub(super) struct Api {
    source: StreamSource,
    client: reqwest::Client,
}

/// One answer of `GetRecords`.
pub(super) struct Page {
    pub(super) records: Vec<Value>,
    /// None at the end of a closed shard.
    pub(super) next: Option<String>,
}

impl Api {
    pub(super) fn new(source: StreamSource) -> Result<Self, String> {
        let client = reqwest::Client::builder().timeout(LIMIT).no_proxy().build();
        Ok(Self { source, client: client.map_err(|error| error.to_string())? })
    }

    pub(super) fn region(&self) -> &str {
        &self.source.region
    }

    async fn call(&self, operation: &str, body: &Value) -> Result<Value, String> {
        let StreamSource { endpoint, access_key, region, .. } = &self.source;
        // `DynamoDB` Local reads the scope and does not check the signature.
        let signature = format!(
            "AWS4-HMAC-SHA256 Credential={access_key}/20260101/{region}/dynamodb/aws4_request, \
             SignedHeaders=host;x-amz-date;x-amz-target, Signature=00"
        );
        let request = self.client.post(endpoint).header("authorization", signature);
        let request = request
            .header("x-amz-target", format!("DynamoDBStreams_20120810.{operation}"))
            .header("content-type", "application/x-amz-json-1.0")
            .body(body.to_string());
        let failed = |error: reqwest::Error| format!("{operation}: {error}");
        let answer = request.send().await.map_err(failed)?;
        let status = answer.status();
        let text = answer.text().await.map_err(failed)?;
        if !status.is_success() {
            return Err(format!("{operation}: {status}: {text}"));
        }
        serde_json::from_str(&text).map_err(|error| format!("{operation}: {error}: {text}"))
    }

    /// The name that `DynamoDB` Local gave the newest stream of the table.
    pub(super) async fn stream(&self) -> Result<String, String> {
        let table = &self.source.table;
        let answer = self.call("ListStreams", &json!({"TableName": table})).await?;
        let newest = answer["Streams"].as_array().and_then(|streams| streams.last());
        let arn = newest.and_then(|stream| stream["StreamArn"].as_str());
        arn.map(str::to_owned).ok_or_else(|| format!("the table {table} has no stream"))
    }

    /// Its shards, oldest first.
    pub(super) async fn shards(&self, stream: &str) -> Result<Vec<String>, String> {
        let answer = self.call("DescribeStream", &json!({"StreamArn": stream})).await?;
        let shards = answer["StreamDescription"]["Shards"].as_array().cloned().unwrap_or_default();
        Ok(shards.iter().filter_map(|shard| shard["ShardId"].as_str().map(str::to_owned)).collect())
    }

    pub(super) async fn iterator(
        &self,
        stream: &str,
        shard: &str,
        kind: &str,
    ) -> Result<String, String> {
        let body = json!({"StreamArn": stream, "ShardId": shard, "ShardIteratorType": kind});
        let answer = self.call("GetShardIterator", &body).await?;
        let iterator = answer["ShardIterator"].as_str();
        iterator.map(str::to_owned).ok_or_else(|| format!("no iterator for {shard}: {answer}"))
    }

    pub(super) async fn records(&self, iterator: &str) -> Result<Page, String> {
        // "The largest value you can specify is 1000."
        let body = json!({"ShardIterator": iterator, "Limit": 1_000});
        let mut answer = self.call("GetRecords", &body).await?;
        let records = match answer["Records"].take() {
            Value::Array(records) => records,
            _ => Vec::new(),
        };
        Ok(Page { records, next: answer["NextShardIterator"].as_str().map(str::to_owned) })
    }
}
