//! A runner's state storage as the backend of OpenTofu and Terraform.
//!
//! The state's name contains the environment's uuid, which is never reused, so a second environment with the
//! same name does not find the resources of the first.

use crate::{ids::EnvUuid, state_storage::StateStorage};
use serde_json::{Map, Value, json};

/// The content of `backend.tf.json` for a job that works on `environment`.
///
/// It contains no credentials: the backends take them from the job's identity or from environment variables.
pub fn backend_file(storage: &StateStorage, environment: EnvUuid) -> Value {
    let mut settings = match storage {
        StateStorage::Kubernetes { namespace } => json!({
            "secret_suffix": secret_suffix(environment),
            "namespace": namespace,
            "in_cluster_config": true,
        }),
        // The lock is an object beside the state: no table to create or to pay for.
        StateStorage::S3 { bucket, path_prefix } => json!({
            "bucket": bucket,
            "key": state_key(path_prefix.as_deref(), environment),
            "use_lockfile": true,
        }),
        StateStorage::Gcs { bucket, path_prefix } => json!({
            "bucket": bucket,
            "prefix": gcs_prefix(path_prefix.as_deref(), environment),
        }),
        StateStorage::Azurerm {
            resource_group_name,
            storage_account_name,
            container_name,
            path_prefix,
        } => json!({
            "resource_group_name": resource_group_name,
            "storage_account_name": storage_account_name,
            "container_name": container_name,
            "key": state_key(path_prefix.as_deref(), environment),
        }),
        StateStorage::Local { path } => json!({ "path": local_path(path, environment) }),
    };
    if let Some(settings) = settings.as_object_mut() {
        settings.retain(|_, value| !value.is_null());
        settings.values_mut().for_each(make_literal);
    }
    let backend = Map::from_iter([(storage.storage_type().to_string(), settings)]);
    json!({ "terraform": { "backend": backend } })
}

/// Escapes templates: OpenTofu would evaluate them with the variables of the run, so variables could change
/// the location of the state.
fn make_literal(value: &mut Value) {
    if let Value::String(text) = value {
        *text = text.replace("${", "$${").replace("%{", "%%{");
    }
}

/// The location of the state of `environment`, for users.
pub fn state_location(storage: &StateStorage, environment: EnvUuid) -> String {
    match storage {
        StateStorage::Kubernetes { namespace } => {
            format!("secret {namespace}/tfstate-default-{}", secret_suffix(environment))
        }
        StateStorage::S3 { bucket, path_prefix } => {
            format!("s3://{bucket}/{}", state_key(path_prefix.as_deref(), environment))
        }
        StateStorage::Gcs { bucket, path_prefix } => {
            let prefix = gcs_prefix(path_prefix.as_deref(), environment);
            format!("gs://{bucket}/{prefix}/default.tfstate")
        }
        StateStorage::Azurerm { storage_account_name, container_name, path_prefix, .. } => {
            let key = state_key(path_prefix.as_deref(), environment);
            format!("blob {storage_account_name}/{container_name}/{key}")
        }
        StateStorage::Local { path } => local_path(path, environment),
    }
}

/// `(<path_prefix>/)<uuid>.tfstate`.
fn state_key(path_prefix: Option<&str>, environment: EnvUuid) -> String {
    format!("{}.tfstate", under(path_prefix, environment))
}

/// `(<path_prefix>/)<uuid>`; the backend puts the state at `<prefix>/<workspace>.tfstate`.
///
/// The object could be `<path_prefix>/<uuid>.tfstate` only if the uuid were the workspace, but then modules
/// would see it as `terraform.workspace`, where they expect `default`.
fn gcs_prefix(path_prefix: Option<&str>, environment: EnvUuid) -> String {
    under(path_prefix, environment)
}

fn under(path_prefix: Option<&str>, environment: EnvUuid) -> String {
    match path_prefix.map(|prefix| prefix.trim_end_matches('/')) {
        None | Some("") => environment.to_string(),
        Some(prefix) => format!("{prefix}/{environment}"),
    }
}

