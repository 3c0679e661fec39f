//! Starts of each function, compared with the smallest function in Rust, alternating.

use crate::installation::Installation;
use crate::runtime_api::{self, Start};
use crate::{Error, print};
use canyon_cloud::runtime::FunctionConfig;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

const ROUNDS: usize = 40;
const PROGRAMS: [&str; 6] = ["hello", "api", "events", "issuer", "launcher", "sweep"];

pub(crate) fn measure(installation: &Installation) -> Result<(), Error> {
    let get = |path: &str| request(path, installation.token());
    let runner = get(&format!("/orgs/{}/runners/here", installation.org)).to_string();
    let hello = get("/").to_string();
    let mut starts: BTreeMap<&str, Vec<Start>> = BTreeMap::new();
    // The first round reads programs from disk.
    for round in 0..=ROUNDS {
        for name in PROGRAMS {
            let event = match name {
                "api" => Some(&runner),
                "hello" => Some(&hello),
                _ => None,
            };
            let right = |answer: &str| answer.contains("\"statusCode\":200");
            let mut command = command(installation, name)?;
            let start = runtime_api::start(&mut command, event.map(String::as_str), right)
                .map_err(|error| format!("{name}: {error}"))?;
            if round > 0 {
                starts.entry(name).or_default().push(start);
            }
        }
    }
    for name in PROGRAMS {
        let found = starts.get(name).map(Vec::as_slice).unwrap_or_default();
        let next: Vec<_> = found.iter().map(|start| start.next).collect();
        let answered: Vec<_> = found.iter().filter_map(|start| start.answered).collect();
        print(&json!({
            "program": name,
            "starts": found.len(),
            "next_ms": summary(next),
            "answered_ms": summary(answered),
        }));
    }
    Ok(())
}

/// The median and the 90th percentile, in milliseconds.
pub(crate) fn summary(mut times: Vec<Duration>) -> Value {
    times.sort_unstable();
    let at = |hundredth: usize| {
        let place = (times.len() * hundredth / 100).min(times.len().saturating_sub(1));
        times.get(place).map(|time| time.as_secs_f64() * 1000.0)
    };
    json!([at(50), at(90)])
}

/// A function as Lambda starts it, with direct access to the table.
fn command(installation: &Installation, name: &str) -> Result<Command, Error> {
    let function = match name {
        "hello" => "api",
        other => other,
    };
    let config: &FunctionConfig = installation.cloud.function(function).config();
    let folder = config.program.parent().ok_or("the program has no folder")?;
    let mut command = Command::new(folder.join(name));
    command
        .env_clear()
        .envs(&config.environment)
        .env_remove("CANYON_LOCAL_JOBS")
        .env_remove("CANYON_RUNNER_PROGRAM")
        .env("AWS_ENDPOINT_URL_DYNAMODB", Installation::dynamodb())
        .env("AWS_REGION", &config.region)
        // It calls DynamoDB Local without the front, which would choose the database.
        .env("AWS_ACCESS_KEY_ID", &installation.cloud.database)
        .env("AWS_SECRET_ACCESS_KEY", &config.credentials.secret_access_key)
        .env("AWS_LAMBDA_FUNCTION_NAME", name)
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", config.memory_mb.to_string())
        .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        .env("AWS_LAMBDA_LOG_GROUP_NAME", "/aws/lambda/bench")
        .env("AWS_LAMBDA_LOG_STREAM_NAME", "bench")
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Ok(command)
}

/// An event of an HTTP API: `GET` of a path.
fn request(path: &str, token: &str) -> Value {
    json!({
        "version": "2.0", "routeKey": "$default", "rawPath": path, "rawQueryString": "",
        "headers": { "authorization": format!("Bearer {token}"), "host": "api.example" },
        "requestContext": {
            "accountId": "123456789012", "apiId": "a1b2c3d4e5", "domainName": "api.example",
            "domainPrefix": "api", "requestId": "JKJaXmPLvHcESHA=", "routeKey": "$default",
            "stage": "$default", "time": "12/Mar/2026:19:03:58 +0000", "timeEpoch": 1_773_342_238_000_u64,
            "http": {
                "method": "GET", "path": path, "protocol": "HTTP/1.1", "sourceIp": "192.0.2.1",
                "userAgent": "bench",
            },
        },
        "isBase64Encoded": false,
    })
}
