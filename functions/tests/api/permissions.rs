//! Every route by role and scope: the rights of each caller for each object, cell by cell.
//!
//! [`NEEDS`] contains the right that each operation of the document needs, and `docs/permissions.md` is generated
//! from it. The rights of the callers are written by hand in [`CALLERS`], so that the expectations do not come from
//! the code under test.

use crate::harness::{Answer, Api};
use crate::job::CODE;
use crate::needs::{
    AnyRole, Anywhere, CHECK, Environment, JOB, List, NEEDS, Need, Nothing, Own, Project, Seen,
    Whole,
};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The environments: project, environment, type.
const PLACES: [(&str, &str, &str); 3] =
    [("shop/web", "blue", "dev"), ("shop/web", "live", "prod"), ("bank", "blue", "dev")];

/// Callers, with their role (`A`dmin, `D`eployer, `V`iewer, `s` for a project that is only seen, `-` for none) in the
/// whole organization, in the projects `shop/web` and `bank`, and in each of [`PLACES`].
const CALLERS: [(&str, &str, &[&str], &str); 12] = [
    ("admin", "admin", &[], "AAAAAA"),
    ("deployer", "deployer", &[], "DDDDDD"),
    ("viewer", "viewer", &[], "VVVVVV"),
    ("admin of a group", "none", &["admin project_id=shop"], "-A-AA-"),
    ("deployer of a project", "none", &["deployer project_id=shop/web"], "-D-DD-"),
    ("viewer of a project", "none", &["viewer project_id=bank"], "--V--V"),
    ("admin of a type", "none", &["admin env_type_id=dev"], "-ssA-A"),
    ("deployer of a type", "none", &["deployer env_type_id=prod"], "-ss-D-"),
    ("admin of an environment", "none", &["admin project_id=shop/web env_id=live"], "-s--A-"),
    (
        "deployer of a type in a group",
        "none",
        &["deployer project_id=shop env_type_id=dev"],
        "-s-D--",
    ),
    ("viewer, and deployer of a type", "viewer", &["deployer env_type_id=dev"], "VVVDVD"),
    (
        "viewer of one project, and admin of another's environment",
        "none",
        &["viewer project_id=bank", "admin project_id=shop/web env_id=blue"],
        "-sVA-V",
    ),
];

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Allowed,
    Denied,
    /// The answer is the same as for a missing object.
    Hidden,
}

fn outcome((status, body): &Answer) -> Outcome {
    let message = body["message"].as_str().unwrap_or_default();
    let field = &body["details"]["fields"][0];
    let is_missing = |text: &str| text.starts_with("there is no ");
    match status {
        // A token of another kind is refused there.
        401 | 403 => Outcome::Denied,
        404 if is_missing(message) => Outcome::Hidden,
        409 if is_missing(field["reason"].as_str().unwrap_or_default()) => Outcome::Hidden,
        _ => Outcome::Allowed,
    }
}

fn rank(role: char) -> usize {
    "-sVDA".find(role).unwrap()
}

/// The expected result for a caller with `role` where `needed` is required.
fn expected(needed: char, role: char) -> Outcome {
    match role {
        _ if rank(role) >= rank(needed) => Outcome::Allowed,
        '-' => Outcome::Hidden,
        _ => Outcome::Denied,
    }
}

struct Operation {
    id: String,
    method: Method,
    path: String,
}

fn operations() -> Vec<Operation> {
    let document = serde_json::to_value(canyon_functions::http::document()).unwrap();
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let Some(id) = operation["operationId"].as_str() else { continue };
            let method = method.to_uppercase().parse().unwrap();
            found.push(Operation { id: id.to_owned(), method, path: path.clone() });
        }
    }
    found.sort_by(|a, b| a.id.cmp(&b.id));
    found
}

fn need_of(id: &str) -> Need {
    let found = NEEDS.iter().find(|(operation, _)| *operation == id);
    found.unwrap_or_else(|| panic!("`{id}` is not in the table of permissions")).1
}

