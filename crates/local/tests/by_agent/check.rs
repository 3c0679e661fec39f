//! `canyon-agent check`, before anything is started.

use crate::agent::{Variables, command};
use crate::canyon::Canyon;
use crate::far::Place;

/// Whether it ended well, and what it said.
async fn check<B>(place: &Place<B>, other: &[(&str, &str)]) -> (bool, String) {
    let canyon = Canyon::with_runner(place.definition.clone()).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runner.json");
    std::fs::write(&file, place.definition.to_string()).unwrap();
    let mut variables: Variables = place.variables.clone();
    variables.extend(other.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    let mut command = command(&canyon, folder.path(), variables).await;
    command.arg("check").arg("--runner-definition").arg(&file);
    let done = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    (done.status.success(), String::from_utf8(done.stdout).unwrap())
}

pub(crate) async fn finds_all_good<B>(place: &Place<B>) {
    let (good, said) = check(place, &[]).await;
    assert!(good, "{said}");
    for step in ["settings", "api", "clock", "sign_in", "platform"] {
        let is_good = |line: &str| line.starts_with(&format!("ok      {step} "));
        assert!(said.lines().any(is_good), "{step}: {said}");
    }
}

/// With these settings instead, one step fails and says `expected`.
pub(crate) async fn names_what_is_wrong<B>(
    place: &Place<B>,
    other: &[(&str, &str)],
    expected: &str,
) {
    let (good, said) = check(place, other).await;
    let failed: Vec<_> = said.lines().filter(|line| line.starts_with("failed ")).collect();
    assert!(!good && failed.len() == 1, "{other:?}: {said}");
    assert!(failed[0].contains(expected), "{other:?}: {said}");
}
