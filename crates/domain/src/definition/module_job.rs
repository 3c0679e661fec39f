//! The inputs of the drivers `humanitec/opentofu-container-runner` and `humanitec/terraform-container-runner`: a module, with its
//! variables and files.

use super::container_job::{JobPlacement, NAMESPACE, SERVICE_ACCOUNT, exemplified, pod_template};
use super::secrets;
use crate::container::relative_path;
use crate::field_error::FieldErrors;
use crate::job::{MAX_SOURCE_CODE, Module, NO_VARIABLE_NAME, is_variable_name};
use crate::json::Json;
use crate::module_source::ModuleSource;
use crate::runner::fields::Fields;
use crate::runner::shape::Shape;
use crate::secret_reference::SecretReference;
use crate::variables::secret_json::SecretJson;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const TEXT: Shape =
    Shape { rule: "text", max: 1024, fits: |text| !text.is_empty(), published: None, format: None };

const PARAMETER: &str = "is set by the definition, so no parameter of the resource may set it";

/// A module that a definition describes.
#[derive(Clone, Debug)]
pub struct DefinedModule {
    /// The module with the values of its variables.
    pub module: Module,
    /// Texts in its folder, by path.
    pub files: BTreeMap<String, String>,
    /// The values of its secret variables.
    pub secret_values: BTreeMap<String, SecretJson>,
    /// The variables whose values the job reads in a secret store.
    pub references: BTreeMap<String, SecretReference>,
}

/// Reads the inputs, in which no placeholders are left. `params` are those of the resource, for variables that the definition does
/// not set: its author decides which ones a deployer may choose. The faults have paths below `driver_inputs`.
pub(super) fn read(
    values: &Map<String, Value>,
    secret: &Map<String, Value>,
    params: Option<&Map<String, Value>>,
) -> (Option<(DefinedModule, JobPlacement)>, FieldErrors) {
    let mut faults = FieldErrors::default();
    let given = Value::Object(values.clone());
    let read = Fields::read(given, "values", &mut faults, |fields| read_values(fields, params));
    let Some((Some(mut module), placement)) = read else { return (None, faults) };
    read_secrets(secret, &mut module, &mut faults);
    let is_faultless = faults.iter().next().is_none();
    (is_faultless.then_some((module, placement)), faults)
}

fn read_values(
    fields: &mut Fields,
    params: Option<&Map<String, Value>>,
) -> (Option<DefinedModule>, JobPlacement) {
    let placement = fields.object("runner", read_runner).unwrap_or_default();
    // The state is always where the runner keeps states, and a failure always has OpenTofu's errors.
    for name in ["use_default_backend", "append_logs_to_error"] {
        fields.flag(name);
    }
    for (name, reason) in [
        (
            "credentials_config",
            "is not supported: a job has an identity at clouds of its own, without stored keys; remove it",
        ),
        (
            "cluster",
            "does not go with this driver: the resource `config#…` of its name says where its jobs run",
        ),
    ] {
        if fields.take(name).is_some() {
            fields.fault(name, reason);
        }
    }
    let source = fields.object("source", read_source).flatten();
    let given = fields.free_object("files").unwrap_or_default();
    let files: BTreeMap<_, _> =
        given.iter().filter_map(|(path, value)| file(path, value, fields)).collect();
    let length: usize = files.values().map(String::len).sum();
    if length > MAX_SOURCE_CODE {
        fields.fault("files", format!("have {length} bytes; {MAX_SOURCE_CODE} are allowed"));
    }
    let mut variables = fields.free_object("variables").unwrap_or_default();
    for (name, value) in params.into_iter().flatten() {
        if variables.contains_key(name) {
            fields.fault(&format!("variables.{name}"), PARAMETER);
        } else {
            variables.insert(name.clone(), value.clone());
        }
    }
    let mut inputs = BTreeMap::new();
    for (name, value) in variables {
        if !is_variable_name(&name) {
            let shown: String = name.chars().take(60).collect();
            fields.fault(&format!("variables[{shown:?}]"), NO_VARIABLE_NAME);
        } else if let Ok(value) = Json::parse(&value.to_string()) {
            inputs.insert(name, value);
        }
    }
    if source.is_none() && given.is_empty() && !fields.is_faulty("source") {
        fields.fault("source", "or `files` is required: the module");
    }
    let (source, source_code) = match source {
        Some(source) => (source, None),
        None => (ModuleSource::Inline, Some(String::new())),
    };
    let module = Module { source, source_code, inputs };
    if let Err(fault) = module.check() {
        fields.fault(&fault.field.replacen("inputs", "variables", 1), fault.reason);
        return (None, placement);
    }
    let (secret_values, references) = (BTreeMap::new(), BTreeMap::new());
    (Some(DefinedModule { module, files, secret_values, references }), placement)
}

/// `runner`: what is different about the pod of the job.
fn read_runner(fields: &mut Fields) -> JobPlacement {
    if fields.take("image").is_some() {
        let reason =
            "is not supported: modules run in the image of the runner; set `job.image` there";
        fields.fault("image", reason);
    }
    JobPlacement {
        namespace: fields.text("namespace", &NAMESPACE),
        service_account: fields.text("service_account", &SERVICE_ACCOUNT),
        pod_template: pod_template(fields),
        cluster: None,
    }
}