/// An installation with the three environments, each with a waiting deployment and a cancelled one.
struct World {
    api: Api,
    /// The cancelled deployments, as [`PLACES`].
    ended: Vec<String>,
    secrets: Vec<String>,
}

impl World {
    async fn new() -> Self {
        let api = Api::start().await;
        api.make("/runners", crate::harness::local_runner("shared")).await;
        api.make("/runner-rules", json!({ "runner_id": "shared" })).await;
        for id in ["dev", "prod"] {
            api.make("/env-types", json!({ "id": id })).await;
        }
        for id in ["shop/web", "bank"] {
            api.make("/projects", json!({ "id": id })).await;
        }
        let mut ended = Vec::new();
        for (project, env, env_type) in PLACES {
            let path = format!("/projects/{}/envs", project.replace('/', "%2F"));
            api.make(&path, json!({ "id": env, "env_type_id": env_type })).await;
            let waits = api.make("/deployments", order(project, env)).await;
            let id = api.make("/deployments", order(project, env)).await["id"].clone();
            assert_ne!(waits["id"], id);
            let id = id.as_str().unwrap().to_owned();
            assert_eq!(api.act(&format!("/deployments/{id}/actions/cancel")).await.0, 202);
            ended.push(id);
        }
        let mut secrets = Vec::new();
        for (name, role, scoped, _) in CALLERS {
            let scoped: Vec<_> = scoped.iter().map(|text| scoped_role(text)).collect();
            let body = json!({ "role": role, "scoped_roles": scoped, "description": name });
            secrets.push(api.make("/tokens", body).await["secret"].as_str().unwrap().to_owned());
        }
        Self { api, ended, secrets }
    }

    /// Requests an operation at a place.
    async fn ask(&self, secret: &str, operation: &Operation, place: usize) -> Answer {
        let (project, env, env_type) = PLACES[place];
        let mut path = operation.path.replace("{orgId}", &self.api.ours.id);
        for (name, value) in [
            ("{projectId}", project.replace('/', "%2F").as_str()),
            ("{envId}", env),
            ("{deploymentId}", &self.ended[place]),
            ("{digest}", DIGEST),
        ] {
            path = path.replace(name, value);
        }
        let path: Vec<_> = path.split('/').map(filled).collect();
        let mut path = path.join("/");
        if operation.id == "updateRunnerInAnEnvironment" {
            path.push_str("?dry_run=true");
        }
        if operation.id.ends_with("Schedule") {
            // An earlier caller may have deleted it.
            let project = project.replace('/', "%2F");
            let path = format!("/projects/{project}/envs/{env}/schedules");
            self.api.post(&path, schedule(filled("{scheduleId}"))).await;
        }
        let body = match operation.id.as_str() {
            "createSchedule" => Some(schedule("other")),
            "replaceSchedule" => Some(json!({ "kind": "destroy", "cron": "@weekly" })),
            "createDeployment" => {
                let mut body = order(project, env);
                body["is_dry_run"] = json!(true);
                Some(body)
            }
            "createProject" => Some(json!({ "id": project })),
            "createEnvironment" => Some(json!({ "id": env, "env_type_id": env_type })),
            "updateProject" | "updateEnvironment" => Some(json!({ "display_name": "Same" })),
            "updateOrganizationVariables"
            | "updateProjectVariables"
            | "updateEnvironmentVariables" => Some(json!({ "terraform": { "a": null } })),
            "updateOrganizationGitCredentials" | "updateProjectGitCredentials" => {
                Some(json!({ "credentials": { "https://a": null } }))
            }
            "approveDeployment" => Some(json!({ "plan_digest": DIGEST })),
            "rejectDeployment" => Some(json!({})),
            "createArchiveUploadUrl" => Some(json!({ "size_bytes": 7 })),
            _ => None,
        };
        let body = body.map(|body| body.to_string().into_bytes());
        let body = if operation.id == "putArchive" { Some(b"archive".to_vec()) } else { body };
        self.api.send(operation.method.clone(), &path, Some(secret), body).await
    }
}

