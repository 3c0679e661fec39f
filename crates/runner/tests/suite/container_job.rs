//! The real runner with the program of a container job, against a small control plane: what the program gets.

use crate::server::container::{IMAGE, failure_of, run_job, run_script};
use crate::server::{CODE, DEPLOYMENT, Home, Server, TOKEN};
use canyon_domain::failure::{FailureClass, Phase};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

#[test]
fn a_program_that_cannot_be_executed_is_named_with_the_reason() {
    let files = json!({
        "interpreted": {"content": "#!/nonexistent/python\n", "mode": "0755"},
        "plain": "#!/bin/sh\n", "noise": {"content": "\u{1}\u{2}", "mode": "0755"},
    });
    for (program, expected) in [
        ("/opt/x", "/opt/x: no such file in"),
        ("unheard-of", "unheard-of: no such file on the PATH in"),
        (
            "./interpreted",
            "./interpreted: the program that it names in its first line, or its dynamic loader, does not exist in",
        ),
        (
            "./plain",
            "./plain: permission denied; its mode 0644 must let the image's user execute it in",
        ),
        ("/usr", "/usr: a folder, and no program, in"),
        (
            "./noise",
            "./noise: no program for this platform: neither one of its architecture, nor a script with `#!` in its first line, in",
        ),
    ] {
        let home = Home::new();
        let changes = json!({"command": [program], "files": files});
        let (exit, server) = run_script(&home, "", &changes);
        let plane = server.plane();
        let failure = plane.result().failure.clone().unwrap();
        assert_eq!(failure.message, format!("EXEC_FAILED: {expected} {IMAGE}"));
        assert_eq!((exit, failure.class), (1, FailureClass::Config));
        let is_known = plane.result().phase == Some(Phase::Apply);
        assert_eq!(plane.result().untouched, is_known, "nothing was changed: {program}");
    }
}

#[test]
fn the_program_has_the_variables_of_its_image_its_own_and_those_of_the_contract() {
    let home = Home::new();
    let script = "env -0 > all; pwd; cat $RESOURCE_INPUTS_FILE; echo; cat; test ! -t 0";
    let changes = json!({
        "variables": {"OWN": "of the job", "OF_IMAGE": "replaced"}, "inputs": {"size": 3},
    });
    let mut job = home.container_job(script, &changes);
    job["environment"] = json!({"REGION": "eu", "KEPT": "of the runner", "CANYON_ORG": "x"});
    job["env_type_id"] = json!("dev");
    job["variables"] = json!([
        {"kind": "environment", "name": "KEPT", "value": "kept", "secret": false, "from": "project:shop"},
        {"kind": "terraform", "name": "not_an_environment_variable", "value": "x", "secret": false, "from": "project:shop"},
    ]);
    let server = Server::start(job);
    let mut command = home.container(&server);
    command
        .env("OF_IMAGE", "of the image")
        .env("TF_WORKSPACE", "the image's")
        .env("COPY_OF_CODE", CODE)
        .env("ACTION", "of the image")
        .env("CANYON_ATTEMPT_NOTE", "Canyon's");
    assert_eq!(command.status().unwrap().code(), Some(0), "{}", server.plane().log());
    let shared = home.shared();
    let all = String::from_utf8(fs::read(shared.join("all")).unwrap()).unwrap();
    let all: BTreeMap<&str, &str> =
        all.split('\0').filter_map(|variable| variable.split_once('=')).collect();
    for (name, value) in [
        ("OF_IMAGE", "replaced"),
        ("TF_WORKSPACE", "the image's"),
        ("OWN", "of the job"),
        ("REGION", "eu"),
        ("KEPT", "kept"),
        ("ACTION", "create"),
        ("SCRIPTS_DIRECTORY", shared.to_str().unwrap()),
        ("CANYON_ORG", "local"),
        ("CANYON_PROJECT", "shop"),
        ("CANYON_ENVIRONMENT", "development"),
        ("CANYON_ENV_TYPE", "dev"),
        ("CANYON_DEPLOYMENT", DEPLOYMENT),
        ("CANYON_ATTEMPT", "1"),
        ("CANYON_RESOURCE", "s3.default#photos"),
    ] {
        assert_eq!(all.get(name), Some(&value), "{name}: {all:?}");
    }
    let known = ["ORG", "PROJECT", "ENVIRONMENT", "ENV_TYPE", "DEPLOYMENT", "ATTEMPT", "RESOURCE"];
    let unknown = |name: &&str| {
        name.strip_prefix("CANYON_").is_some_and(|rest| !known.contains(&rest))
            || ["COPY_OF_CODE", "not_an_environment_variable"].contains(name)
    };
    assert_eq!(all.keys().copied().filter(unknown).collect::<Vec<_>>(), Vec::<&str>::new());
    assert!(all.values().all(|value| !value.contains(CODE) && !value.contains(TOKEN)));
    let log = server.plane().log();
    let printed = format!("\n{}\n{{\"size\":3}}\n==> done", shared.display());
    assert!(
        log.contains(&printed),
        "it starts in the shared directory, and its input is empty: {log}"
    );
}

