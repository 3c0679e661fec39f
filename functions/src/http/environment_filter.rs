//! The filter of the lists of environments.

use serde::Deserialize;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::{IntoParams, PartialSchema as _};

/// Filter of a list of environments.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Vec<(String, String)>")]
pub(super) struct EnvironmentFilter {
    /// The values of `byEnvTypeId`, sorted, so that their order in the query does not matter.
    pub(super) types: Vec<String>,
}

const BY_ENV_TYPE: &str = "byEnvTypeId";

impl From<Vec<(String, String)>> for EnvironmentFilter {
    fn from(query: Vec<(String, String)>) -> Self {
        let given = query.into_iter().filter(|(name, _)| name == BY_ENV_TYPE);
        let mut types: Vec<_> = given.map(|(_, id)| id).collect();
        types.sort_unstable();
        Self { types }
    }
}

impl IntoParams for EnvironmentFilter {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let description = "Only environments of these types; may be given many times.";
        let parameter = ParameterBuilder::new()
            .name(BY_ENV_TYPE)
            .parameter_in(ParameterIn::Query)
            .required(Required::False)
            .description(Some(description))
            .schema(Some(Vec::<String>::schema()));
        vec![parameter.build()]
    }
}
