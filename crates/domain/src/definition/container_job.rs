//! The inputs of the drivers `humanitec/container` and `humanitec/container-runner`, as a container job.

use super::{Driver, plain, secrets};
use crate::container::ContainerJob;
use crate::dns_label::is_dns_label;
use crate::field_error::FieldErrors;
use crate::runner::fields::Fields;
use crate::runner::shape::Shape;
use crate::yaml;
use serde_json::{Map, Value, json};

pub(super) const NAMESPACE: Shape = plain("a namespace of Kubernetes", 63, is_dns_label);
pub(super) const SERVICE_ACCOUNT: Shape =
    plain("a service account of Kubernetes", 253, |text| text.split('.').all(is_dns_label));

/// What the inputs say of the place where the job runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobPlacement {
    /// The namespace.
    pub namespace: Option<String>,
    /// The service account.
    pub service_account: Option<String>,
    /// Changes of the pod.
    pub pod_template: Option<Map<String, Value>>,
    /// The cluster, with its account.
    pub cluster: Option<Map<String, Value>>,
}

/// Where a field of [`ContainerJob`] is in the driver's inputs.
const PLACES: [(&str, &str); 11] = [
    ("image", "values.job.image"),
    ("command", "values.job.command"),
    ("args", "values.job.args"),
    ("shared_directory", "values.job.shared_directory"),
    ("variables", "values.job.variables"),
    ("secret_variables", "secret_refs.job.variables"),
    ("secret_files", "secret_refs.files"),
    ("source.password", "secret_refs.source.password"),
    ("source", "values.source"),
    ("files", "values.files"),
    ("append_logs_to_error", "values.append_logs_to_error"),
];

/// Reads the inputs, in which no placeholders are left. `inputs` are those of the resource. The faults have paths below
/// `driver_inputs`.
pub(super) fn read(
    driver: Driver,
    values: &Map<String, Value>,
    secret: &Map<String, Value>,
    inputs: Option<&Map<String, Value>>,
) -> (Option<(ContainerJob, JobPlacement)>, FieldErrors) {
    let mut faults = FieldErrors::default();
    let given = Value::Object(values.clone());
    let read = Fields::read(given, "values", &mut faults, |fields| read_values(driver, fields));
    let (mut job, placement) = read.unwrap_or_default();
    for (path, target) in
        [(&["job", "variables"][..], "secret_variables"), (&["files"], "secret_files")]
    {
        if let Some(found) = secrets::at(secret, path) {
            job.insert(target.to_owned(), exemplified(found));
        }
    }
    if secrets::at(secret, &["source", "ssh_key"]).is_some() {
        let reason =
            "is not supported: a container job fetches its source over https, with `password`";
        faults.add("secret_refs.source.ssh_key", reason);
    }
    if let Some(password) = secrets::at(secret, &["source", "password"])
        && let Some(Value::Object(source)) = job.get_mut("source")
    {
        source.insert("password".to_owned(), exemplified(password));
    }
    // A user name is of no use without a password, but published definitions have both.
    if let Some(Value::Object(source)) = job.get_mut("source")
        && !source.contains_key("password")
    {
        source.remove("username");
    }
    if let Some(inputs) = inputs {
        job.insert("inputs".to_owned(), Value::Object(inputs.clone()));
    }
    refuse_unknown_secrets(secret, &mut faults);
    match ContainerJob::parse(Value::Object(job)) {
        Ok(job) if faults.iter().next().is_none() => (Some((job, placement)), faults),
        Ok(_) => (None, faults),
        Err(of_job) => {
            for fault in &of_job {
                faults.add(place_of(&fault.path), fault.reason.clone());
            }
            (None, faults)
        }
    }
}

fn read_values(driver: Driver, fields: &mut Fields) -> (Map<String, Value>, JobPlacement) {
    let (mut job, mut placement) = fields.required_object("job", read_job);
    placement.cluster = fields.free_object("cluster");
    if driver == Driver::ContainerRunner && placement.cluster.is_some() {
        fields.fault(
            "cluster",
            "does not go with `humanitec/container-runner`: the resource `config#container-runner` says where its jobs run",
        );
    }
    if fields.take("credentials_config").is_some() {
        let reason = "is not supported: a job has an identity at clouds of its own, without stored keys; remove it";
        fields.fault("credentials_config", reason);
    }
    if fields.take("debug_mode").is_some_and(|given| given != json!(false)) {
        fields.fault("debug_mode", "is not supported: remove it");
    }
    for name in ["files", "source", "append_logs_to_error"] {
        if let Some(value) = fields.take(name) {
            job.insert(name.to_owned(), value);
        }
    }
    (job, placement)
}

fn read_job(fields: &mut Fields) -> (Map<String, Value>, JobPlacement) {
    let placement = JobPlacement {
        namespace: fields.text("namespace", &NAMESPACE),
        service_account: fields.text("service_account", &SERVICE_ACCOUNT),
        pod_template: pod_template(fields),
        cluster: None,
    };
    let names = ["image", "command", "args", "shared_directory", "variables"];
    let job = names.into_iter().filter_map(|name| Some((name.to_owned(), fields.take(name)?)));
    (job.collect(), placement)
}

/// The pod template: a text of YAML, or an object.
pub(super) fn pod_template(fields: &mut Fields) -> Option<Map<String, Value>> {
    let name = "pod_template";
    let given = match fields.take(name)? {
        Value::String(text) => match yaml::parse::<Value>(&text, "pod_template") {
            Ok(read) => read,
            Err(error) => {
                fields.fault(name, format!("is not the YAML of a pod template: {error}"));
                return None;
            }
        },
        other => other,
    };
    match given {
        Value::Object(template) => Some(template),
        Value::Null => None,
        _ => {
            fields.fault(name, "is not the YAML of a pod template: it must be an object");
            None
        }
    }
}

/// The tree with an example in place of each sealed value, which only a check of the definition finds.
pub(super) fn exemplified(tree: &Value) -> Value {
    let Value::Object(members) = tree else { return tree.clone() };
    if members.contains_key("sealed") {
        return json!({ "value": "sealed-value" });
    }
    Value::Object(members.iter().map(|(name, one)| (name.clone(), exemplified(one))).collect())
}

fn refuse_unknown_secrets(secret: &Map<String, Value>, faults: &mut FieldErrors) {
    let known = |path: &str| {
        path.starts_with("job.variables.")
            || path.starts_with("files.")
            || matches!(path, "source.password" | "source.ssh_key")
    };
    secrets::each_leaf(&mut secret.clone(), "", &mut |path, _| {
        if !known(path) {
            let shown: String = path.chars().take(80).collect();
            let reason = "is not known; there are `job.variables`, `files` and `source.password`";
            faults.add(format!("secret_refs.{shown}"), reason);
        }
    });
}

fn place_of(path: &str) -> String {
    let found = PLACES.iter().find_map(|(field, place)| {
        let rest = path.strip_prefix(field)?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then(|| format!("{place}{rest}"))
    });
    found.unwrap_or_else(|| path.to_owned())
}
