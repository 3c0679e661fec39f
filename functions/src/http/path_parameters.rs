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
    let (schema, description) = describe(things, name);
    let parameter = ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .schema(Some(schema))
        .description(Some(description));
    Some(RefOr::T(parameter.build()))
}

/// Most parameters are ids that are named for what they identify: `eventSourceId`.
fn describe(things: &str, name: &str) -> (RefOr<Schema>, String) {
    let described = |schema, text: &str| (schema, text.to_owned());
    let uuid = || {
        let format = SchemaFormat::KnownFormat(KnownFormat::Uuid);
        ObjectBuilder::new().schema_type(Type::String).format(Some(format)).build().into()
    };
    match things {
        "archives" => described(String::schema(), "SHA-256 in 64 lower case hexadecimal digits."),
        "attempts" => described(u32::schema(), "The attempt."),
        "concurrency-limits" => described(
            String::schema(),
            "`organization`, `runner:ID`, `project:ID` or `checks:RUNNER`.",
        ),
        "env-types" => described(String::schema(), "The environment type."),
        "envs" => described(String::schema(), "The environment."),
        "orgs" => described(String::schema(), "The organization."),
        "projects" => described(String::schema(), "The project; its `/` is written `%2F`."),
        "runner-rules" => described(uuid(), "The rule."),
        "sessions" => described(u64::schema(), "The session."),
        "variables" => described(String::schema(), "`terraform` or `environment`."),
        "tokens" => described(uuid(), "The token."),
        _ => (String::schema(), format!("The {}.", in_words(name))),
    }
}

/// The words of an id's name: `event source` of `eventSourceId`.
fn in_words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.trim_end_matches("Id").chars() {
        if letter.is_ascii_uppercase() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::document;
    use super::*;

    #[test]
    fn the_name_of_an_id_says_what_it_identifies() {
        assert_eq!(in_words("eventSourceId"), "event source");
        assert_eq!(in_words("agentId"), "agent");
    }

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
