//! The sweep removes what an organization keeps no longer: an old deployment, its log and its outputs.

use crate::bus::SOON;
use crate::harness::programs;
use crate::harness::site::Site;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_api::retention::UsageQuery;
use canyon_cloud::region::REGION;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use uuid::{NoContext, Uuid};

/// AWS's command line with the rights of the function `api`.
fn aws(site: &Site, arguments: &[&str]) -> Value {
    let config = site.server.cloud().function("api").config();
    let keys = &config.credentials;
    let output = Command::new(programs::given("CANYON_TEST_AWS"))
        .args(["--endpoint-url", &config.environment["AWS_ENDPOINT_URL"], "--output", "json"])
        .args(arguments)
        .env("AWS_ACCESS_KEY_ID", &keys.access_key_id)
        .env("AWS_SECRET_ACCESS_KEY", &keys.secret_access_key)
        .env("AWS_DEFAULT_REGION", REGION)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// A copy of the deployment `id` that ended 40 days ago, with a log. Returns its id.
async fn aged(site: &Site, id: &str) -> String {
    let organization = site.client.get(&[]).await.unwrap();
    let org: Uuid = organization["uuid"].as_str().unwrap().parse().unwrap();
    let config = site.server.cloud().function("api").config();
    let table = config.environment["CANYON_TABLE"].clone();
    let partition = |id: &str| {
        let org = URL_SAFE_NO_PAD.encode(org.as_bytes());
        json!({ "S": format!("{org}#dep#{id}") })
    };
    let key = json!({ "pk": partition(id), "sk": { "S": "D" } }).to_string();
    let get = ["dynamodb", "get-item", "--table-name", &table, "--key", &key];
    let mut item = aws(site, &get)["Item"].take();
    let ended = jiff::Timestamp::now() - Duration::from_hours(24 * 40);
    let seconds = u64::try_from(ended.as_second()).unwrap();
    let old = Uuid::new_v7(uuid::Timestamp::from_unix(NoContext, seconds, 0)).to_string();
    for (name, value) in [
        ("pk", partition(&old)),
        ("gsi1sk", json!({ "S": old })),
        ("gsi3sk", json!({ "S": old })),
        ("created_at", json!({ "S": ended.to_string() })),
        ("completed_at", json!({ "S": ended.to_string() })),
    ] {
        item[name] = value;
    }
    // Its end was published long ago.
    for name in ["due_at", "gsi2pk", "gsi2sk", "wake"] {
        item.as_object_mut().unwrap().remove(name);
    }
    let put = ["dynamodb", "put-item", "--table-name", &table, "--item", &item.to_string()];
    aws(site, &put);
    let file = site.server.data().join("old-log");
    std::fs::write(&file, "an old line\n").unwrap();
    let object = format!("{org}/deployments/{old}/log/{:016}", 0);
    aws(
        site,
        &[
            "s3api",
            "put-object",
            "--bucket",
            &config.environment["CANYON_BUCKET"],
            "--key",
            &object,
            "--if-none-match",
            "*",
            "--body",
            file.to_str().unwrap(),
        ],
    );
    old
}

/// An old deployment is removed after the retention is set, and the newer one of the environment stays.
pub(crate) async fn removed(site: &Site, newest: &str) {
    let old = aged(site, newest).await;
    assert_eq!(site.log(&old).await, "an old line\n");
    site.client.put(&["retention"], &json!({ "deployments_days": 30 })).await.unwrap();
    let deadline = Instant::now() + SOON;
    while site.client.deployment(&old).await.is_ok() {
        assert!(Instant::now() < deadline, "the sweep does not remove it");
        sleep(Duration::from_millis(200)).await;
    }
    let usage = site.client.usage(&UsageQuery::default()).await.unwrap();
    assert_eq!(usage.deployments.removable, 0, "{usage:?}");
    site.client.deployment(newest).await.unwrap();
    assert!(!site.log(newest).await.is_empty());
}
