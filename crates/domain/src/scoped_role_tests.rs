use super::*;
use crate::ids::{OrgId, OrgUuid, PrincipalId};
use crate::principal::{Principal, SignIn};
use proptest::prelude::*;
use uuid::Uuid;

const PROJECTS: [&str; 5] = ["shop", "shop/api", "shop/api/eu", "shop-eu", "bank"];
const ENVS: [&str; 2] = ["blue", "green"];
const TYPES: [&str; 2] = ["development", "production"];

fn id<T: std::str::FromStr<Err = crate::ids::InvalidId>>(text: &str) -> T {
    text.parse().unwrap()
}

fn principal(role: Role, scoped_roles: Vec<ScopedRole>) -> Principal {
    Principal {
        id: PrincipalId(Uuid::from_u128(1)),
        org: OrgUuid(Uuid::from_u128(2)),
        org_id: id::<OrgId>("acme"),
        role,
        scoped_roles,
        runner: None,
        operator: false,
        sign_in: SignIn::default(),
    }
}

fn roles() -> impl Strategy<Value = Role> {
    prop::sample::select(vec![Role::Viewer, Role::Deployer, Role::Admin])
}

fn one_of<T>(names: &'static [&'static str]) -> impl Strategy<Value = Option<T>>
where
    T: std::str::FromStr<Err = crate::ids::InvalidId> + std::fmt::Debug,
{
    prop::option::of(prop::sample::select(names)).prop_map(|name| name.map(id))
}

fn scoped() -> impl Strategy<Value = ScopedRole> {
    (roles(), one_of(&PROJECTS), one_of(&TYPES), one_of(&ENVS))
        .prop_map(|(role, project, env_type, env)| ScopedRole { role, project, env_type, env })
}

fn is_well_formed(role: &ScopedRole) -> bool {
    let mut faults = FieldErrors::default();
    role.check(&mut faults, "role");
    faults.is_empty()
}

#[test]
fn a_role_for_an_environment_includes_only_that_one() {
    let role = |project: &str, env: Option<&str>| ScopedRole {
        env: env.map(id),
        ..ScopedRole::new(Role::Deployer).in_project(id(project))
    };
    let blue = role("shop", Some("blue"));
    assert!(blue.includes(&blue));
    assert!(role("shop", None).includes(&blue));
    for other in [
        role("shop", None),
        role("shop", Some("green")),
        role("shop/api", Some("blue")),
        role("bank", Some("blue")),
        ScopedRole::new(Role::Deployer),
        ScopedRole { role: Role::Admin, ..blue.clone() },
    ] {
        assert!(!blue.includes(&other), "{other}");
    }
}

proptest! {
    /// An independent computation: the project's path, the environment and its type must each match.
    #[test]
    fn a_role_covers_what_matches_all_scopes_that_it_names(
        role in scoped(),
        project in prop::sample::select(&PROJECTS[..]),
        env in prop::sample::select(&ENVS[..]),
        env_type in prop::sample::select(&TYPES[..]),
    ) {
        prop_assume!(is_well_formed(&role));
        let holds = role.project.as_ref().is_none_or(|own| {
            let own = own.as_str();
            // An environment belongs to one project, and not to those below it.
            project == own || (role.env.is_none() && project.starts_with(&format!("{own}/")))
        });
        let agrees = holds
            && role.env.as_ref().is_none_or(|own| own.as_str() == env)
            && role.env_type.as_ref().is_none_or(|own| own.as_str() == env_type);
        let (project, env, env_type) = (id(project), id(env), id(env_type));
        let target = Target::Environment { project: &project, env: &env, env_type: Some(&env_type) };
        prop_assert_eq!(role.covers(target), agrees);
        let whole = role.project.is_some() && holds && role.env.is_none() && role.env_type.is_none();
        prop_assert_eq!(role.covers(Target::Project(&project)), whole);
        prop_assert!(!role.covers(Target::Organization));
        let new = Target::NewEnvironment { project: &project, env_type: &env_type };
        prop_assert_eq!(role.covers(new), agrees && role.env.is_none());
        // A covered target is in a project that the holder sees.
        prop_assert!(!agrees || principal(Role::None, vec![role]).sees_project(&project));
    }

    #[test]
    fn a_role_that_includes_another_covers_everything_that_the_other_covers(
        wide in scoped(),
        other in scoped(),
        same_project in any::<bool>(),
        project in prop::sample::select(&PROJECTS[..]),
        env in prop::sample::select(&ENVS[..]),
        env_type in prop::sample::select(&TYPES[..]),
    ) {
        // The scopes of the other, within those of the wide one.
        let within = wide.project.clone().filter(|_| same_project || wide.env.is_some());
        let narrow = ScopedRole {
            role: other.role.min(wide.role),
            project: within.or_else(|| other.project.clone()),
            env_type: wide.env_type.clone().or_else(|| other.env_type.clone()),
            env: wide.env.clone().or_else(|| other.env.clone()),
        };
        let (project, env, env_type) = (id(project), id(env), id(env_type));
        let environment = Target::Environment { project: &project, env: &env, env_type: Some(&env_type) };
        if !is_well_formed(&wide) {
            return Ok(());
        }
        for narrow in [narrow, other].into_iter().filter(is_well_formed) {
            for target in [environment, Target::Project(&project)] {
                let is_within = !narrow.covers(target) || wide.covers(target);
                prop_assert!(!wide.includes(&narrow) || is_within, "{target} {narrow}");
            }
            prop_assert!(!wide.includes(&narrow) || wide.role >= narrow.role);
        }
        prop_assert!(wide.includes(&wide));
    }

    /// A reader for a principal reads what that principal reads, and changes nothing.
    #[test]
    fn a_reader_sees_what_its_principal_sees_and_no_more(
        held in prop::collection::vec(scoped(), 0..4),
        whole in prop::sample::select(vec![Role::None, Role::Viewer, Role::Deployer, Role::Admin]),
        project in prop::sample::select(&PROJECTS[..]),
        env in prop::sample::select(&ENVS[..]),
        env_type in prop::sample::select(&TYPES[..]),
    ) {
        let of = principal(whole, held);
        let (role, scoped_roles) = of.as_reader();
        let reader = principal(role, scoped_roles);
        let (project, env, env_type) = (id(project), id(env), id(env_type));
        let target = Target::Environment { project: &project, env: &env, env_type: Some(&env_type) };
        prop_assert_eq!(reader.role_in(target), of.role_in(target).min(Role::Viewer));
        prop_assert_eq!(reader.sees_project(&project), of.sees_project(&project));
        prop_assert!(reader.highest_role() <= Role::Viewer);
    }
}

