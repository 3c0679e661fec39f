//! What calls to `DynamoDB` and its streams need.

use super::Account;
use super::call::Call;
use super::needs::Need;
use serde_json::Value;

/// The members of a transaction's item, and the action that each one needs.
const IN_TRANSACTION: [(&str, &str); 5] = [
    ("Put", "PutItem"),
    ("Update", "UpdateItem"),
    ("Delete", "DeleteItem"),
    ("ConditionCheck", "ConditionCheckItem"),
    ("Get", "GetItem"),
];

pub(super) fn needs(call: &Call, account: &Account) -> Vec<Need> {
    let body = call.json();
    if call.is_stream_call() {
        return vec![Need::new(action(&call.operation), stream(&body, account))];
    }
    match call.operation.as_str() {
        "TransactWriteItems" | "TransactGetItems" => transaction(&body, account),
        "BatchGetItem" | "BatchWriteItem" => {
            let tables = body["RequestItems"].as_object().into_iter().flat_map(|map| map.keys());
            tables.map(|name| Need::new(action(&call.operation), table(name, account))).collect()
        }
        "ListTables" | "DescribeLimits" | "DescribeEndpoints" => {
            vec![Need::new(action(&call.operation), "*")]
        }
        _ => {
            let mut resource = table(body["TableName"].as_str().unwrap_or("*"), account);
            if let Some(index) = body["IndexName"].as_str() {
                resource = format!("{resource}/index/{index}");
            }
            vec![Need::new(action(&call.operation), resource)]
        }
    }
}

/// A transaction needs what its parts would need on their own.
fn transaction(body: &Value, account: &Account) -> Vec<Need> {
    let mut needs = Vec::new();
    for item in body["TransactItems"].as_array().into_iter().flatten() {
        for (member, name) in IN_TRANSACTION {
            if let Some(part) = item.get(member) {
                let resource = table(part["TableName"].as_str().unwrap_or("*"), account);
                needs.push(Need::new(action(name), resource));
            }
        }
    }
    needs
}

fn action(operation: &str) -> String {
    format!("dynamodb:{operation}")
}

fn table(name: &str, account: &Account) -> String {
    // An ARN may stand in place of the name.
    let name = name.rsplit(":table/").next().unwrap_or(name);
    format!("arn:aws:dynamodb:{}:{}:table/{name}", account.region, account.id)
}

/// An iterator begins with the ARN of its stream.
fn stream(body: &Value, account: &Account) -> String {
    let named = body["StreamArn"].as_str().or(body["ShardIterator"].as_str());
    let Some((_, rest)) = named.and_then(|name| name.split_once(":table/")) else {
        let name = body["TableName"].as_str().unwrap_or("*");
        return format!("{}/stream/*", table(name, account));
    };
    let (name, label) = rest.split_once("/stream/").unwrap_or((rest, "*"));
    let label = label.split('|').next().unwrap_or(label);
    let known = account.streams.get(name).cloned();
    known.unwrap_or_else(|| format!("{}/stream/{label}", table(name, account)))
}
