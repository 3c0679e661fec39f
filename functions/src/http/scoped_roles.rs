//! Scoped roles in bodies and answers.

use super::fields;
use canyon_api::scoped_role::ScopedRole;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::scoped_role::{self, MAX_SCOPED_ROLES};

/// The scoped roles in the field `path`. Each fault is recorded with its path.
pub(super) fn parse(
    faults: &mut FieldErrors,
    path: &str,
    given: Vec<ScopedRole>,
) -> Vec<scoped_role::ScopedRole> {
    if given.len() > MAX_SCOPED_ROLES {
        faults.add(path, format!("has at most {MAX_SCOPED_ROLES} roles"));
        return Vec::new();
    }
    let parsed = given.into_iter().enumerate().map(|(index, given)| {
        let path = format!("{path}[{index}]");
        let parsed = parse_one(faults, &path, &given);
        parsed.check(faults, &path);
        parsed
    });
    parsed.collect()
}

/// The scoped role in the field `path`, not yet checked as a whole.
pub(super) fn parse_one(
    faults: &mut FieldErrors,
    path: &str,
    given: &ScopedRole,
) -> scoped_role::ScopedRole {
    scoped_role::ScopedRole {
        role: given.role,
        project: field(faults, path, "project_id", given.project_id.as_deref()),
        env_type: field(faults, path, "env_type_id", given.env_type_id.as_deref()),
        env: field(faults, path, "env_id", given.env_id.as_deref()),
    }
}

fn field<T>(faults: &mut FieldErrors, path: &str, name: &str, text: Option<&str>) -> Option<T>
where
    T: std::str::FromStr<Err = canyon_domain::ids::InvalidId>,
{
    fields::id(faults, &format!("{path}.{name}"), text?)
}

pub(super) fn render(of: Vec<scoped_role::ScopedRole>) -> Vec<ScopedRole> {
    of.into_iter().map(render_one).collect()
}

pub(super) fn render_one(of: scoped_role::ScopedRole) -> ScopedRole {
    ScopedRole {
        role: of.role,
        project_id: of.project.map(String::from),
        env_type_id: of.env_type.map(String::from),
        env_id: of.env.map(String::from),
    }
}
