//! Finds the deployment that an argument names: by its whole id, or by the first or the last characters of it.
//!
//! Ids are UUIDs of version 7: the first characters are the time, which deployments of one minute share, and the
//! last characters are random. So users copy either end.

use crate::deployment_history::{DeploymentHistory, MAX_SEARCHED};
use crate::error::CliError;
use canyon_api::client::Client;
use canyon_api::deployment::{Deployment, DeploymentQuery};
use uuid::Uuid;

/// Fewer characters are refused: a typo would too often name another deployment.
const MIN_LENGTH: usize = 4;

/// The id of the deployment that `given` names, among those of `filter`. A whole id needs no request.
///
/// # Errors
///
/// [`CliError::Usage`] if `given` is no part of an id, [`CliError::Ambiguous`] if several deployments match, and
/// [`CliError::Absent`] if none of the newest ones does.
pub(crate) async fn resolve(
    client: &Client,
    given: &str,
    filter: &DeploymentQuery,
) -> Result<Uuid, CliError> {
    if let Ok(id) = Uuid::try_parse(given) {
        return Ok(id);
    }
    let short = ShortId::parse(given)?;
    let mut history = DeploymentHistory::new(client, filter.clone(), 100);
    let mut found: Vec<Deployment> = Vec::new();
    while let Some(deployment) = history.next().await? {
        if short.matches(deployment.id) {
            found.push(deployment);
        }
    }
    match found.as_slice() {
        [only] => Ok(only.id),
        [] => Err(none(given, history.is_cut())),
        several => Err(CliError::Ambiguous {
            given: given.to_owned(),
            matches: several.iter().map(line).collect(),
        }),
    }
}

fn none(given: &str, is_cut: bool) -> CliError {
    let (searched, hint) = if is_cut {
        (
            format!("none of the newest {MAX_SEARCHED} deployments"),
            "give the whole id of an older one",
        )
    } else {
        ("no deployment".to_owned(), "list the ids with `canyon list deployments`")
    };
    CliError::Absent {
        message: format!("{searched} has an id that begins or ends with `{given}`"),
        hint: hint.to_owned(),
    }
}

/// A deployment among several from which the user chooses.
pub(crate) fn line(deployment: &Deployment) -> String {
    format!(
        "{}  {}/{}  {}  {}",
        deployment.id,
        deployment.project_id,
        deployment.env_id,
        deployment.status,
        deployment.created_at
    )
}

/// The first or the last hexadecimal digits of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ShortId(String);

impl ShortId {
    fn parse(given: &str) -> Result<Self, CliError> {
        let digits: String = given.chars().filter(|c| *c != '-').collect();
        let is_hex = digits.chars().all(|c| c.is_ascii_hexdigit());
        if is_hex && (MIN_LENGTH..32).contains(&digits.len()) {
            return Ok(Self(digits.to_ascii_lowercase()));
        }
        Err(CliError::usage_with_hint(
            format!("`{given}` is not the id of a deployment"),
            format!("give the id, or at least {MIN_LENGTH} of its first or last characters"),
        ))
    }

    fn matches(&self, id: Uuid) -> bool {
        let digits = id.simple().to_string();
        digits.starts_with(&self.0) || digits.ends_with(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_end_of_an_id_names_a_deployment_with_or_without_hyphens() {
        let id: Uuid = "0197a1b2-c3d4-7e5f-8123-456789abcdef".parse().unwrap();
        for (given, matches) in [
            ("0197", true),
            ("0197a1b2-c3", true),
            ("0197A1B2C3D4", true),
            ("cdef", true),
            ("8123-456789abcdef", true),
            ("a1b2", false),
            ("0198", false),
        ] {
            assert_eq!(ShortId::parse(given).unwrap().matches(id), matches, "{given}");
        }
    }

    #[test]
    fn text_that_is_no_part_of_an_id_is_refused() {
        for given in ["", "019", "shop", "0197g", "0197/1", "0197a1b2c3d47e5f8123456789abcdef0"] {
            assert!(ShortId::parse(given).is_err(), "{given}");
        }
    }
}
