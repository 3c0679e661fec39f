//! `--set` into a part of what is stored: the API replaces a part as a whole, so the rest of it is read first.

use crate::assignment::{Assignment, Step};
use crate::body::{BodyArguments, assigned};
use crate::error::CliError;
use crate::resource::{Kind, Resource};
use canyon_api::client::Client;
use serde_json::{Map, Value};

const CONFIGURATION: &str = "runner_configuration";
/// Of an environment type.
const POLICY: &str = "policy";

/// The body of a change of `resource`: single values change what is stored there, and keep the rest of the part that they
/// are in. The stored resource is read only if that is needed.
pub(crate) async fn change_of(
    resource: &Resource,
    given: &BodyArguments,
    client: &Client,
) -> Result<Map<String, Value>, CliError> {
    let (mut body, assignments) = (given.documents()?, given.assignments()?);
    let parts = StoredParts::of(resource.kind, &assignments);
    if parts.is_empty() {
        return assigned(body, &assignments);
    }
    // Invalid values are reported before any request.
    for assignment in &assignments {
        assignment.value()?;
    }
    match client.get(&resource.path()).await {
        Ok(stored) => parts.add_to(&mut body, &stored),
        Err(error) => return Err(resource.explain(client, error).await),
    }
    assigned(body, &assignments)
}

/// A part that the API replaces as a whole: the names of the members that lead to it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part(Vec<String>);

impl Part {
    /// The part that an assignment changes inside, if there is one.
    fn of(assignment: &Assignment) -> Option<Self> {
        let depth = match assignment.path.first()? {
            Step::Key(root) if root == CONFIGURATION => 2,
            Step::Key(_) | Step::Index(_) => 1,
        };
        let key = |step: &Step| match step {
            Step::Key(key) => Some(key.clone()),
            Step::Index(_) => None,
        };
        let names: Option<Vec<_>> = assignment.path.iter().take(depth).map(key).collect();
        names.filter(|_| assignment.path.len() > depth).map(Self)
    }

    fn root(&self) -> &str {
        &self.0[0]
    }

