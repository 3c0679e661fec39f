//! After a change of an environment type's `deletion_protection`: which environments it does not change.

use crate::output::Output;
use crate::resource::{self, Kind};
use canyon_api::client::Client;
use serde_json::Value;

/// Says that only new environments inherit the protection, and how to change those that exist.
pub(super) async fn notice(env_type: &str, client: &Client, output: Output) {
    output.notice(
        "only environments that are created from now on inherit this deletion_protection: each that exists keeps its own",
    );
    // What is said about them is no part of the change.
    let Ok(all) = client.list(&resource::collection(Kind::Environment, None), &[]).await else {
        return;
    };
    let of_type: Vec<_> = all.iter().filter(|one| one["env_type_id"] == env_type).collect();
    let unprotected: Vec<_> =
        of_type.iter().filter(|one| one["deletion_protection"].is_null()).collect();
    let Some(first) = unprotected.first() else { return };
    let text = |name: &str| first[name].as_str().unwrap_or_default().to_owned();
    output.notice(&format!(
        "of {} environments of this type, {} have none, such as {project}/{env}; change each: canyon update environment \
         {project} {env} --set=deletion_protection.max_deletions=N",
        of_type.len(),
        unprotected.len(),
        project = text("project_id"),
        env = text("id"),
    ));
}

/// Whether a change is one of the protection.
pub(super) fn is_changed(kind: Kind, body: &serde_json::Map<String, Value>) -> bool {
    kind == Kind::Plain(crate::plain_resource::PlainKind::EnvironmentType)
        && body.contains_key("deletion_protection")
}