#[test]
fn two_readers_share_what_the_narrower_one_reads() {
    let viewer = || ScopedRole::new(Role::Viewer);
    let shop = viewer().in_project(id("shop"));
    let api = viewer().in_project(id("shop/api"));
    let bank = viewer().in_project(id("bank"));
    assert_eq!(intersection(None, None), None, "everything");
    for (one, other, shared) in [
        (None, Some(vec![shop.clone()]), vec![shop.clone()]),
        (Some(vec![shop.clone()]), Some(vec![api.clone(), bank.clone()]), vec![api]),
        (Some(vec![shop.clone(), bank]), Some(vec![shop.clone()]), vec![shop.clone()]),
        (Some(vec![]), Some(vec![shop]), vec![]),
    ] {
        assert_eq!(intersection(one.clone(), other.clone()), Some(shared.clone()));
        assert_eq!(intersection(other, one), Some(shared));
    }
}

#[test]
fn the_highest_role_that_covers_a_resource_applies() {
    let of = principal(
        Role::Viewer,
        vec![
            ScopedRole { env_type: Some(id("development")), ..ScopedRole::new(Role::Deployer) },
            ScopedRole::new(Role::Admin).in_project(id("shop")),
        ],
    );
    let (shop, bank, env) = (id("shop/api"), id("bank"), id("blue"));
    let (development, production) = (id("development"), id("production"));
    let in_type = |project, env_type| Target::Environment { project, env: &env, env_type };
    assert_eq!(of.role_in(Target::Organization), Role::Viewer);
    assert_eq!(of.role_in(Target::Project(&shop)), Role::Admin);
    assert_eq!(of.role_in(Target::Project(&bank)), Role::Viewer);
    assert_eq!(of.role_in(in_type(&bank, Some(&development))), Role::Deployer);
    assert_eq!(of.role_in(in_type(&bank, Some(&production))), Role::Viewer);
    assert_eq!(of.role_in(in_type(&bank, None)), Role::Viewer, "an unknown type is none");
    assert_eq!(of.role_in(in_type(&shop, Some(&development))), Role::Admin);
    assert_eq!(
        of.right(),
        "viewer; deployer in all projects, environments of type development; admin in project shop"
    );
}

#[test]
fn a_role_without_a_scope_or_with_a_contradiction_is_refused_with_the_path() {
    let faults = |role: &ScopedRole| {
        let mut faults = FieldErrors::default();
        role.check(&mut faults, "scoped_roles[0]");
        faults.into_result(()).map_err(|faults| faults.to_string()).err()
    };
    let env = Some(id("blue"));
    let env_type = Some(id("production"));
    assert_eq!(faults(&ScopedRole::new(Role::Admin).in_project(id("shop"))), None);
    for (wrong, path) in [
        (ScopedRole::new(Role::Viewer), "scoped_roles[0]"),
        (ScopedRole::new(Role::Agent).in_project(id("shop")), "scoped_roles[0].role"),
        (ScopedRole::new(Role::None).in_project(id("shop")), "scoped_roles[0].role"),
        (
            ScopedRole { env: env.clone(), ..ScopedRole::new(Role::Viewer) },
            "scoped_roles[0].env_id",
        ),
        (
            ScopedRole { env_type, env, ..ScopedRole::new(Role::Viewer).in_project(id("shop")) },
            "scoped_roles[0].env_type_id",
        ),
    ] {
        let message = faults(&wrong).unwrap();
        assert!(message.contains(path), "{wrong:?}: {message}");
    }
}
