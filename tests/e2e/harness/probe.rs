//! A module that looks for the runner's secrets from inside its job.

use super::module::inline;
use canyon_domain::job::Module;

/// The script's findings about a process and a file of its own, which prove that it would find a secret.
const CANARIES: [&str; 7] = [
    "canary shows a secret in its environ",
    "canary lets its environ be opened",
    "canary lets its maps be opened",
    "canary lets its mem be opened",
    "canary shows its fd",
    "canary shows its cwd",
    "a secret is in the file",
];

/// Runs `probe.sh`, and after it `then`.
pub(crate) fn module(then: &str) -> Module {
    // OpenTofu would read these as its own template sequences.
    let script = format!("{}\n{then}\n", include_str!("probe.sh"));
    let script = script.replace("${", "$${").replace("%{", "%%{");
    inline(format!(
        "resource \"terraform_data\" \"probe\" {{\n  provisioner \"local-exec\" {{\n    command = <<-PROBE\n{script}\n    PROBE\n  }}\n}}\n"
    ))
}

/// The script's output in the log of a deployment.
pub(crate) fn said(log: &str) -> Vec<&str> {
    log.lines()
        .filter_map(|line| line.split_once("(local-exec): probe: "))
        .map(|(_, said)| said)
        .collect()
}

/// Panics unless the script ran to its end, would have found a secret, and found none. `starter` is the name
/// of the program that started the runner, if the job can see that process.
#[track_caller]
pub(crate) fn assert_found_nothing(log: &str, starter: Option<&str>) {
    let mut said = said(log);
    assert_eq!(said.pop(), Some("done"), "{log}");
    for canary in CANARIES {
        let is_found = said.iter().any(|words| words.starts_with(canary));
        assert!(is_found, "it does not find that `{canary}`\n{log}");
    }
    said.retain(|words| !words.starts_with("canary ") && !words.ends_with("/canary"));
    let mut expected = vec!["the runner is canyon-runner, core dumps of 0 bytes".to_owned()];
    expected.extend(starter.map(|starter| format!("its starter is {starter}")));
    assert_eq!(said, expected, "{log}");
}
