use super::*;
use serde_json::json;

fn faults(job: Value) -> Vec<String> {
    let faults = ContainerJob::parse(job).unwrap_err();
    faults.iter().map(|fault| format!("{}: {}", fault.path, fault.reason)).collect()
}

#[test]
fn a_job_is_stored_as_it_was_given() {
    let given = json!({
        "image": "ghcr.io/acme/bucket@sha256:aa", "command": ["/opt/bucket"], "args": ["--all"],
        "variables": {"REGION": "eu"}, "files": {"a/b.json": "{}"}, "inputs": {"size": 3}, "timeout_seconds": 10,
    });
    let job = ContainerJob::parse(given.clone()).unwrap();
    assert_eq!(serde_json::to_value(&job).unwrap(), given);
    assert_eq!(serde_json::from_value::<ContainerJob>(given).unwrap(), job);
}

#[test]
fn every_fault_of_a_job_is_named_by_its_path() {
    let found = faults(json!({
        "image": "-x", "shared_directory": "/proc/self", "variables": {"ACTION": "x", "CANYON_TOKEN": "y", "OK": "z"},
        "timeout_seconds": 5, "grace_seconds": 4000, "inputs": [], "service_account": "admin",
    }));
    insta::assert_snapshot!(found.join("\n"));
}

#[test]
fn files_lie_in_the_shared_directory_each_once_and_within_the_limits() {
    let job = |files: Value| json!({"image": "a", "command": ["/x"], "shared_directory": "/srv/me", "files": files});
    let given = job(json!({
        "a/./b": "x", "/srv/me/c/../d": {"content": "aGk=", "encoding": "base64", "mode": "0755"},
    }));
    let read = ContainerJob::parse(given);
    let files = read.unwrap().files();
    assert_eq!(files.keys().collect::<Vec<_>>(), ["a/b", "d"]);
    assert_eq!(files["d"], JobFile { content: b"hi".to_vec(), mode: 0o755 });
    let refused = faults(job(json!({
        "../x": "", "/srv/me": "", "/srv/meme/x": "", "/etc/passwd": "", "a/../../x": "", "d/": "", "e": 1,
        "f": {"content": "!", "encoding": "base64"}, "g": {"content": "", "mode": "4755"}, "h": {"text": ""},
        "same": "", "./same": "",
    })));
    insta::assert_snapshot!(refused.join("\n"));
    let large = "x".repeat(1024 * 1024 + 1);
    assert_eq!(
        faults(job(json!({"a": large}))),
        ["files: have 1048577 bytes; 1048576 are allowed"]
    );
    let many: Map<_, _> = (0..65).map(|n| (n.to_string(), json!(""))).collect();
    assert_eq!(faults(job(Value::from(many))), ["files: has 65 files; 64 are allowed"]);
}

#[test]
fn a_command_and_the_inputs_have_a_limit() {
    let long = "x".repeat(20_000);
    let job =
        json!({"image": "a", "command": [long, long], "inputs": {"a": "x".repeat(256 * 1024)}});
    assert_eq!(
        faults(job),
        [
            "command: has 40000 bytes with `args`; 32768 are allowed",
            "inputs: have 262152 bytes; 262144 are allowed",
        ]
    );
}
