//! The samples in `events/`: incoming ones, sent with the real `cargo lambda invoke`; outgoing ones, compared
//! with their schemas and the types that they are published from.

use crate::bus;
use crate::harness::programs;
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, RUNNER, Site};
use canyon_cloud::cloud::FUNCTIONS;
use canyon_cloud::invoke_api::InvokeApi;
use canyon_domain::events::{DeploymentEvent, REJECTED, Rejected};
use canyon_domain::schedule::announcement::{DESTROY_ANNOUNCED, DestroyAnnounced};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const OUT: [&str; 10] = [
    "deployment-awaiting-approval",
    "deployment-cancelled",
    "deployment-failed",
    "deployment-queued",
    "deployment-rejected",
    "deployment-running",
    "deployment-succeeded",
    "environment-drift-detected",
    "environment-drift-resolved",
    "schedule-destroy-announced",
];
const IN: [(&str, &str); 10] = [
    ("api-create-deployment", "api"),
    ("api-get-runner", "api"),
    ("api-get-runner-v1", "api"),
    ("api-health", "api"),
    ("events-deployment-requested", "events"),
    ("events-deployment-requested-with-rule", "events"),
    ("events-task-stopped", "events"),
    ("issuer-jwks", "issuer"),
    ("launcher", "launcher"),
    ("sweep", "sweep"),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn path(name: &str) -> PathBuf {
    root().join(format!("events/{name}.json"))
}

pub(crate) fn sample(name: &str) -> Value {
    let text = fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The `detail` of each event matches the schema of its type.
pub(crate) fn assert_valid(events: &[Value]) {
    let mut check = Command::new(programs::given("CANYON_TEST_AWS_PYTHON"))
        .arg(root().join("events/schema/check.py"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(json!(events).to_string().as_bytes()).unwrap();
    let said = check.wait_with_output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
}

#[test]
fn each_sample_has_its_line_in_the_table() {
    let page = fs::read_to_string(root().join("events/README.md")).unwrap();
    let files = fs::read_dir(root().join("events")).unwrap().map(|one| one.unwrap().file_name());
    let files: BTreeSet<_> =
        files.filter_map(|name| name.to_str()?.strip_suffix(".json").map(str::to_owned)).collect();
    let known = IN.map(|(name, _)| name.to_owned()).into_iter();
    let known: BTreeSet<_> = known.chain(OUT.map(str::to_owned)).collect();
    assert_eq!(files, known);
    for name in files {
        assert!(page.contains(&format!("`{name}.json`")), "{name} is not in the table");
    }
}

#[test]
fn published_samples_match_the_schemas_and_the_types() {
    let events = OUT.map(sample);
    assert_valid(&events);
    for event in events {
        let kind = event["detail-type"].as_str().unwrap();
        let detail = event["detail"].clone();
        let again = match kind {
            REJECTED => json!(serde_json::from_value::<Rejected>(detail).unwrap()),
            DESTROY_ANNOUNCED => {
                json!(serde_json::from_value::<DestroyAnnounced>(detail).unwrap())
            }
            _ => {
                let read: DeploymentEvent = serde_json::from_value(detail).unwrap();
                assert_eq!(read.detail_type(), kind);
                json!(read)
            }
        };
        assert_eq!(again, event["detail"], "nothing is lost and nothing is added");
    }
}

/// The output of `cargo lambda invoke` for a sample.
async fn invoke(api: &InvokeApi, function: &str, file: PathBuf) -> Value {
    let (port, function) = (api.port().to_string(), function.to_owned());
    let output = tokio::task::spawn_blocking(move || {
        Command::new(programs::given("CANYON_TEST_CARGO_LAMBDA"))
            .args(["lambda", "invoke", "--invoke-address", "127.0.0.1", "--invoke-port", &port])
            .args(["--data-file".as_ref(), file.as_os_str()])
            .args(["--output-format", "json", &function])
            .output()
            .unwrap()
    });
    let output = output.await.unwrap();
    let (said, error) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{error}");
    serde_json::from_str(&said).unwrap_or_else(|fault| panic!("{fault}: {said}{error}"))
}

async fn served(server: &Server) -> (InvokeApi, impl Fn(&str) -> String) {
    let cloud = server.cloud().clone();
    let api = InvokeApi::serve(FUNCTIONS.map(|name| cloud.function(name).clone())).await;
    (api, move |name: &str| cloud.function(name).name().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_sample_as_it_is_gives_the_documented_answer() {
    let server = Server::start().await;
    let (api, name) = served(&server).await;
    for (sample, function) in IN {
        let answer = invoke(&api, &name(function), path(sample)).await;
        match sample {
            "api-health" | "issuer-jwks" => assert_eq!(answer["statusCode"], 200, "{answer}"),
            "launcher" => assert_eq!(answer, json!({ "batchItemFailures": [] })),
            "sweep" => assert_eq!(answer, Value::Null),
            "events-task-stopped" => assert_eq!(answer["hinted"]["news"], false, "{answer}"),
            _ if function == "api" => assert_eq!(answer["statusCode"], 401, "{sample}: {answer}"),
            _ => {
                let reason = answer["rejected"]["reason"].as_str().unwrap_or_default();
                assert!(reason.starts_with("no event source of organization `acme`"), "{answer}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_real_names_the_samples_do_what_they_say() {
    let site = Site::new().await;
    bus::admit(&site).await;
    let (api, name) = served(&site.server).await;
    let answer = async |sample: &str, function: &str| {
        let text = fs::read_to_string(path(sample)).unwrap();
        let text = text.replace("Bearer TOKEN", &format!("Bearer {}", site.server.token()));
        let text = text.replace("/orgs/acme/", &format!("/orgs/{}/", site.server.org()));
        let org = format!("\"org_id\": \"{}\"", site.server.org());
        let text = text.replace("\"org_id\": \"acme\"", &org).replace("eu-production", RUNNER);
        let text = text.replace("payments/api", PROJECT).replace("production", ENV);
        let file = site.server.path(&format!("{sample}.json"));
        fs::write(&file, text).unwrap();
        invoke(&api, &name(function), file).await
    };
    for sample in ["api-get-runner", "api-get-runner-v1"] {
        let answer = answer(sample, "api").await;
        assert_eq!(answer["statusCode"], 200, "{answer}");
        let body: Value = serde_json::from_str(answer["body"].as_str().unwrap()).unwrap();
        assert_eq!(body["id"], RUNNER);
    }
    for _ in 0..2 {
        let answer = answer("api-create-deployment", "api").await;
        assert_eq!(answer["statusCode"], 201, "{answer}");
    }
    let mut made = BTreeSet::new();
    for sample in ["events-deployment-requested", "events-deployment-requested-with-rule"] {
        for _ in 0..2 {
            let answer = answer(sample, "events").await;
            made.insert(answer["accepted"]["deployment_id"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(made.len(), 2, "each event is one deployment: {made:?}");
    assert_eq!(site.client.list(&["deployments"], &[]).await.unwrap().len(), 3);
}
