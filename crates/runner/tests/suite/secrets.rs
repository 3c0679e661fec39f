//! Which of the job's variables a module gets, which of their values leave the job, and what the module can read of the
//! runner itself.

use crate::server::{CODE, Home, Server, TOKEN};
use canyon_domain::failure::FailureClass;
use serde_json::json;
use std::fs::File;
use std::process::Command;

const PLAIN: &str = "eu-central-1";
/// A JSON object as in a secret store, with characters that Go escapes in JSON.
const STORED: &str = r#"{"host":"db.example.com","password":"p<ss&w0rd-99"}"#;
const LINES: &str = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----\n";

/// Prints its variables, plainly, as JSON and in base64, and fails with a part of one of them in the error.
const REPEATS: &str = r#"
resource "terraform_data" "says" {
  provisioner "local-exec" {
    command = "echo \"plain $PLAIN_SETTING\"; echo \"$STORED_SETTING\"; echo \"$SIGNING_KEY\"; printf %s \"$STORED_SETTING\" | base64 -w0"
  }
}
variable "password" { default = "p<ss&w0rd-99" }
resource "terraform_data" "fails" {
  input      = jsonencode({ at = "it has ${terraform_data.says.id}", password = var.password })
  lifecycle {
    postcondition {
      condition     = self.id == ""
      error_message = "no entry for ${var.password} here"
    }
  }
}
"#;

#[test]
fn every_variable_of_the_job_reaches_the_module_and_no_secret_leaves_it_in_any_form() {
    let home = Home::new();
    let names = json!({ "names": ["STORED_SETTING"] });
    let server = Server::start(home.job(REPEATS, &json!({ "secret_variables": names })));
    let output = home.folder.path().join("output");
    let mut command = home.command(&server);
    command
        .env("CANYON_LOG_TO_STDOUT", "1")
        .env("PLAIN_SETTING", PLAIN)
        .env("STORED_SETTING", STORED)
        .env("SIGNING_KEY", LINES)
        .env("TF_CLI_ARGS_apply", "-lock=false")
        .stdout(File::create(&output).unwrap());
    assert_eq!(command.status().unwrap().code(), Some(1));

    let plane = server.plane();
    let log = plane.log();
    assert!(log.contains(&format!("(local-exec): plain {PLAIN}\n")), "{log}");
    assert!(log.contains(&format!("(local-exec): {}\n", "*".repeat(STORED.len()))), "{log}");
    assert!(log.contains(&format!("(local-exec): {}\n", "*".repeat("MIIEvQIBADANBg".len()))));
    assert!(log.contains("warning: `TF_CLI_ARGS_apply` of the job's environment"), "{log}");
    let message = &plane.result().failure.as_ref().unwrap().message;
    assert!(message.contains("no entry for ************ here"), "{message}");
    let whole = std::fs::read_to_string(output).unwrap();
    let places = [("log", &log), ("events", &plane.events()), ("output", &whole)];
    for (place, text) in places.into_iter().chain([("failure", message)]) {
        for secret in ["w0rd-99", "MIIEvQIBADANBg", "eyJob3N0", TOKEN, CODE] {
            assert!(!text.contains(secret), "{secret} in the {place}: {text}");
        }
    }
}

#[test]
fn a_variable_that_no_program_takes_is_named_before_opentofu_starts() {
    let home = Home::new();
    let changes = json!({ "environment": { "SHORT": "x", "SETTINGS": "x".repeat(140_000) } });
    let server = Server::start(home.job(REPEATS, &changes));
    assert_eq!(home.command(&server).status().unwrap().code(), Some(1));
    let plane = server.plane();
    let failure = plane.result().failure.clone().unwrap();
    assert_eq!(failure.class, FailureClass::Config);
    assert!(failure.message.contains("`SETTINGS` has 140010 bytes"), "{}", failure.message);
    assert!(plane.events().is_empty(), "{}", plane.events());
}

/// Fails with a message that is too long to keep and repeats a secret, so that the cut divides the secret.
const TOO_LONG: &str = r#"
variable "password" { default = "p<ss&w0rd-99" }
resource "terraform_data" "fails" {
  lifecycle {
    postcondition {
      condition     = self.id == ""
      error_message = join("", [for i in range(500) : var.password])
    }
  }
}
"#;

#[test]
fn a_message_is_masked_before_it_is_cut() {
    let home = Home::new();
    let names = json!({ "names": ["STORED_SETTING"] });
    let server = Server::start(home.job(TOO_LONG, &json!({ "secret_variables": names })));
    let status = home.command(&server).env("STORED_SETTING", STORED).status().unwrap();
    assert_eq!(status.code(), Some(1));
    let plane = server.plane();
    let message = &plane.result().failure.as_ref().unwrap().message;
    assert!(message.contains(" ... "), "it was cut: {message}");
    for part in ["p<ss", "ss&w", "w0rd", "rd-99"] {
        let (log, message) = (plane.log(), message.clone());
        assert!(!log.contains(part) && !message.contains(part), "{part}: {message}\n{log}");
    }
}

/// Prints the arguments, the environment and the descriptors of its runner.
const LOOKS: &str = r#"
resource "terraform_data" "looks" {
  provisioner "local-exec" {
    command = "runner=$(ps -o ppid= $PPID | tr -d ' '); ps -o args= $runner; echo runs as $(cat /proc/$runner/comm); tr '\\0' '\\n' < /proc/$runner/environ; ls -l /proc/$runner/fd; echo own input $(readlink /proc/$PPID/fd/0)"
  }
}
"#;

