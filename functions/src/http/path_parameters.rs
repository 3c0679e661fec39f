//! The parameters in the paths of the OpenAPI document, each described once for all operations.

use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{OpenApi, RefOr, Required, Schema};
use utoipa::{Modify, PartialSchema};

/// Describes the parameters of each path.
pub(super) struct PathParameters;

impl Modify for PathParameters {
    fn modify(&self, document: &mut OpenApi) {
        for (path, item) in &mut document.paths.paths {
            let segments: Vec<_> = path.split('/').collect();
            let described = segments.windows(2).filter_map(|pair| parameter(pair[0], pair[1]));
            item.parameters.get_or_insert_default().extend(described);
        }
    }
}

/// The parameter in `segment`, a part of a path such as `{orgId}`, which names one of the `things`.
fn parameter(things: &str, segment: &str) -> Option<RefOr<Parameter>> {
    let name = segment.strip_prefix('{')?.strip_suffix('}')?;
    let (schema, description) = describe(things)?;
    let parameter = ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(schema))
        .description(Some(description));
    Some(RefOr::T(parameter.build()))
}

fn describe(things: &str) -> Option<(RefOr<Schema>, &'static str)> {
    let id = |description| Some((String::schema(), description));
    let uuid = |description| {
        let format = SchemaFormat::KnownFormat(KnownFormat::Uuid);
        let text = ObjectBuilder::new().schema_type(Type::String).format(Some(format)).build();
        Some((text.into(), description))
    };
    match things {
        "agents" => id("The agent."),
        "archives" => id("SHA-256 in 64 lower case hexadecimal digits."),
        "attempts" => Some((u32::schema(), "The attempt.")),
        "checks" => id("The check."),
        "concurrency-limits" => id("`organization`, `runner:ID` or `project:ID`."),
        "deployments" => id("The deployment."),
        "env-types" => id("The environment type."),
        "envs" => id("The environment."),
        "event-sources" => id("The event source."),
        "orgs" => id("The organization."),
        "projects" => id("The project; its `/` is written `%2F`."),
        "remote-runners" | "runners" => id("The runner."),
        "runner-profiles" => id("The profile."),
        "runner-rules" => uuid("The rule."),
        "service-accounts" => id("The service account."),
        "sessions" => Some((u64::schema(), "The session.")),
        "tokens" => uuid("The token."),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::document;
    use super::*;

    #[test]
    fn every_parameter_of_a_path_is_described() {
        for (path, item) in document().paths.paths {
            let described = item.parameters.unwrap_or_default();
            let name = |parameter: &RefOr<Parameter>| match parameter {
                RefOr::T(parameter) => parameter.name.clone(),
                RefOr::Ref(to) => to.ref_location.clone(),
            };
            let names: Vec<_> = described.iter().map(name).collect();
            let inside = |segment: &str| {
                let name = segment.strip_prefix('{')?.strip_suffix('}')?;
                Some(name.to_owned())
            };
            let expected: Vec<_> = path.split('/').filter_map(inside).collect();
            assert_eq!(names, expected, "{path}");
        }
    }
}