/// The SHA-256 of `archive`.
const DIGEST: &str = "0eb3e36bfb24dcd9bb1d1bece1531216b59539a8fde17ee80224af0653c92aa3";

/// An id that no object has.
fn filled(segment: &str) -> &str {
    match segment {
        "{ruleId}" | "{tokenId}" | "{checkId}" => "01234567-89ab-4def-8123-456789abcdef",
        "{number}" => "1",
        _ if segment.starts_with('{') => "some-id",
        _ => segment,
    }
}

fn order(project: &str, env: &str) -> Value {
    let module = json!({ "source": "inline", "source_code": CODE });
    json!({ "project_id": project, "env_id": env, "mode": "deploy", "module": module })
}

fn schedule(id: &str) -> Value {
    json!({ "id": id, "kind": "destroy", "cron": "@daily" })
}

/// `deployer project_id=shop env_type_id=dev` in the form of the API.
fn scoped_role(text: &str) -> Value {
    let (role, parts) = text.split_once(' ').unwrap();
    let parts = parts.split(' ').map(|part| part.split_once('=').unwrap());
    let members: BTreeMap<_, _> = parts.chain([("role", role)]).collect();
    json!(members)
}

/// The possible results for a caller with these roles, as in [`CALLERS`].
fn wanted(operation: &str, need: Need, roles: &[char], place: usize) -> Vec<Outcome> {
    let highest = *roles.iter().max_by_key(|role| rank(**role)).unwrap();
    let of_project = roles[if PLACES[place].0 == "bank" { 2 } else { 1 }];
    let of_environment = roles[3 + place];
    match (need, operation) {
        // The object does not exist: an answer that says so means that access was granted.
        (Whole(needed), _) if rank(roles[0]) >= rank(needed) => {
            vec![Outcome::Allowed, Outcome::Hidden]
        }
        (Anywhere(needed), _) if rank(highest) >= rank(needed) => {
            vec![Outcome::Allowed, Outcome::Hidden]
        }
        (Whole(_) | Anywhere(_) | Own(_), _) => vec![Outcome::Denied],
        (List | AnyRole | Nothing, _) => vec![Outcome::Allowed],
        (Seen, _) => vec![expected('s', of_project)],
        // A caller that sends a name knows it already.
        (Project(needed), "createProject") if rank(of_project) < rank(needed) => {
            vec![Outcome::Denied]
        }
        (Environment(needed), "createEnvironment") if rank(of_environment) < rank(needed) => {
            vec![if of_project == '-' { Outcome::Hidden } else { Outcome::Denied }]
        }
        (Project(needed), _) => vec![expected(needed, of_project)],
        (Environment(needed), _) => vec![expected(needed, of_environment)],
    }
}