    fn of_stored<'s>(&self, stored: &'s Value) -> Option<&'s Value> {
        self.0.iter().try_fold(stored, |part, name| part.get(name)).filter(|part| !part.is_null())
    }

    /// Puts `value` into `body`, unless the body has the part already.
    fn add_to(&self, body: &mut Map<String, Value>, value: &Value) {
        let mut members = body;
        for name in &self.0[..self.0.len() - 1] {
            let member = members.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(inner) = member else { return };
            members = inner;
        }
        if let Some(name) = self.0.last() {
            members.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// The assignments of an update that need the stored resource.
#[derive(Debug)]
struct StoredParts {
    parts: Vec<Part>,
    /// The configurations that get a `type`, with that type.
    types: Vec<(String, String)>,
    /// Whether `runner_configuration` is changed and gets no type, which it needs.
    needs_type: bool,
}

impl StoredParts {
    /// What `assignments` change inside the stored parts of a resource. The API itself merges the parts of the other
    /// kinds.
    fn of(kind: Kind, assignments: &[Assignment]) -> Self {
        let is_replaced = match kind {
            Kind::Runner | Kind::Agent => true,
            Kind::Plain(kind) => kind.replaces_parts(),
            Kind::Environment
            | Kind::Project
            | Kind::RunnerRule
            | Kind::ConcurrencyLimit
            | Kind::Token
            | Kind::Organization => false,
        };
        let all = assignments;
        let assignments = if is_replaced { all } else { &[] };
        let starts_with = |one: &Assignment, name: &str| matches!(one.path.first(), Some(Step::Key(root)) if root == name);
        let of_type = |one: &Assignment| match &one.path[..] {
            [Step::Key(root), Step::Key(name)] if name == "type" => {
                Some((root.clone(), one.text.clone()))
            }
            _ => None,
        };
        // A change of one module keeps the others.
        let of_policy = all.iter().filter(|one| !is_replaced && starts_with(one, POLICY));
        let types: Vec<_> = assignments.iter().filter_map(of_type).collect();
        Self {
            parts: assignments.iter().chain(of_policy).filter_map(Part::of).collect(),
            needs_type: assignments.iter().any(|one| starts_with(one, CONFIGURATION))
                && !types.iter().any(|(root, _)| root == CONFIGURATION),
            types,
        }
    }

    /// Whether nothing of the stored resource is needed.
    fn is_empty(&self) -> bool {
        self.parts.is_empty() && !self.needs_type
    }

    /// Adds to `body`, which the files gave, what is `stored` of the parts that it does not have. A part whose
    /// configuration gets another type begins empty.
    fn add_to(&self, body: &mut Map<String, Value>, stored: &Value) {
        for part in &self.parts {
            let stored_type = stored[part.root()]["type"].as_str();
            let changes = |(root, given): &(String, String)| {
                root == part.root() && Some(given.as_str()) != stored_type
            };
            if self.types.iter().any(changes) {
                continue;
            }
            if let Some(value) = part.of_stored(stored) {
                part.add_to(body, value);
            }
        }
        let type_of_runner = Part(vec![CONFIGURATION.to_owned(), "type".to_owned()]);
        if let Some(value) = type_of_runner.of_stored(stored)
            && self.needs_type
        {
            type_of_runner.add_to(body, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The body of `--set` for each of `given`, after the files gave `body`.
    fn changed(kind: Kind, stored: &Value, body: Value, given: &[&str]) -> Value {
        let assignments: Vec<_> = given.iter().map(|one| Assignment::parse(one).unwrap()).collect();
        let Value::Object(mut body) = body else { panic!("no object") };
        StoredParts::of(kind, &assignments).add_to(&mut body, stored);
        let mut body = Value::Object(body);
        for one in assignments {
            one.apply(&mut body).unwrap();
        }
        body
    }

    fn runner() -> Value {
        json!({
            "id": "r", "description": "d",
            "runner_configuration": {
                "type": "kubernetes", "cluster": {"auth": {}},
                "job": {"namespace": "jobs", "timeouts": {"run_seconds": 9, "launch_seconds": 8}},
            },
            "state_storage_configuration": {"type": "s3", "bucket": "b", "path_prefix": "p"},
        })
    }

    #[test]
    fn only_the_given_property_of_a_part_changes_and_other_parts_are_not_sent() {
        let sent = changed(
            Kind::Runner,
            &runner(),
            json!({}),
            &["runner_configuration.job.timeouts.run_seconds=200"],
        );
        let job =
            json!({"namespace": "jobs", "timeouts": {"run_seconds": 200, "launch_seconds": 8}});
        assert_eq!(sent, json!({"runner_configuration": {"type": "kubernetes", "job": job}}));
        let sent = changed(
            Kind::Runner,
            &runner(),
            json!({}),
            &["state_storage_configuration.path_prefix=q", "description=x"],
        );
        let storage = json!({"type": "s3", "bucket": "b", "path_prefix": "q"});
        assert_eq!(sent, json!({"state_storage_configuration": storage, "description": "x"}));
    }

    #[test]
    fn a_part_that_is_given_whole_is_not_read() {
        let whole = "runner_configuration.job={namespace: other}";
        let sent = changed(Kind::Runner, &runner(), json!({}), &[whole]);
        let expected = json!({"type": "kubernetes", "job": {"namespace": "other"}});
        assert_eq!(sent, json!({"runner_configuration": expected}));
        let file = json!({"runner_configuration": {"type": "kubernetes", "job": {"a": 1}}});
        let sent = changed(Kind::Runner, &runner(), file, &["runner_configuration.job.b=2"]);
        let expected = json!({"type": "kubernetes", "job": {"a": 1, "b": 2}});
        assert_eq!(sent, json!({"runner_configuration": expected}));
    }

    #[test]
    fn another_type_begins_with_an_empty_part() {
        let given =
            ["state_storage_configuration.type=gcs", "state_storage_configuration.bucket=c"];
        let sent = changed(Kind::Runner, &runner(), json!({}), &given);
        let expected = json!({"state_storage_configuration": {"type": "gcs", "bucket": "c"}});
        assert_eq!(sent, expected);
    }

    #[test]
    fn what_the_api_merges_itself_is_not_read() {
        let given = [Assignment::parse("deletion_protection.max_deletions=0").unwrap()];
        assert!(StoredParts::of(Kind::Environment, &given).is_empty());
        let given = [Assignment::parse("description=x").unwrap()];
        assert!(StoredParts::of(Kind::Runner, &given).is_empty());
    }
}
