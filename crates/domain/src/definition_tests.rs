#![expect(clippy::needless_pass_by_value, reason = "literals read better without `&`")]

use super::criterion::MatchTarget;
use super::matching::{ChooseError, choose, consider, rival};
use super::resolution::{Known, ResolveError, Resolved, ResourceOutputs, resolve};
use super::*;
use crate::ids::{EnvId, EnvTypeId, EnvUuid, OrgId, ProjectId};
use crate::resource_name::ResourceName;
use crate::yaml;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use uuid::Uuid;

struct World {
    org: OrgId,
    project: ProjectId,
    env: EnvId,
    env_type: EnvTypeId,
    definitions: Vec<Definition>,
    outputs: BTreeMap<ResourceName, ResourceOutputs>,
}

impl World {
    fn new(definitions: impl IntoIterator<Item = Value>) -> Self {
        Self {
            org: "acme".parse().unwrap(),
            project: "shop".parse().unwrap(),
            env: "dev".parse().unwrap(),
            env_type: "development".parse().unwrap(),
            definitions: definitions
                .into_iter()
                .map(|one| Definition::parse(one).unwrap())
                .collect(),
            outputs: BTreeMap::new(),
        }
    }

    fn target(&self) -> MatchTarget<'_> {
        MatchTarget { env_type: &self.env_type, project: &self.project, env: &self.env }
    }

    fn resolve(&self, name: &str) -> Result<Resolved, ResolveError> {
        let known = Known {
            definitions: &self.definitions,
            org: &self.org,
            target: self.target(),
            environment: EnvUuid(Uuid::nil()),
            outputs: &self.outputs,
        };
        resolve(&name.parse().unwrap(), &Map::new(), known)
    }

    fn chosen(&self, name: &str) -> Result<String, ChooseError> {
        choose(&self.definitions, &name.parse().unwrap(), self.target())
            .map(|chosen| chosen.id.to_string())
    }
}

fn definition(id: &str, resource_type: &str, driver: &str, more: Value) -> Value {
    let mut given = json!({
        "id": id, "name": id, "type": resource_type, "driver_type": format!("humanitec/{driver}"),
        "criteria": [{}],
    });
    given.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    given
}

fn echo(id: &str, resource_type: &str, values: Value) -> Value {
    definition(id, resource_type, "echo", json!({ "driver_inputs": { "values": values } }))
}

fn container(values: Value) -> Value {
    let mut job = json!({ "job": { "image": "acme/bucket:1", "command": ["/x"] } });
    for (name, value) in values.as_object().unwrap() {
        job[name] = value.clone();
    }
    definition("s3-bucket", "s3", "container", json!({ "driver_inputs": { "values": job } }))
}

