//! Resources that were deleted outside of Canyon. OpenTofu's built-in resources cannot be, so a program in place of
//! OpenTofu changes the state as OpenTofu does when a provider finds them gone.

use crate::harness::deployments::{assert_succeeded, counts};
use crate::harness::programs;
use crate::harness::server::Server;
use crate::harness::site::{ENV, Site};
use crate::kept_state::deploying;
use serde_json::json;
use std::fs;
use std::path::Path;

/// A program `tofu` that runs `before` and `after` OpenTofu while `armed` exists; both may name `$state`, the state's
/// file.
async fn site(folder: &Path, before: &str, after: &str) -> Site {
    let (tofu, armed) = (programs::given("CANYON_TEST_TOFU"), folder.join("armed"));
    let script = format!(
        "state=$(cat '{0}' 2>/dev/null)\n[ -z \"$state\" ] || {{ {before}\n}}\n'{1}' \"$@\"\ncode=$?\n\
         [ -z \"$state\" ] || {{ {after}\n}}\nexit $code\n",
        armed.display(),
        tofu.display()
    );
    programs::script(&folder.join("tofu"), &script);
    let path = programs::search_path(Some(folder));
    Site::on(Server::start_with(&programs::built(), path).await, &json!({})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_deleted_elsewhere_and_created_again_leave_no_doubt() {
    let folder = tempfile::tempdir().unwrap();
    // A refresh does not find the resource, and the apply creates it as it was: the serial stays.
    let forget = "[ \"$1\" != plan ] || sed -i 's/\"resources\": \\[/\"resources\": [], \"gone\": [/' \"$state\"";
    let same = "[ \"$1\" != apply ] || sed -i 's/\"serial\": [0-9]*/\"serial\": 1/' \"$state\"";
    let site = site(folder.path(), forget, same).await;
    assert_succeeded(&site.run(&deploying(1, 1)).await);
    let state = site.state_file(ENV).await;
    let text = fs::read_to_string(&state).unwrap();
    assert!(text.contains("\"serial\": 1"), "{text}");
    fs::write(folder.path().join("armed"), state.to_str().unwrap()).unwrap();
    assert_eq!(counts(&site.run(&deploying(1, 1)).await), (1, 0, 0), "it is created again");
    fs::remove_file(folder.path().join("armed")).unwrap();
    let shown = site.shown().await;
    assert_ne!(shown["state"]["uncertain"], true, "{shown}");
    assert_eq!(counts(&site.run(&deploying(1, 1)).await), (0, 0, 0));
}