#[tokio::test]
async fn every_caller_may_do_exactly_what_the_table_of_permissions_says() {
    let world = World::new().await;
    let (mut cells, mut wrong) = (0, Vec::new());
    for operation in operations() {
        let need = need_of(&operation.id);
        // The token of a job, or no token, is no role of a caller.
        if matches!(need, Nothing) || need == JOB || need == CHECK {
            continue;
        }
        let at_a_place = matches!(need, Seen | Project(_) | Environment(_));
        let places = PLACES.iter().enumerate().take(if at_a_place { PLACES.len() } else { 1 });
        for (place, at) in places {
            for ((name, _, scoped, has), secret) in CALLERS.iter().zip(&world.secrets) {
                let mut roles: Vec<char> = has.chars().collect();
                if operation.id == "createEnvironment" {
                    // A role for an environment of that name does not include the choice of its type.
                    let of_a_name = scoped.iter().any(|role| role.contains("env_id"));
                    roles.truncate(if of_a_name { 3 } else { roles.len() });
                    roles.resize(6, '-');
                }
                let answer = world.ask(secret, &operation, place).await;
                let (found, wanted) =
                    (outcome(&answer), wanted(&operation.id, need, &roles, place));
                cells += 1;
                if !wanted.contains(&found) {
                    wrong.push(format!(
                        "{name}: {} at {at:?}: {found:?}, not {wanted:?}: {answer:?}",
                        operation.id
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {cells} cells:\n{}", wrong.len(), wrong.join("\n"));
    assert!(cells > 1_000, "{cells}");
}

#[tokio::test]
async fn each_list_has_what_its_caller_may_read() {
    let world = World::new().await;
    for ((name, _, _, has), secret) in CALLERS.iter().zip(&world.secrets) {
        let roles: Vec<char> = has.chars().collect();
        let read = async |path: &str, of: &dyn Fn(&Value) -> String| {
            let (status, page) = world.api.call_as(secret, Method::GET, path, None).await;
            assert_eq!(status, 200, "{name}: {page}");
            page["items"].as_array().unwrap().iter().map(of).collect::<BTreeSet<_>>()
        };
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let place = |of: &Value| format!("{} {}", text(&of["project_id"]), text(&of["id"]));
        let readable = (0..PLACES.len()).filter(|place| rank(roles[3 + place]) >= rank('V'));
        let readable: Vec<_> = readable.map(|place| PLACES[place]).collect();
        let environments: BTreeSet<_> =
            readable.iter().map(|(project, env, _)| format!("{project} {env}")).collect();
        assert_eq!(read("/envs", &place).await, environments, "{name}");
        let deployments =
            |of: &Value| format!("{} {}", text(&of["project_id"]), text(&of["env_id"]));
        assert_eq!(read("/deployments", &deployments).await, environments, "{name}");
        assert_eq!(read("/last-deployments", &deployments).await, environments, "{name}");
        let projects = [("shop/web", roles[1]), ("bank", roles[2])];
        let seen = projects.iter().filter(|(_, role)| *role != '-');
        let seen: BTreeSet<_> = seen.map(|(project, _)| (*project).to_owned()).collect();
        assert_eq!(read("/projects", &|of| text(&of["id"])).await, seen, "{name}");
        for (project, env, _) in PLACES {
            let path =
                format!("/deployments?project_id={}&env_id={env}", project.replace('/', "%2F"));
            let is_readable = readable.iter().any(|one| (one.0, one.1) == (project, env));
            let found = read(&path, &|of| text(&of["id"])).await;
            assert_eq!(found.len(), if is_readable { 2 } else { 0 }, "{name}: {path}");
        }
    }
}

#[test]
fn the_page_of_permissions_says_what_the_table_says() {
    let operations = operations();
    let known: BTreeSet<_> = operations.iter().map(|one| one.id.as_str()).collect();
    let listed: BTreeSet<_> = NEEDS.iter().map(|(id, _)| *id).collect();
    assert_eq!(listed, known, "the table and the API's document");
    let role = |role: char| match role {
        'A' => "admin",
        'D' => "deployer",
        _ => "viewer",
    };
    let mut table = "| operation | request | needs |\n|---|---|---|\n".to_owned();
    for Operation { id, method, path } in &operations {
        let needs = match need_of(id) {
            Nothing => "no token".to_owned(),
            Own(whose) => format!("the token of {whose}"),
            Whole(needed) => format!("`{}` in the organization", role(needed)),
            Anywhere(needed) => format!("`{}` anywhere", role(needed)),
            Seen => "any role in the project, or in part of it".to_owned(),
            Project(needed) => format!("`{}` in the project", role(needed)),
            Environment(needed) => format!("`{}` in the environment", role(needed)),
            AnyRole => "any role".to_owned(),
            List => "any role; lists what the caller may read".to_owned(),
        };
        writeln!(table, "| `{id}` | `{method} {path}` | {needs} |").unwrap();
    }
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/permissions.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let (head, _) = text.split_once("| operation |").unwrap();
    let wanted = format!("{head}{table}");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&page, &wanted).unwrap();
        return;
    }
    assert!(
        wanted == text,
        "docs/permissions.md is not up to date; make it with: INSTA_UPDATE=always cargo test --workspace --features \
         canyon-launcher/local-jobs --test api permissions"
    );
}
