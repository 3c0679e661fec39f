//! Parameters of a query that a list checks itself, with all faults at once.

use canyon_api::page::PageQuery;
use canyon_domain::field_error::FieldErrors;
use jiff::Timestamp;
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

/// The value of a parameter, if it is given and `parse` accepts it.
pub(super) fn parsed<T>(
    faults: &mut FieldErrors,
    path: &str,
    text: Option<&str>,
    parse: impl FnOnce(&str) -> Result<T, &'static str>,
) -> Option<T> {
    match parse(text?) {
        Ok(value) => Some(value),
        Err(reason) => {
            faults.add(path, reason);
            None
        }
    }
}

/// A time.
pub(super) fn time(faults: &mut FieldErrors, path: &str, text: Option<&str>) -> Option<Timestamp> {
    parsed(faults, path, text, |text| {
        text.parse().map_err(|_| "is a time such as 2026-01-31T12:00:00Z; write a `+` in it as %2B")
    })
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