/// The repository, as modules name one.
fn read_source(fields: &mut Fields) -> Option<ModuleSource> {
    let url = fields.required_text("url", &TEXT);
    let (reference, path) = (fields.text("ref", &TEXT), fields.text("path", &TEXT));
    // It goes with a password, which the kept git credentials have.
    fields.text("username", &TEXT);
    if url.is_empty() {
        return None;
    }
    let path = path.map(|path| path.trim_matches('/').to_owned()).filter(|path| !path.is_empty());
    let path = path.map(|path| format!("//{path}")).unwrap_or_default();
    let reference = reference.map(|name| format!("?ref={name}")).unwrap_or_default();
    let source = format!("git::{url}{path}{reference}").parse();
    source.map_err(|error| fields.fault("url", format!("is refused: {error}"))).ok()
}

fn file(path: &str, value: &Value, fields: &mut Fields) -> Option<(String, String)> {
    let shown: String = path.chars().take(80).collect();
    let field = format!("files[{shown:?}]");
    let text = match value {
        Value::String(text) => Some(text),
        Value::Object(members) if members.len() == 1 => match members.get("content") {
            Some(Value::String(text)) => Some(text),
            _ => None,
        },
        _ => None,
    };
    let path = relative_path(path);
    match (path, text) {
        (Some(path), Some(text)) => return Some((path, text.clone())),
        (None, _) => fields.fault(&field, "must lie in the folder of the module"),
        (_, None) => fields.fault(&field, "must be text"),
    }
    None
}

fn read_secrets(secret: &Map<String, Value>, module: &mut DefinedModule, faults: &mut FieldErrors) {
    for (path, reason) in [
        (["source", "password"], "is not supported with a module"),
        (["source", "ssh_key"], "is not supported with a module"),
    ] {
        if secrets::at(secret, &path).is_some() {
            let reason =
                format!("{reason}: keep it as a git credential, with `canyon set git-credential`");
            faults.add(format!("secret_refs.{}", path.join(".")), reason);
        }
    }
    secrets::each_leaf(&mut secret.clone(), "", &mut |path, leaf| {
        let field = format!("secret_refs.{}", path.chars().take(80).collect::<String>());
        let Some(name) = path.strip_prefix("variables.").filter(|name| is_variable_name(name))
        else {
            if !path.starts_with("source.") {
                faults.add(field, "is not known; there is `variables`");
            }
            return;
        };
        let value = exemplified(&Value::Object(leaf.clone()));
        if let Some(text) = value.get("value").and_then(Value::as_str) {
            module.secret_values.insert(name.to_owned(), Json::String(text.to_owned()).into());
        } else if let Ok(reference) = serde_json::from_value(value) {
            module.references.insert(name.to_owned(), reference);
        } else {
            faults.add(
                field,
                "needs the id of a secret store as `store`, and texts as `ref` and `version`",
            );
        }
        if module.module.inputs.remove(name).is_some() {
            let reason = "is set by `variables`, or by a parameter of the resource, too";
            faults.add(format!("secret_refs.variables.{name}"), reason);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read_from(values: &Value, secret: &Value) -> Result<DefinedModule, String> {
        let object = |value: &Value| value.as_object().unwrap().clone();
        let params = object(&json!({ "size": 2 }));
        let (read, faults) = read(&object(values), &object(secret), Some(&params));
        let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
        read.map(|(module, _)| module).ok_or_else(|| faults.join("\n"))
    }

    #[test]
    fn a_module_has_its_repository_its_files_and_its_variables() {
        let values = json!({
            "source": { "url": "https://git.example.com/a.git", "ref": "main", "path": "/modules/s3", "username": "bot" },
            "files": { "a/../terraform.tfvars.json": "{}", "b.tf": { "content": "" } },
            "variables": { "names": ["a"] },
            "runner": { "namespace": "jobs", "pod_template": "spec: {}\n" }, "use_default_backend": true,
        });
        let secret = json!({ "variables": {
            "password": { "store": "team", "ref": "shop/db#password" }, "token": { "value": "hunter2" },
        } });
        let read = read_from(&values, &secret).unwrap();
        assert_eq!(
            read.module.source.to_string(),
            "git::https://git.example.com/a.git//modules/s3?ref=main"
        );
        let inputs: Vec<_> =
            read.module.inputs.iter().map(|(name, value)| format!("{name} {value}")).collect();
        assert_eq!(inputs, ["names [\"a\"]", "size 2"], "and the parameters of the resource");
        assert_eq!(read.files.into_keys().collect::<Vec<_>>(), ["b.tf", "terraform.tfvars.json"]);
        assert_eq!(read.references["password"].to_string(), "team: shop/db#password");
        assert_eq!(read.secret_values.into_keys().collect::<Vec<_>>(), ["token"]);
    }

    #[test]
    fn every_fault_of_a_module_is_named_by_its_path() {
        let values = json!({
            "files": { "../x": "", "/etc/x": "", "y": 1 }, "variables": { "no name": 1 }, "credentials_config": {},
            "cluster": {}, "runner": { "image": "a" }, "job": {},
        });
        let secret = json!({
            "source": { "password": { "value": "x" } }, "job": { "variables": { "A": { "value": "x" } } },
        });
        insta::assert_snapshot!(read_from(&values, &secret).unwrap_err());
        let values = json!({ "files": { "a.tf": "" }, "variables": { "size": 1 } });
        let set = read_from(&values, &json!({})).unwrap_err();
        assert!(set.starts_with("`values.variables.size` is set by the definition"), "{set}");
        let values = json!({ "files": { "a.tf": "" } });
        let secret = json!({ "variables": { "size": { "value": "hunter2" } } });
        let secret = read_from(&values, &secret).unwrap_err();
        assert!(secret.starts_with("`secret_refs.variables.size` is set by"), "{secret}");
        let nothing = read_from(&json!({}), &json!({})).unwrap_err();
        assert_eq!(nothing, "`values.source` or `files` is required: the module");
    }
}
