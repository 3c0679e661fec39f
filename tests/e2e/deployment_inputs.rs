//! Inputs of a deployment from the command line to the module: references to the run, and secrets, which may be found
//! nowhere else.

use crate::harness::searched::files_without;
use crate::harness::server::Server;
use crate::harness::site::{ENV, Site};
use std::time::{Duration, Instant};
use std::{fs, thread};

const PASSWORD: &str = "pa55-w0rd/of#deployment";
const KEY: &str = "-----BEGIN KEY-----\nMIIBinput1234\n-----END KEY-----\n";

/// Repeats its secrets in every form, and waits while the file `hold` exists.
const TELLING: &str = r#"
variable "password" {}
variable "tls_key" {}
variable "name" {}
variable "tags" { type = map(string) }
variable "hold" {}
resource "terraform_data" "tells" {
  triggers_replace = [var.name]
  provisioner "local-exec" {
    command = "echo \"$PLAIN $ENCODED $BASE64\"; echo \"$TLS_KEY\"; touch ${var.hold}.seen; while [ -e ${var.hold} ]; do sleep 0.05; done"
    environment = {
      PLAIN   = var.password
      ENCODED = urlencode(var.password)
      BASE64  = base64encode(var.password)
      TLS_KEY = var.tls_key
    }
  }
}
output "url" { value = "postgres://shop:${var.password}@db" }
output "name" { value = var.name }
output "run" { value = var.tags["run"] }
output "length" { value = length(var.password) }
"#;

/// Of each secret and its encodings, what no other text has.
const PARTS: [&str; 3] = ["pa55-w0rd", "cGE1NS13MHJk", "MIIBinput1234"];

fn contains_secret(bytes: &[u8]) -> bool {
    PARTS.iter().any(|part| bytes.windows(part.len()).any(|window| window == part.as_bytes()))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_mins(2), "not in time: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// The arguments of every process, while a job runs.
fn search_processes() {
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let arguments = fs::read(process.path().join("cmdline")).unwrap_or_default();
        assert!(!contains_secret(&arguments), "{:?}", String::from_utf8_lossy(&arguments));
    }
}

fn outputs(server: &Server) -> serde_json::Value {
    let outputs = server.canyon(&["outputs", "shop", ENV, "--out", "json"]);
    serde_json::from_str(outputs.done()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_input_reaches_the_module_and_its_rollback_and_is_found_nowhere_else() {
    let site = Site::new().await;
    let server = &site.server;
    fs::create_dir(server.path("module")).unwrap();
    fs::write(server.path("module/main.tf"), TELLING).unwrap();
    fs::write(server.path("key.pem"), KEY).unwrap();
    fs::write(server.path("values.tfvars"), "name = \"app-${context.env.id}\"\n").unwrap();
    let hold = server.path("hold");
    fs::write(&hold, "").unwrap();
    let argument = format!("hold={}", hold.display());
    let deploy = ["deploy", "shop", ENV, "--module", "./module", "--var", &argument];
    let deploy = [&deploy[..], &["--var", "tags={run=\"${context.deployment.id}\"}"]].concat();
    let deploy = [&deploy[..], &["--var-file", "values.tfvars"]].concat();
    let secrets = ["--secret-var", "password", "--secret-var-file", "tls_key=key.pem"];
    let first = [&deploy[..], &secrets].concat();
    thread::scope(|scope| {
        let deploying = scope.spawn(|| server.canyon_with(&first, PASSWORD, &[]).done().to_owned());
        until("the module runs", || server.path("hold.seen").exists());
        search_processes();
        fs::remove_file(&hold).unwrap();
        let printed = deploying.join().unwrap();
        assert!(!contains_secret(printed.as_bytes()), "{printed}");
    });
    let first = outputs(server);
    assert_eq!(first["name"]["value"], format!("app-{ENV}"), "{first}");
    assert_eq!(first["length"]["value"], PASSWORD.len(), "{first}");
    assert_eq!(first["url"]["value"], serde_json::Value::Null, "{first}");

    // The next deployment has other inputs; the rollback has those of the first.
    let second = [&deploy[..], &["--var", "name=$\\{context.any}"], &secrets].concat();
    server.canyon_with(&second, "another-secret", &[]).done();
    let shown = outputs(server);
    assert_eq!(shown["name"]["value"], "${context.any}", "{shown}");
    assert_eq!(shown["length"]["value"], "another-secret".len(), "{shown}");
    fs::remove_file(server.path("key.pem")).unwrap();
    server.canyon(&["rollback", "shop", ENV, "--yes"]).done();
    let back = outputs(server);
    assert_eq!(back["length"]["value"], PASSWORD.len(), "{back}");
    assert_ne!(back["run"]["value"], first["run"]["value"], "it has its own id");

    let listed = server.canyon(&["list", "deployments", "--out", "json", "--jq", ".[].id"]);
    let ids: Vec<_> = listed.done().lines().map(|id| id.trim_matches('"').to_owned()).collect();
    assert_eq!(ids.len(), 3, "{ids:?}");
    for id in &ids {
        let shown = server.canyon(&["get", "deployment", id, "--out", "json"]);
        let whole: serde_json::Value = serde_json::from_str(shown.done()).unwrap();
        let hidden = whole["module"]["hidden_inputs"].to_string();
        assert_eq!(hidden, r#"["password","tls_key"]"#, "{whole}");
        let log = site.log(id).await;
        assert!(log.contains("********"), "{log}");
        for text in [shown.done(), &log] {
            assert!(!contains_secret(text.as_bytes()), "{text}");
        }
    }
    let first = server.canyon(&["get", "deployment", ids.last().unwrap(), "--out", "json"]);
    assert!(first.done().contains("app-${context.env.id}"), "{first:?}");
    server.canyon(&["destroy", "shop", ENV, "--yes"]).done();

    let jobs = server.data().join("jobs");
    until("the job's folder is removed", || {
        fs::read_dir(&jobs).is_ok_and(|mut entries| entries.next().is_none())
    });
    let read = files_without(&PARTS, &server.data());
    assert!(read > 3, "{read} files were searched");
    assert!(!contains_secret(server.log().as_bytes()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_refused_as_an_argument() {
    let site = Site::new().await;
    let server = &site.server;
    let deploy = ["deploy", "shop", ENV, "--module", "-"];
    for (given, expected) in [
        (&["--secret-var", "a=hunter2"][..], "give the name alone"),
        (&["--secret-var", "a"], "stdin has one value"),
        (&["--secret-var-file", "a"], "write it as name=file"),
    ] {
        let refused = server.canyon_with(&[&deploy[..], given].concat(), "x", &[]);
        let text = format!("{refused:?}");
        assert!(text.contains(expected), "{text}");
    }
    let refused = server.canyon_with(
        &["deploy", "shop", ENV, "--module", "inline", "--secret-var", "a"],
        "",
        &[],
    );
    assert!(format!("{refused:?}").contains("stdin is empty"), "{refused:?}");
}
