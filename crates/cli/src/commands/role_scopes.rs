//! After roles for parts of an organization were given: notices about parts that do not exist, and roles without effect.

use crate::output::Output;
use crate::plain_resource::PlainKind;
use crate::resource::{Kind, Resource};
use canyon_api::client::Client;
use serde_json::Value;

/// The roles of a service account, or those of the rules of an identity provider.
pub(super) fn of(resource: &Value) -> &[Value] {
    let roles = ["rules", "scoped_roles"].iter().find_map(|name| resource[*name].as_array());
    roles.map(Vec::as_slice).unwrap_or_default()
}

/// Warns about each project and environment type of `roles` that does not exist. A role may be given before its project is
/// created, so the server accepts them.
pub(super) async fn warn_of_missing(roles: &[Value], client: &Client, output: Output) {
    let mut seen = Vec::new();
    for role in roles {
        let id = |name: &str| role[name].as_str().map(str::to_owned);
        let project = id("project_id");
        let env_type =
            id("env_type_id").map(|id| Resource::new(Kind::Plain(PlainKind::EnvironmentType), id));
        let environment = project.clone().zip(id("env_id"));
        let environment = environment.map(|(project, id)| Resource::environment(project, id));
        let project = project.map(|id| Resource::new(Kind::Project, id));
        for part in [project, env_type, environment].into_iter().flatten() {
            if seen.contains(&part) {
                continue;
            }
            let is_missing = warn_if_missing(&part, client, output).await;
            let is_project = part.kind == Kind::Project;
            seen.push(part);
            // An environment of a missing project is missing, too.
            if is_missing && is_project {
                break;
            }
        }
    }
}

/// Returns whether it is missing.
async fn warn_if_missing(part: &Resource, client: &Client, output: Output) -> bool {
    if part.absence(client).await.is_none() {
        return false;
    }
    let nearest = part.nearest(client).await;
    let nearest = nearest.map_or_else(String::new, |id| format!("; did you mean `{id}`?"));
    output.notice(&format!(
        "warning: there is no {} `{}` yet, so the role in it has no effect until it is created{nearest}",
        part.kind.noun(),
        part.full_name(),
    ));
    true
}

/// Says which of `scoped` add nothing to the role `whole`, which holds in the whole organization.
pub(super) fn notice_redundant(whole: &str, scoped: &[Value], output: Output) {
    let rank = |role: &str| ["viewer", "deployer", "admin"].iter().position(|one| *one == role);
    let Some(of_whole) = rank(whole) else { return };
    let redundant: Vec<_> = scoped
        .iter()
        .filter_map(|role| role["role"].as_str())
        .filter(|role| rank(role).is_some_and(|of_part| of_part <= of_whole))
        .collect();
    if redundant.is_empty() {
        return;
    }
    output.notice(&format!(
        "warning: the role `{whole}` holds in the whole organization, so the scoped role `{}` adds nothing; for a part \
         alone leave out --role",
        redundant.join("`, `"),
    ));
}