#[test]
fn a_destroy_is_named_and_a_job_without_inputs_has_an_empty_object() {
    let home = Home::new();
    let mut job = home.container_job("echo $ACTION $(cat $RESOURCE_INPUTS_FILE)", &json!({}));
    job["mode"] = json!("destroy");
    let (exit, server) = run_job(&home, job);
    assert!(
        server.plane().log().contains("\ndestroy {}\n") && exit == 0,
        "{}",
        server.plane().log()
    );
}

#[test]
fn the_program_finds_its_files_and_may_be_one_of_them() {
    let home = Home::new();
    let run = "#!/bin/sh\ncat config/a.json; stat -c %a \"$0\" config/a.json\n";
    let changes = json!({
        "command": ["./bin/run.sh"],
        "files": {
            "bin/run.sh": {"content": run, "mode": "0750"},
            home.shared().join("config/a.json").to_str().unwrap(): {"content": "e30K", "encoding": "base64"},
        },
    });
    let (exit, server) = run_script(&home, "", &changes);
    let log = server.plane().log();
    assert!(log.contains("./bin/run.sh\n{}\n750\n644\n") && exit == 0, "{log}");
}

#[test]
fn a_shared_directory_that_cannot_be_made_is_a_failure_of_class_config() {
    let (class, message) = failure_of("true", &json!({"shared_directory": "/proc/self/none"}));
    assert_eq!(class, FailureClass::Config);
    assert!(
        message.starts_with("the shared directory /proc/self/none cannot be made: "),
        "{message}"
    );
}

#[test]
fn every_byte_of_the_output_is_in_the_log_in_some_form() {
    let script = r"printf 'caf\351\n\nbell \007\n'; printf 'to stderr\n' >&2; sleep 0.2; printf 'without an end'";
    let (exit, server) = run_script(&Home::new(), script, &json!({}));
    let log = server.plane().log();
    assert_eq!(exit, 0);
    for line in ["caf\u{fffd}\n\nbell \\x07\n", "\nto stderr\n", "\nwithout an end\n==> done\n"] {
        assert!(log.contains(line), "{line:?}: {log}");
    }
    let script = "seq 200000; echo end >&2";
    let (_, server) = run_script(&Home::new(), script, &json!({}));
    let log = server.plane().log();
    assert!(log.lines().filter(|line| line.parse::<u32>().is_ok()).count() == 200_000);
}

#[test]
fn a_job_that_an_earlier_launcher_started_in_the_runners_image_says_so() {
    let home = Home::new();
    let server = Server::start(home.container_job("touch started", &json!({})));
    assert_eq!(home.command(&server).status().unwrap().code(), Some(1));
    let failure = server.plane().result().failure.clone().unwrap();
    assert_eq!(failure.class, FailureClass::Config);
    assert!(
        failure.message.contains("an agent or a launcher of an earlier version"),
        "{failure:?}"
    );
    assert!(!home.shared().join("started").exists());
}

/// A certificate of an authority that exists for this test only.
const AUTHORITY: &str = "\
-----BEGIN CERTIFICATE-----
MIIBdjCCARugAwIBAgIUIe9br36C5lsRP3+udQCp8p7ji0IwCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjExMjYxNzMyNTZaGA8yMTI2MTEwMjE3MzI1
NlowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABHDp
WEqBOU/Xkc8+BY5ssol/0oYaw9UapaTrtO63e6BOOgsJnThKHEvU4DOWOV0Sctd1
XSMKUcsQHHUQS0Ji/HSjUzBRMB0GA1UdDgQWBBTutyM0GlQSyFKkY2m8zIamGGgE
2jAfBgNVHSMEGDAWgBTutyM0GlQSyFKkY2m8zIamGGgE2jAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0kAMEYCIQCKkopMnMUdas0BVWf7Vy7//0X90+MlDJIT
vJ3G/n2X5wIhAJniTAl9khzE7oP4W50VAsvhX41FTtl+fi3iC4znjWtM
-----END CERTIFICATE-----
";

/// The runner trusts the file beside its own program only where the image has none, and keeps that from the program.
#[test]
fn the_program_does_not_inherit_the_certificates_of_the_runner() {
    let home = Home::new();
    let bin = home.folder.path().join("canyon-bin");
    let (program, certificates) = (bin.join("canyon-runner"), bin.join("ca-certificates.crt"));
    fs::create_dir(&bin).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_canyon-runner"), &program).unwrap();
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let script = "echo \"of the program: $SSL_CERT_FILE\"; tr '\\0' '\\n' < /proc/$PPID/environ | grep ^SSL_CERT_FILE || true";
    fs::write(&certificates, AUTHORITY).unwrap();
    let server = Server::start(home.container_job(script, &json!({})));
    let template = home.container(&server);
    let mut command = Command::new(&program);
    command
        .env_clear()
        .envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))))
        .env("SSL_CERT_FILE", "/nonexistent/of-image")
        .current_dir(template.get_current_dir().unwrap());
    assert_eq!(command.status().unwrap().code(), Some(0), "{}", server.plane().log());
    let log = server.plane().log();
    assert!(log.contains("\nof the program: /nonexistent/of-image\n"), "{log}");
    // Only root can read the environment of the runner.
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        let of_runner = format!("\nSSL_CERT_FILE={}\n", certificates.display());
        assert!(log.contains(&of_runner), "{log}");
    }
}

