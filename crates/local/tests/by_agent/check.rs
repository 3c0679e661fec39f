//! `canyon-agent check`, before an agent runs.

use crate::agent::{Variables, command};
use crate::canyon::Canyon;
use crate::through_agent::Setup;

/// Whether the check succeeded, and its output.
async fn check<B>(setup: &Setup<B>, other: &[(&str, &str)]) -> (bool, String) {
    let canyon = Canyon::with_runner(setup.definition.clone()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runner.json");
    std::fs::write(&file, setup.definition.to_string()).unwrap();
    let mut variables: Variables = setup.variables.clone();
    variables.extend(other.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let mut command = command(&canyon, folder.path(), variables).await;
    command.arg("check").arg("--runner-definition").arg(&file);
    let done = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    (done.status.success(), String::from_utf8(done.stdout).unwrap())
}

pub(crate) async fn succeeds<B>(setup: &Setup<B>) {
    let (good, output) = check(setup, &[]).await;
    assert!(good, "{output}");
    for step in ["settings", "api", "clock", "sign_in", "platform"] {
        let is_good = |line: &str| line.starts_with(&format!("ok      {step} "));
        assert!(output.lines().any(is_good), "{step}: {output}");
    }
}

/// With these settings instead, one step fails with a message that contains `expected`.
pub(crate) async fn reports_the_fault<B>(setup: &Setup<B>, other: &[(&str, &str)], expected: &str) {
    let (good, output) = check(setup, other).await;
    let failed: Vec<_> = output.lines().filter(|line| line.starts_with("failed ")).collect();
    assert!(!good && failed.len() == 1, "{other:?}: {output}");
    assert!(failed[0].contains(expected), "{other:?}: {output}");
}
