//! The functions and a real cluster: a token that KMS signs gives the launcher access, and the job in
//! its pod claims, reports and ends through API Gateway.

use crate::harness::bed::{Bed, Namespace, bed};
use crate::harness::deployments::{assert_succeeded, counts, request};
use crate::harness::module::{THIRTY, inline};
use crate::harness::programs;
use crate::harness::server::Server;
use crate::harness::site::{ENV, Site};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_api::deployment::DeploymentCreateBody;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Where pods find the authority that signed the API's certificate.
const AUTHORITY: &str = "/etc/canyon-authority";

/// API Gateway's custom domain: TLS on an address that pods reach. Dropping it ends the process.
struct Domain {
    child: Child,
    url: String,
}

impl Domain {
    fn of(site: &Site) -> Self {
        let (certificate, key) = certificate(&site.server.path("domain"));
        let target = site.server.url().trim_start_matches("http://").to_owned();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/serverless/tls_front.py");
        let mut child = Command::new(programs::given("CANYON_TEST_AWS_PYTHON"))
            .args([script, bed().get("NODE_ADDRESS"), &certificate, &key, &target])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let url = format!("https://{}:{}", bed().get("NODE_ADDRESS"), port.trim());
        Self { child, url }
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A certificate of the test cluster's authority for this machine's address, and its key.
fn certificate(folder: &Path) -> (String, String) {
    std::fs::create_dir_all(folder).unwrap();
    let names = format!("subjectAltName=IP:{}\n", bed().get("NODE_ADDRESS"));
    std::fs::write(folder.join("names"), names).unwrap();
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        command.args(arguments.split(' ')).current_dir(folder);
        let done = command.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    openssl("req -new -newkey rsa:2048 -nodes -subj /CN=api -keyout key -out request");
    let (authority, authority_key) = (bed().get("CA_FILE"), bed().get("CA_KEY_FILE"));
    let serial = uuid::Uuid::new_v4().simple();
    openssl(&format!(
        "x509 -req -in request -CA {authority} -CAkey {authority_key} -set_serial 0x{serial} -days 2 -extfile names -out certificate"
    ));
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    (path("certificate"), path("key"))
}

/// Sets the functions' public names, as the template's parameters would.
async fn name_functions(site: &Site, domain: &Domain) {
    let cloud = site.server.cloud();
    for name in ["api", "issuer", "launcher", "sweep"] {
        let function = cloud.function(name);
        let mut environment = function.config().environment.clone();
        environment.insert("CANYON_API_URL".to_owned(), domain.url.clone());
        environment.insert("CANYON_ISSUER_URL".to_owned(), bed().get("ISSUER_URL").to_owned());
        environment.insert("CANYON_RUNNER_IMAGE".to_owned(), bed().get("RUNNER_IMAGE").to_owned());
        function.update(environment).await;
    }
    let address = site.server.url().trim_start_matches("http://").to_owned();
    std::fs::write(bed().get("ISSUER_TARGET_FILE"), address).unwrap();
}

/// A runner whose pods trust the test cluster's authority.
fn runner(namespace: &str) -> Value {
    let authority = STANDARD.encode(bed().file("CA_FILE"));
    let data = json!({ "server": bed().get("SERVER"), "certificate_authority_data": authority });
    let auth = json!({ "oidc": { "audience": bed().get("OIDC_AUDIENCE") } });
    let container = json!({
        "name": "canyon-runner",
        "env": [{ "name": "SSL_CERT_FILE", "value": format!("{AUTHORITY}/ca.pem") }],
        "volumeMounts": [{ "name": "authority", "mountPath": AUTHORITY, "readOnly": true }],
    });
    let volume = json!({ "name": "authority", "configMap": { "name": "authority" } });
    let template = json!({ "spec": { "containers": [container], "volumes": [volume] } });
    let job = json!({
        "namespace": namespace, "service_account": "canyon-runner", "pod_template": template,
    });
    json!({
        "id": "cluster",
        "runner_configuration": {
            "type": "kubernetes", "cluster": { "cluster_data": data, "auth": auth }, "job": job,
        },
        "state_storage_configuration": { "type": "kubernetes", "namespace": namespace },
    })
}

/// A project whose environment uses a runner for the cluster, which trusts Canyon.
async fn trusted_cluster(site: &Site, namespace: &Namespace) {
    site.make(&["runners"], &runner(&namespace.0)).await;
    let trust = site.client.get(&["runners", "cluster", "trust"]).await.unwrap();
    for document in trust["documents"].as_array().unwrap() {
        if document["place"].as_str().unwrap().contains("kubectl apply") {
            bed().apply(document["text"].as_str().unwrap());
        }
    }
    let authority = format!("--from-file=ca.pem={}", bed().get("CA_FILE"));
    bed().kubectl(&["-n", &namespace.0, "create", "configmap", "authority", &authority], "");
    site.make(&["projects"], &json!({ "id": "far" })).await;
    let rule = json!({ "runner_id": "cluster", "project_id": "far" });
    site.make(&["runner-rules"], &rule).await;
    let environment = json!({ "id": ENV, "env_type_id": "development" });
    site.make(&["projects", "far", "envs"], &environment).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_functions_run_a_deployment_in_a_pod() {
    let site = Site::on(Server::start().await, &json!({})).await;
    let domain = Domain::of(&site);
    name_functions(&site, &domain).await;
    let namespace = Namespace(Bed::unique("serverless"));
    trusted_cluster(&site, &namespace).await;
    let module = Some(inline(THIRTY));
    let body = DeploymentCreateBody { project_id: "far".into(), ..request(ENV, module) };
    let ended = site.run(&body).await;
    assert_succeeded(&ended);
    assert_eq!(counts(&ended), (30, 0, 0));
    let outputs = site.client.outputs(&ended.id.to_string()).await.unwrap();
    assert_eq!(outputs["first"].value, Some(json!("hello 0").into()));
    assert!(site.log(&ended.id.to_string()).await.contains("tofu apply"), "its log came");
    let denied = site.server.cloud().front.denied();
    assert!(denied.is_empty(), "{denied:#?}");
}