/// Root can read what is protected from other users: so the module's output shows what can be read at all.
#[test]
fn the_claim_code_is_in_no_environment_and_standard_input_stays_the_same() {
    let home = Home::new();
    let server = Server::start(home.job(LOOKS, &json!({})));
    let lock = home.folder.path().join("lock");
    File::create(&lock).unwrap();
    let mut command = home.command(&server);
    command.arg("of-this-job").stdin(File::open(&lock).unwrap());
    assert_eq!(command.status().unwrap().code(), Some(0), "{}", server.plane().log());
    let log = server.plane().log();
    assert!(!log.contains("CANYON_CLAIM_CODE"), "{log}");
    assert!(log.contains("canyon-runner of-this-job\n"), "the runner keeps its arguments: {log}");
    assert!(log.contains("runs as canyon-runner\n"), "the runner keeps its name: {log}");
    let input = format!("(local-exec): own input {}\n", lock.display());
    assert!(log.contains(&input), "OpenTofu holds the lock of its job: {log}");
    if Command::new("id").arg("-u").output().unwrap().stdout == b"0\n" {
        assert!(log.contains("CANYON_DEPLOYMENT_ID="), "root sees the runner's environment: {log}");
        assert!(log.contains(&format!("0 -> {}\n", lock.display())), "{log}");
        assert!(!log.contains("memfd:"), "{log}");
    }
}

/// Prints what it is given in every form, and gives a secret away in an output.
const KEPT: &str = r#"
variable "password" {}
variable "size" { type = number }
variable "keys" { type = map(string) }
variable "canyon_project" {}
variable "regoin" { default = "" }
resource "terraform_data" "says" {
  input = "${var.size} ${var.canyon_project}"
  provisioner "local-exec" {
    command = "echo ${base64encode(var.password)}; echo '${urlencode(var.password)}'; echo '${jsonencode(var.password)}'; echo '${var.keys.a}'; echo \"$DEPLOY_KEY in $CANYON_ENVIRONMENT of $CANYON_ORG\"; env | grep -c TF_VAR_ || true"
  }
}
output "leak" { value = "postgres://app:${var.password}@db" }
output "size" { value = var.size }
output "project" { value = var.canyon_project }
"#;

#[test]
fn kept_variables_reach_the_module_that_declares_them_and_no_secret_leaves_it() {
    let home = Home::new();
    let variable = |kind: &str, name: &str, value: serde_json::Value, secret: bool| json!({ "kind": kind, "name": name, "value": value, "secret": secret, "from": "project:shop" });
    let secret = "c0rrect hörse/battery";
    let changes = json!({ "env_type_id": "dev", "variables": [
        variable("terraform", "password", json!(secret), true),
        variable("terraform", "size", json!("7"), false),
        variable("terraform", "keys", json!({ "a": "inner-secret-1" }), true),
        variable("terraform", "not_declared", json!("x"), false),
        variable("terraform", "region", json!("eu"), false),
        json!({ "kind": "terraform", "name": "passwrod", "value": "an0ther-secret", "secret": true, "from": "project:shop", "is_input": true }),
        variable("environment", "DEPLOY_KEY", json!("key-material-2"), true),
        // OpenTofu's warning about a missing file would break its JSON.
        variable("environment", "TF_CLI_CONFIG_FILE", json!("/nonexistent/tofurc"), false),
    ]});
    let server = Server::start(home.job(KEPT, &changes));
    let output = home.folder.path().join("output");
    let mut command = home.command(&server);
    command.env("CANYON_LOG_TO_STDOUT", "1").stdout(File::create(&output).unwrap());
    assert_eq!(command.status().unwrap().code(), Some(0));

    let plane = server.plane();
    let log = plane.log();
    assert!(log.contains("(local-exec): ************** in development of local"), "{log}");
    let warning =
        "the module does not declare the variable `region` of project:shop; did you mean `regoin`?";
    assert!(log.contains(warning) && !log.contains("not_declared"), "{log}");
    // `password` has a value that is kept, and an input may be meant to replace it.
    let warning =
        "does not declare the variable `passwrod`, a secret input; did you mean `password`?";
    assert!(log.contains(warning), "{log}");
    assert!(!log.contains("undeclared variable"), "OpenTofu has nothing to warn about: {log}");
    let result = plane.result();
    let value = |name: &str| result.plain_outputs[name].value.as_ref().map(ToString::to_string);
    assert_eq!(value("size").as_deref(), Some("7"));
    assert_eq!(value("project").as_deref(), Some("\"shop\""));
    assert_eq!((value("leak"), result.plain_outputs["leak"].sensitive), (None, true));
    assert!(log.contains("the output `leak` contains a secret variable"), "{log}");
    let whole = std::fs::read_to_string(output).unwrap();
    let body = serde_json::to_string(&result).unwrap();
    let places =
        [("log", &log), ("events", &plane.events()), ("output", &whole), ("result", &body)];
    for (place, text) in places {
        for secret in ["c0rrect", "battery", "inner-secret", "key-material", "YzBycmVjdCBo"] {
            assert!(!text.contains(secret), "{secret} in the {place}: {text}");
        }
    }
}