#[test]
fn secrets_reach_the_program_and_its_files_and_are_masked() {
    let home = Home::new();
    let script = "printf %s $TOKEN > seen; echo $TOKEN; cat key; stat -c %a key; echo $TOKEN | base64; echo {\\\"a\\\": \\\"$TOKEN\\\"} > $OUTPUTS_FILE";
    let sealed = json!({"sealed": true});
    let changes = json!({"secret_variables": {"TOKEN": sealed}, "secret_files": {"key": sealed}});
    let mut job = home.container_job(script, &changes);
    let secret = |name: &str, value: &str| json!({"kind": "terraform", "name": name, "value": value, "secret": true, "from": "project:shop/dev", "is_input": true});
    job["variables"] = json!([
        secret("secret_variables[\"TOKEN\"]", "hunter22-of-the-program"),
        secret("secret_files[\"key\"]", "hunter23-of-the-file"),
    ]);
    let (exit, server) = run_job(&home, job.clone());
    let log = server.plane().log();
    assert_eq!(exit, 0, "{log}");
    assert!(log.contains("****") && log.contains("600") && !log.contains("hunter"), "{log}");
    assert!(
        !format!("{:?}", server.plane().result()).contains("hunter"),
        "an output with a secret has no value"
    );
    let shared = fs::read_to_string(home.shared().join("key")).unwrap();
    assert_eq!(shared, "hunter23-of-the-file");
    let seen = fs::read_to_string(home.shared().join("seen")).unwrap();
    assert_eq!(seen, "hunter22-of-the-program");

    job["variables"] = json!([]);
    let (exit, server) = run_job(&Home::new(), job);
    let failure = server.plane().result().failure.clone().unwrap();
    assert_eq!(exit, 1);
    assert!(
        failure.message.contains("`container.secret_variables[\"TOKEN\"]` is no longer stored"),
        "{}",
        failure.message
    );
}

#[test]
fn an_image_for_root_is_refused_where_the_platform_does_not_and_nothing_begins() {
    let home = Home::new();
    let server = Server::start(home.container_job("touch began", &json!({})));
    let mut command = home.container(&server);
    let status = command.env("CANYON_REFUSE_ROOT", "1").status().unwrap();
    // These tests run as root in some places, and as another user in others.
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    assert_eq!(status.success(), !is_root);
    assert_eq!(home.shared().join("began").exists(), !is_root);
    let failure = server.plane().result().failure.clone();
    let class = failure.as_ref().map(|failure| failure.class);
    assert_eq!(class, is_root.then_some(FailureClass::Config), "{failure:?}");
    let message = failure.map(|failure| failure.message).unwrap_or_default();
    assert!(!is_root || (message.starts_with("ROOT: ") && message.contains(IMAGE)), "{message}");
}

#[test]
fn pre_checks_report_every_step_and_end_the_run_before_its_program_if_one_fails() {
    let run = |secrets: serde_json::Value| {
        let home = Home::new();
        let mut job = home.container_job("echo the program runs", &json!({}));
        job["bundle"]["container"]["checks"] = json!(true);
        if let Some(stored) = secrets.get("stored_variables") {
            job["bundle"]["container"]["job"]["secret_variables"] =
                json!({ "TOKEN": { "store": "team", "ref": "shop/api" } });
            job["stored_variables"] = stored.clone();
        }
        run_job(&home, job)
    };
    let (exit, server) = run(json!({}));
    let log = server.plane().log();
    assert_eq!(exit, 0, "{log}");
    for step in [
        format!("==> pre-check image: {IMAGE} runs as user "),
        "==> pre-check workspace: /".to_owned(),
        "==> pre-check canyon: it answers\n".to_owned(),
        "==> pre-check identity: the job has none\n".to_owned(),
        "==> pre-check secrets: no store is needed\n".to_owned(),
    ] {
        assert!(log.contains(&step), "no {step} in {log}");
    }
    assert!(log.contains("the program runs"), "{log}");

    // Nothing listens there.
    let stored = json!([{
        "kind": "environment", "name": "secret_variables.TOKEN", "from": "project:shop",
        "reference": { "store": "team", "ref": "shop/api" },
        "store": { "type": "vault", "url": "http://127.0.0.1:1", "role": "job" },
    }]);
    let (exit, server) = run(json!({ "stored_variables": stored }));
    let plane = server.plane();
    let (log, failure) = (plane.log(), plane.result().failure.clone().unwrap());
    assert_eq!(exit, 1, "{log}");
    assert!(failure.message.starts_with("PRE_CHECK: secrets: "), "{}", failure.message);
    assert!(
        failure.message.contains("`team`") || failure.message.contains("team: shop/api"),
        "{}",
        failure.message
    );
    assert!(
        log.contains("==> pre-check workspace: /")
            && log.contains("==> error: pre-check secrets: "),
        "{log}"
    );
    assert!(!log.contains("the program runs"), "{log}");
}