fn local_path(directory: &str, environment: EnvUuid) -> String {
    format!("{}/{environment}.tfstate", directory.trim_end_matches('/'))
}

/// The uuid, followed by `-s` if its last group has only digits, as in one of 280. The backend refuses a
/// suffix that ends with `-<number>`: it numbers the secrets of a large state that way.
fn secret_suffix(environment: EnvUuid) -> String {
    let uuid = environment.to_string();
    let numeric =
        uuid.rsplit('-').next().is_some_and(|end| end.bytes().all(|b| b.is_ascii_digit()));
    if numeric { format!("{uuid}-s") } else { uuid }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field_error::FieldErrors;

    fn storage(value: Value) -> StateStorage {
        let mut errors = FieldErrors::default();
        let storage = StateStorage::read(value, "", &mut errors);
        errors.into_result(storage.unwrap()).unwrap()
    }

    #[test]
    fn no_setting_is_a_template_that_opentofu_would_evaluate() {
        let path = "/a/${var.x}/%{ if true }".to_owned();
        let file =
            backend_file(&StateStorage::Local { path }, EnvUuid(uuid::Uuid::nil())).to_string();
        assert!(file.contains("/a/$${var.x}/%%{ if true }/"), "{file}");
    }

    #[test]
    fn each_storage_becomes_the_backend_with_its_name() {
        let environment: EnvUuid = "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000".parse().unwrap();
        let storages = [
            json!({"type": "kubernetes", "namespace": "states"}),
            json!({"type": "s3", "bucket": "states", "path_prefix": "a/b/"}),
            json!({"type": "s3", "bucket": "states"}),
            json!({"type": "gcs", "bucket": "states", "path_prefix": "a"}),
            json!({"type": "azurerm", "resource_group_name": "rg", "storage_account_name": "account",
                "container_name": "states", "path_prefix": "a"}),
            json!({"type": "azurerm", "storage_account_name": "account", "container_name": "states"}),
            json!({"type": "local", "path": "/var/lib/states/"}),
        ];
        let shown = storages.map(|value| {
            let storage = storage(value);
            let file = backend_file(&storage, environment);
            format!("{}\n  {}", state_location(&storage, environment), file["terraform"]["backend"])
        });
        insta::assert_snapshot!(shown.join("\n"), @r#"
        secret states/tfstate-default-0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000
          {"kubernetes":{"in_cluster_config":true,"namespace":"states","secret_suffix":"0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000"}}
        s3://states/a/b/0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000.tfstate
          {"s3":{"bucket":"states","key":"a/b/0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000.tfstate","use_lockfile":true}}
        s3://states/0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000.tfstate
          {"s3":{"bucket":"states","key":"0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000.tfstate","use_lockfile":true}}
        gs://states/a/0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000/default.tfstate
          {"gcs":{"bucket":"states","prefix":"a/0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000"}}
        blob account/states/a/0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000.tfstate
          {"azurerm":{"container_name":"states","key":"a/0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000.tfstate","resource_group_name":"rg","storage_account_name":"account"}}
        blob account/states/0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000.tfstate
          {"azurerm":{"container_name":"states","key":"0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000.tfstate","storage_account_name":"account"}}
        /var/lib/states/0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000.tfstate
          {"local":{"path":"/var/lib/states/0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000.tfstate"}}
        "#);
    }

    #[test]
    fn a_secret_suffix_never_ends_in_a_number_of_its_own() {
        let numeric: EnvUuid = "550e8400-e29b-41d4-a716-446655440000".parse().unwrap();
        assert_eq!(secret_suffix(numeric), "550e8400-e29b-41d4-a716-446655440000-s");
        let plain: EnvUuid = "550e8400-e29b-41d4-a716-44665544000a".parse().unwrap();
        assert_eq!(secret_suffix(plain), plain.to_string());
    }
}
