//! Parameters of a query that a list checks itself, with all faults at once.

use canyon_api::page::PageQuery;
use canyon_domain::field_error::FieldErrors;
use utoipa::IntoParams;
use utoipa::openapi::path::ParameterIn;

/// The faults of the parameters that are neither of `Filter` nor of a page.
pub(super) fn unknown<Filter: IntoParams>(given: &[(String, String)]) -> FieldErrors {
    let query = || Some(ParameterIn::Query);
    let known = [Filter::into_params(query), PageQuery::into_params(query)].concat();
    let known: Vec<_> = known.into_iter().map(|parameter| parameter.name).collect();
    let mut faults = FieldErrors::default();
    for (name, _) in given.iter().filter(|(name, _)| !known.contains(name)) {
        let reason = format!("is no parameter of this list; it has {}", quoted(&known));
        faults.add(name.chars().take(60).collect::<String>(), reason);
    }
    faults
}

/// The value of `all` whose name is `text`.
pub(super) fn one_of<T: Copy>(
    faults: &mut FieldErrors,
    path: &str,
    text: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Option<T> {
    let found = all.iter().copied().find(|one| name(*one) == text);
    if found.is_none() {
        let names: Vec<_> = all.iter().map(|one| name(*one).to_owned()).collect();
        faults.add(path, format!("is one of {}", quoted(&names)));
    }
    found
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
