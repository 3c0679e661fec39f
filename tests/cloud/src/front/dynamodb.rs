//! The actions that calls to `DynamoDB` and its streams need.

use super::Account;
use super::call::Call;
use super::needs::Need;
use serde_json::Value;

/// The kinds of items in a transaction, and the action that each one needs.
const IN_TRANSACTION: [(&str, &str); 5] = [
    ("Put", "PutItem"),
    ("Update", "UpdateItem"),
    ("Delete", "DeleteItem"),
    ("ConditionCheck", "ConditionCheckItem"),
    ("Get", "GetItem"),
];

/// The actions of a restore on its target.
const ON_RESTORED: [&str; 7] =
    ["BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "Scan", "UpdateItem"];

pub(super) fn needs(call: &Call, account: &Account) -> Vec<Need> {
    let body = call.json();
    if call.is_stream_call() {
        return vec![Need::new(action(&call.operation), stream(&body, account))];
    }
    match call.operation.as_str() {
        "TransactWriteItems" | "TransactGetItems" => transaction(&body, account),
        "BatchGetItem" | "BatchWriteItem" => {
            let tables = body["RequestItems"].as_object().into_iter().flat_map(|map| map.keys());
            let need = |name: &String| {
                let keys = of_batch(&body["RequestItems"][name]);
                with_keys(Need::new(action(&call.operation), table(name, account)), keys)
            };
            tables.map(need).collect()
        }
        "RestoreTableToPointInTime" | "RestoreTableFromBackup" => restore(call, &body, account),
        "ListBackups" | "ListTables" | "DescribeLimits" | "DescribeEndpoints" => {
            vec![Need::new(action(&call.operation), "*")]
        }
        _ => {
            let mut resource = table(body["TableName"].as_str().unwrap_or("*"), account);
            if let Some(index) = body["IndexName"].as_str() {
                resource = format!("{resource}/index/{index}");
            }
            let keys = leading_key(&body).into_iter().collect();
            vec![with_keys(Need::new(action(&call.operation), resource), keys)]
        }
    }
}

/// "DynamoDB read and write permissions on the target table are necessary for restore functionality." (DynamoDB developer
/// guide, "Using IAM with DynamoDB backup and restore".)
fn restore(call: &Call, body: &Value, account: &Account) -> Vec<Need> {
    let source = body["BackupArn"].as_str().map(str::to_owned);
    let named = || table(body["SourceTableName"].as_str().unwrap_or("*"), account);
    let restored = table(body["TargetTableName"].as_str().unwrap_or("*"), account);
    let mut needs = vec![Need::new(action(&call.operation), source.unwrap_or_else(named))];
    needs.extend(ON_RESTORED.map(|operation| Need::new(action(operation), &*restored)));
    needs
}

/// `dynamodb:LeadingKeys`: "Represents the first key attribute of a table". The table's own is `pk`.
fn with_keys(need: Need, keys: Vec<String>) -> Need {
    if keys.is_empty() { need } else { need.with("dynamodb:LeadingKeys", keys) }
}

/// The partition key of a call, or of a part of a transaction.
fn leading_key(body: &Value) -> Option<String> {
    let of_item = body["Item"]["pk"]["S"].as_str().or(body["Key"]["pk"]["S"].as_str());
    of_item.map(str::to_owned).or_else(|| of_query(body))
}

/// A query says `<partition key> = :value`, and then the condition on the sort key.
fn of_query(body: &Value) -> Option<String> {
    let (_, rest) = body["KeyConditionExpression"].as_str()?.split_once(" = ")?;
    let name = rest.split(' ').next()?;
    body["ExpressionAttributeValues"][name]["S"].as_str().map(str::to_owned)
}

fn of_batch(requests: &Value) -> Vec<String> {
    let read = requests["Keys"].as_array().into_iter().flatten();
    let read = read.filter_map(|key| key["pk"]["S"].as_str().map(str::to_owned));
    let written = requests.as_array().into_iter().flatten();
    let written = written.filter_map(|one| {
        leading_key(&one["PutRequest"]).or_else(|| leading_key(&one["DeleteRequest"]))
    });
    read.chain(written).collect()
}

/// A transaction needs the actions of its parts.
fn transaction(body: &Value, account: &Account) -> Vec<Need> {
    let mut needs = Vec::new();
    for item in body["TransactItems"].as_array().into_iter().flatten() {
        for (member, name) in IN_TRANSACTION {
            if let Some(part) = item.get(member) {
                let resource = table(part["TableName"].as_str().unwrap_or("*"), account);
                let keys = leading_key(part).into_iter().collect();
                needs.push(with_keys(Need::new(action(name), resource), keys));
            }
        }
    }
    needs
}

fn action(operation: &str) -> String {
    format!("dynamodb:{operation}")
}

fn table(name: &str, account: &Account) -> String {
    // A call may give an ARN in place of the name.
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
