//! The inputs of a driver: reads them, and checks what can be known before a resource is deployed.

use super::placeholder::{self, Part, PlaceholderError};
use super::{Definition, Driver, container_job, module_job, secrets, template};
use crate::field_error::FieldErrors;
use crate::ids::RunnerId;
use crate::runner::fields::Fields;
use serde_json::{Map, Value};
use std::convert::Infallible;

/// Reads `driver_inputs`: the values, and the secrets.
pub(super) fn read(fields: &mut Fields) -> (Map<String, Value>, Map<String, Value>) {
    let values = fields.free_object("values").unwrap_or_default();
    let texts = fields.free_object("secrets");
    let references = fields.free_object("secret_refs");
    if texts.is_some() && references.is_some() {
        fields.fault("secrets", "excludes `secret_refs`: give one of them");
    }
    (values, references.or_else(|| texts.map(secrets::from_texts)).unwrap_or_default())
}

/// The faults of the inputs of `definition`, by their paths below `driver_inputs`.
pub(super) fn check(definition: &Definition) -> FieldErrors {
    let mut faults = FieldErrors::default();
    let mut values = definition.values.clone();
    let mut note = |path: &str, value: &mut Value| -> Result<(), Infallible> {
        let text = value.as_str().unwrap_or_default();
        match placeholder::parse(text) {
            Ok(parts) => *value = exemplified(path, &parts),
            Err(error) => faults.add(format!("values.{path}"), reason(&error)),
        }
        Ok(())
    };
    let Ok(()) = placeholder::each_text_of(&mut values, "", &mut note);
    faults.add_under("", secrets::check(&definition.secrets, "secret_refs"));
    if faults.iter().next().is_some() {
        return faults;
    }
    match definition.driver {
        Driver::OpentofuRunner | Driver::TerraformRunner => {
            let (_, others) = module_job::read(&values, &definition.secrets, None);
            faults.add_under("", others);
        }
        Driver::Container | Driver::ContainerRunner => {
            let (_, others) =
                container_job::read(definition.driver, &values, &definition.secrets, None);
            faults.add_under("", others);
        }
        Driver::Template => faults.add_under("values", template::check(&definition.values)),
        Driver::Agent => {
            let id = values.get("id").and_then(Value::as_str);
            match id.map(str::parse::<RunnerId>) {
                Some(Ok(_)) if values.len() == 1 => {}
                Some(Err(error)) => faults.add("values.id", error.to_string()),
                Some(Ok(_)) | None => {
                    faults.add(
                        "values",
                        "needs `id`, and nothing else: the runner whose agent launches the jobs",
                    );
                }
            }
        }
        Driver::Echo | Driver::Static => {}
    }
    faults
}

fn reason(error: &PlaceholderError) -> String {
    error.to_string()
}

/// The text at `path` with an example in place of each placeholder.
fn exemplified(path: &str, parts: &[Part]) -> Value {
    if let [Part::Context(_) | Part::Output(_)] = parts {
        match path {
            "source.url" => return "https://git.example.com/x.git".into(),
            "job.pod_template" | "runner.pod_template" => return Value::Null,
            _ => {}
        }
    }
    let texts = parts.iter().map(|part| match part {
        Part::Text(text) => text.as_str(),
        Part::Context(_) | Part::Output(_) => "x",
    });
    Value::String(texts.collect())
}