fn faults(of: Value) -> String {
    let faults = Definition::parse(of).unwrap_err();
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

const CONFIG: &str = r#"
id: config-tf-runner
name: Config For Container Driver Runner
type: config
criteria:
- env_type: development
  res_id: container-runner
driver_type: humanitec/template
driver_inputs:
  values:
    templates:
      outputs: "skip_permission_checks: false\ncluster:\n  account: myOrg/myAccount\n  cluster:\n    loadbalancer: 10.10.10.10\n    name: my-cluster\n    project_id: my-gcp-project\n    zone: cluster-zone\n    cluster_type: gke\n"
      secrets:
        agent_url: "{{ .driver.secrets.agent_url }}"
  secrets:
    agent_url: ${resources.agent.outputs.url}
"#;
const BUCKET: &str = r#"
id: my-s3-bucket
name: S3 Bucket
type: s3
driver_type: humanitec/container-runner
driver_inputs:
  values:
    job:
      image: ghcr.io/my-org/my-image:1.1.0
      command: ["/opt/container"]
      shared_directory: /srv/runner/workspace
      service_account: humanitec-runner-job
      namespace: humanitec-runner
      pod_template: |
        spec:
          imagePullSecrets:
            - name: ghcr-private-registry
    source:
      ref: refs/heads/main
      url: https://my-domain.com/my-org/my-repo.git
      username: my-git-handler
    files:
      /srv/runner/workspace/s3/terraform.tfvars.json: |
        {"bucket": "${context.app.id}-${context.env.id}"}
  secret_refs:
    source:
      password:
        store: my-store
        ref: path/to/git/password
criteria:
- env_type: development
"#;

fn read(text: &str) -> Value {
    yaml::parse(text, "definition").unwrap()
}

#[test]
fn the_published_definitions_become_a_container_job_in_their_cluster() {
    let agent = echo("no-agent", "agent", json!({ "url": "" }));
    let world = World::new([read(CONFIG), read(BUCKET), agent]);
    let Resolved { definition, job, placement, checks } = world.resolve("s3#photos").unwrap();
    assert_eq!(definition.as_str(), "my-s3-bucket");
    let job = job.container();
    assert_eq!(job.image, "ghcr.io/my-org/my-image:1.1.0");
    let file = &job.files()["s3/terraform.tfvars.json"].content;
    assert_eq!(file, b"{\"bucket\": \"shop-dev\"}\n");
    let references: Vec<_> = job.secret_references().collect();
    assert_eq!(references[0].0, "source.password");
    assert_eq!(references[0].1.to_string(), "my-store: path/to/git/password");
    assert_eq!(job.source.unwrap().username(), "my-git-handler");
    let cluster = placement.cluster.unwrap();
    assert_eq!(cluster["account"], "myOrg/myAccount");
    assert_eq!(cluster["cluster"]["name"], "my-cluster");
    assert_eq!(placement.job.namespace.as_deref(), Some("humanitec-runner"));
    assert_eq!(
        placement.job.pod_template.unwrap()["spec"]["imagePullSecrets"][0]["name"],
        "ghcr-private-registry"
    );
    assert_eq!(placement.agent, None);
    assert!(checks, "it says `skip_permission_checks: false`");
}

#[test]
fn an_agent_resource_names_the_runner_whose_agent_launches_the_job() {
    let agent = definition(
        "inside",
        "agent",
        "agent",
        json!({ "driver_inputs": { "values": { "id": "private-eu" } } }),
    );
    let world = World::new([read(CONFIG), read(BUCKET), agent]);
    let placement = world.resolve("s3").unwrap().placement;
    assert_eq!(placement.agent.unwrap().as_str(), "private-eu");
}

#[test]
fn what_is_missing_is_named_with_what_to_do() {
    let world = World::new([read(BUCKET)]);
    let placement = world.resolve("s3#photos").unwrap().placement;
    assert_eq!((placement.cluster, placement.agent), (None, None), "no `config` is needed");
    let message = world.resolve("queue").unwrap_err().to_string();
    assert!(
        message.contains("`queue.default#main`") && message.contains("canyon create -f FILE"),
        "{message}"
    );
    let world = World::new([
        echo("dns", "dns", json!({ "host": "h" })),
        container(json!({ "files": { "a": "${resources.dns.outputs.port}" } })),
    ]);
    let message = world.resolve("s3").unwrap_err().to_string();
    assert_eq!(
        message,
        "resource definition `s3-bucket` refers to output `port` of `dns.default#main`, which has the outputs `host`"
    );
    let message = world.resolve("dns").unwrap_err().to_string();
    assert!(message.contains("its driver `humanitec/echo` runs nothing"), "{message}");
}

#[test]
fn the_outputs_of_container_jobs_are_asked_for_and_keep_their_types() {
    let mut world = World::new([
        definition(
            "postgres",
            "postgres",
            "container",
            json!({ "driver_inputs": { "values": { "job": { "image": "a/pg:1", "command": ["/x"] } } } }),
        ),
        container(
            json!({ "files": { "db": "${resources['postgres#main'].outputs.host}:${resources[\"postgres.default#main\"].outputs.port}" } }),
        ),
    ]);
    let postgres: ResourceName = "postgres".parse().unwrap();
    assert_eq!(world.resolve("s3#photos").unwrap_err(), ResolveError::Unread(postgres.clone()));
    let outputs = json!({ "host": "${context.env.id}", "port": 5432 });
    world.outputs.entry(postgres).or_default().open = outputs.as_object().unwrap().clone();
    let job = world.resolve("s3#photos").unwrap().job.container();
    assert_eq!(job.files.unwrap()["db"], "$\\{context.env.id}:5432");
}

#[test]
fn what_looks_like_a_placeholder_in_a_secret_is_none() {
    let mut world = World::new([container(json!({}))]);
    let secrets = json!({ "job": { "variables": { "TOKEN": { "opened": "hunter${22}" } } } });
    world.definitions[0].secrets = secrets.as_object().unwrap().clone();
    let job = world.resolve("s3").unwrap().job.container();
    let found: Vec<_> =
        job.secrets().map(|(_, secret)| secret.value().unwrap().to_owned()).collect();
    assert_eq!(found, ["hunter${22}"]);
}

#[test]
fn an_address_and_a_pod_template_may_be_outputs() {
    let source = json!({ "url": "${resources.repo.outputs.url}" });
    let repo = echo("repository", "repo", json!({ "url": "https://git.example.com/a.git" }));
    let mut bucket = container(json!({ "source": source }));
    bucket["driver_inputs"]["values"]["job"]["pod_template"] =
        json!("${resources.repo.outputs.pod}");
    assert_eq!(Definition::parse(bucket.clone()).map(|_| ()), Ok(()));
    bucket["driver_inputs"]["values"]["job"].as_object_mut().unwrap().remove("pod_template");
    let job = World::new([repo, bucket]).resolve("s3").unwrap().job.container();
    assert_eq!(job.source.unwrap().url, "https://git.example.com/a.git");
}

#[test]
fn a_circle_is_refused_with_its_path() {
    let world = World::new([
        echo("aa-1", "aa", json!({ "x": "${resources.bb.outputs.x}" })),
        echo("bb-1", "bb", json!({ "x": "${resources.aa.outputs.x}" })),
        container(json!({ "files": { "a": "${resources.aa.outputs.x}" } })),
    ]);
    let message = world.resolve("s3#photos").unwrap_err().to_string();
    assert_eq!(
        message,
        "resource definitions refer to each other in a circle: `s3.default#photos` → `aa.default#photos` → \
        `bb.default#photos` → `aa.default#photos`"
    );
}

#[test]
fn a_reference_takes_class_and_id_of_its_resource_and_the_context_is_filled_in() {
    let text = "${context.org.id} ${context.app.id} ${context.env.id} ${context.env.type} ${context.res.id} ${context.deploy.id} $\\{x} $5";
    let mut dns = echo("dns", "dns", json!({ "name": text, "list": ["${context.res.id}"] }));
    dns["criteria"] = json!([{ "class": "internal", "res_id": "photos" }]);
    let mut bucket = container(
        json!({ "files": { "a": "${resources.dns.outputs.name}" }, "append_logs_to_error": true }),
    );
    bucket["criteria"] = json!([{ "class": "internal" }]);
    bucket["driver_inputs"]["values"]["job"]["variables"] =
        json!({ "RES": "${context.res.guresid}" });
    bucket["driver_inputs"]["values"]["files"]["list"] =
        json!("${resources['dns.internal'].outputs.list}, of dns");
    let job = World::new([dns, bucket]).resolve("s3.internal#photos").unwrap().job.container();
    let files = job.files.unwrap();
    let expected = "acme shop dev development photos ${context.deployment.id} ${x} $5";
    assert_eq!(files["a"], expected);
    assert_eq!(files["list"], "[\"photos\"], of dns");
    assert_eq!(job.variables.unwrap()["RES"].len(), 32);
}

#[test]
fn every_fault_of_a_definition_is_named_by_its_path() {
    let given = json!({
        "id": "-x", "name": "", "type": "S3", "driver_type": "humanitec/helm", "provision": {"a": {}},
        "criteria": [{"env_type": "a"}, {"env_type": "a"}, {"app": "b"}], "color": 1,
    });
    insta::assert_snapshot!(faults(given));
    let given = definition(
        "s3-x",
        "s3",
        "container-runner",
        json!({ "driver_inputs": {
            "values": {
                "job": {"image": "A B", "command": [], "shared_directory": "relative", "namespace": "Not", "pod_template": "a: [", "user": 1},
                "files": {"../x": "y", "z": "${context.nope}", "open": "${context.env.id"},
                "cluster": {}, "credentials_config": {}, "source": {"url": "git@h:a.git"},
            },
        }}),
    );
    insta::assert_snapshot!(faults(given));
    let given = definition(
        "s3-x",
        "s3",
        "container-runner",
        json!({ "driver_inputs": {
            "values": {
                "job": {"image": "A B", "command": [], "shared_directory": "relative", "namespace": "Not", "pod_template": "a: [", "user": 1},
                "files": {"../x": "y"},
                "cluster": {}, "credentials_config": {}, "source": {"url": "git@h:a.git"},
            },
            "secret_refs": {"job": {"variables": {"ACTION": {"value": "hunter22"}}}, "source": {"ssh_key": {"value": "hunter22"}}, "other": {"store": "vault", "ref": "a"}},
        }}),
    );
    let text = faults(given);
    assert!(!text.contains("hunter22"), "{text}");
    insta::assert_snapshot!(text);
    let given = definition(
        "cfg",
        "config",
        "template",
        json!({ "driver_inputs": {
            "values": { "templates": { "outputs": "a: {{ .nope }}", "manifests": {}, "secrets": 1 } },
            "secrets": {"a": 1}, "secret_refs": {},
        }}),
    );
    insta::assert_snapshot!(faults(given));
}

#[test]
fn two_definitions_with_one_criterion_are_rivals() {
    let mut one = echo("one", "dns", json!({}));
    one["criteria"] = json!([{ "env_type": "a" }, { "class": "default", "res_id": "b" }]);
    let mut two = echo("two", "dns", json!({}));
    two["criteria"] = json!([{ "res_id": "b" }]);
    let (one, two) = (Definition::parse(one).unwrap(), Definition::parse(two).unwrap());
    let (id, criterion) = rival(&one, [&one, &two]).unwrap();
    assert_eq!((id.as_str(), criterion.to_string().as_str()), ("two", "res_id b"));
    let other = Definition { resource_type: "queue".to_owned(), ..two };
    assert!(rival(&one, [&other]).is_none());
}

#[test]
fn an_explanation_names_every_definition_of_the_type() {
    let with = |id: &str, criteria: Value| {
        let mut one = echo(id, "dns", json!({}));
        one["criteria"] = criteria;
        one
    };
    let world = World::new([
        with("by-type", json!([{ "env_type": "development" }])),
        with("by-resource", json!([{ "res_id": "web" }, { "app_id": "other" }])),
        with("elsewhere", json!([{ "app_id": "other" }, { "class": "internal" }])),
        with("nothing", json!([])),
        echo("queue", "queue", json!({})),
    ]);
    assert_eq!(world.chosen("dns#web").unwrap(), "by-resource");
    let name = "dns#web".parse().unwrap();
    let all = consider(&world.definitions, &name, world.target());
    let lines: Vec<_> = all
        .iter()
        .map(|one| format!("{} {}: {}", one.is_chosen, one.definition.id, one.reason))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

proptest! {
    #[test]
    fn the_most_specific_criterion_wins_in_any_order(
        masks in prop::collection::btree_set(0_u8..16, 1..8), rotation in 0_usize..8,
    ) {
        let criterion = |mask: u8| {
            let mut one = Map::new();
            for (bit, name, value) in [(8, "res_id", "web"), (4, "env_id", "dev"), (2, "app_id", "shop"), (1, "env_type", "development")] {
                if mask & bit != 0 {
                    one.insert(name.to_owned(), json!(value));
                }
            }
            one
        };
        let best = *masks.iter().max().unwrap();
        let mut all: Vec<_> = masks.into_iter().map(|mask| {
            let mut one = echo(&format!("mask-{mask}"), "dns", json!({}));
            one["criteria"] = json!([criterion(mask)]);
            one
        }).collect();
        let count = all.len();
        all.rotate_left(rotation % count);
        prop_assert_eq!(World::new(all).chosen("dns#web").unwrap(), format!("mask-{best}"));
    }

    #[test]
    fn no_text_causes_a_panic_and_plain_ones_stay(text in "[${}\\\\a-c.#'\\[\\]]{0,30}") {
        let parts = super::placeholder::parse(&text);
        if !text.contains('$') {
            prop_assert_eq!(parts, Ok(vec![super::placeholder::Part::Text(text)]));
        }
    }
}
