//! Secret stores of an organization: where jobs read secrets that Canyon does not keep.
//!
//! A job reads them itself, with its own identity, so a store decides per environment and phase what it gives. The
//! control plane never calls a store.

use crate::field_error::FieldErrors;
use crate::runner::configuration::type_of;
use crate::runner::fields::Fields;
use crate::runner::patterns::{
    DNS_LABEL, GCP_PROJECT, NAME, REGION, STORE_AUDIENCE, STORE_URL, VAULT_NAMESPACE, VAULT_PATH,
};
use crate::runner::tagged_object::tagged_object;
use crate::secret_reference::{SecretReference, SecretStoreId};
use jiff::Timestamp;
use serde_json::Value;

/// A store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretStore {
    /// Its name.
    pub id: SecretStoreId,
    /// Its purpose, for people.
    pub description: Option<String>,
    /// Where it is, and as whom a job reads.
    pub configuration: StoreConfiguration,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Increases with every write.
    pub version: u64,
}

tagged_object! {
    /// The types of secret stores.
    StoreType,
    /// `store_configuration`. It has no credentials: a job reads with its own identity.
    StoreConfiguration.store_type,
    /// AWS Secrets Manager.
    AwsSecretsManager = "aws-secrets-manager" {
        /// Region of the secrets.
        region: String = required_text(&REGION),
        /// Another address than that of the region, such as one of a VPC endpoint.
        endpoint: Option<String> = text(&STORE_URL),
    }
    /// Parameters of AWS Systems Manager.
    AwsSsm = "aws-ssm" {
        /// Region of the parameters.
        region: String = required_text(&REGION),
        /// Another address than that of the region, such as one of a VPC endpoint.
        endpoint: Option<String> = text(&STORE_URL),
    }
    /// Google Secret Manager.
    GcpSecretManager = "gcp-secret-manager" {
        /// Project of the secrets.
        project_id: String = required_text(&GCP_PROJECT.strict()),
        /// Another address than `https://secretmanager.googleapis.com`, such as a regional one.
        endpoint: Option<String> = text(&STORE_URL),
    }
    /// Azure Key Vault.
    AzureKeyVault = "azure-key-vault" {
        /// Address of the vault, such as `https://team.vault.azure.net`.
        url: String = required_text(&STORE_URL),
    }
    /// `HashiCorp` Vault or `OpenBao`, whose method `jwt` trusts Canyon's issuer of job tokens.
    Vault = "vault" {
        /// Address of the server.
        url: String = required_text(&STORE_URL),
        /// Role of the method `jwt`.
        role: String = required_text(&NAME),
        /// Path of the method. Default: `jwt`.
        auth_mount: Option<String> = text(&VAULT_PATH),
        /// Path of the secrets engine `kv`. Default: `secret`.
        mount: Option<String> = text(&VAULT_PATH),
        /// Version of the engine, `1` or `2`. Default: 2.
        kv_version: Option<u32> = number(1..=2),
        /// Namespace, of servers that have them.
        namespace: Option<String> = text(&VAULT_NAMESPACE),
        /// Audience of the job's token. Default: `url`.
        audience: Option<String> = text(&STORE_AUDIENCE),
    }
    /// Secrets of the Kubernetes cluster that the job runs in.
    KubernetesSecret = "kubernetes-secret" {
        /// Namespace of the secrets. Default: that of the job.
        namespace: Option<String> = text(&DNS_LABEL.strict()),
    }
}

impl StoreConfiguration {
    /// Parses `store_configuration`. Notes every fault.
    pub fn read(value: Value, errors: &mut FieldErrors) -> Option<Self> {
        const PATH: &str = "store_configuration";
        let store_type: StoreType = type_of(&value, PATH, errors)?;
        Fields::read(value, PATH, errors, |fields| {
            fields.take("type");
            let read = Self::read_as(store_type, fields);
            if let Self::Vault { url, audience: None, .. } = &read
                && !url.is_empty()
                && !STORE_AUDIENCE.holds(url)
            {
                fields.fault(
                    "audience",
                    "is required: a cloud may accept this `url`, the default, as its own audience",
                );
            }
            read
        })
    }

    /// The audience of the token with which a job signs in, if it does so with Canyon's token.
    pub fn audience(&self) -> Option<&str> {
        match self {
            Self::Vault { url, audience, .. } => Some(audience.as_deref().unwrap_or(url)),
            Self::AwsSecretsManager { .. }
            | Self::AwsSsm { .. }
            | Self::GcpSecretManager { .. }
            | Self::AzureKeyVault { .. }
            | Self::KubernetesSecret { .. } => None,
        }
    }

    /// Why `reference` can name no secret of this store: the fields below the reference, and the reasons.
    pub fn faults_of(&self, reference: &SecretReference) -> Vec<(&'static str, String)> {
        let general = reference.faults();
        if !general.is_empty() {
            return general;
        }
        let (name, _) = reference.parts();
        let is_of =
            |extra: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c));
        let has_dots = name.split('/').any(|part| part == "." || part == ".." || part.is_empty());
        let (fits, rule) = match self {
            Self::AwsSecretsManager { .. } => {
                (is_of("/_+=.@-:"), "the name or the ARN of a secret")
            }
            Self::AwsSsm { .. } => (is_of("/_.-:"), "the name or the ARN of a parameter"),
            Self::GcpSecretManager { .. } => {
                (is_of("_-"), "the name of a secret: letters, digits, `-` and `_`")
            }
            Self::AzureKeyVault { .. } => {
                (is_of("-"), "the name of a secret: letters, digits and `-`")
            }
            Self::Vault { .. } => (
                !has_dots && !name.contains(['?', '#', '%']),
                "the path of a secret below the mount, without empty parts, `.` or `..`",
            ),
            Self::KubernetesSecret { .. } => {
                (is_of(".-") && !has_dots, "the name of a Secret, before `#` and the key")
            }
        };
        let mut faults = Vec::new();
        if !fits {
            faults.push(("ref", format!("must be {rule}")));
        }
        let fault = reference.version.as_deref().and_then(|version| self.fault_of_version(version));
        faults.extend(fault.map(|reason| ("version", reason.to_owned())));
        faults
    }

    /// Why the store has no such version of a secret.
    fn fault_of_version(&self, version: &str) -> Option<&'static str> {
        match self {
            Self::KubernetesSecret { .. } => Some("is not possible: a Secret has no versions"),
            Self::Vault { kv_version: Some(1), .. } => {
                Some("is not possible: version 1 of the secrets engine keeps none")
            }
            Self::Vault { .. } => {
                let is_number = version.bytes().all(|b| b.is_ascii_digit());
                (!is_number).then_some("must be a number")
            }
            Self::AwsSecretsManager { .. }
            | Self::AwsSsm { .. }
            | Self::GcpSecretManager { .. }
            | Self::AzureKeyVault { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn faults(value: Value) -> String {
        let mut faults = FieldErrors::default();
        StoreConfiguration::read(value, &mut faults);
        faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    fn store(value: Value) -> StoreConfiguration {
        let mut faults = FieldErrors::default();
        let read = StoreConfiguration::read(value, &mut faults);
        faults.into_result(read).unwrap().unwrap()
    }

    #[test]
    fn one_answer_names_every_fault_of_a_store() {
        let given = [
            json!("vault"),
            json!({ "type": "keychain" }),
            json!({ "type": "aws-ssm", "region": "x", "url": "https://h" }),
            json!({ "type": "vault", "url": "http://vault.example.com", "kv_version": 3, "mount": "a/../b" }),
            json!({ "type": "vault", "url": "https://u:p@h", "role": "r", "audience": "sts.amazonaws.com" }),
            json!({ "type": "vault", "url": "https://iam.googleapis.com/projects/1", "role": "r" }),
            json!({ "type": "azure-key-vault", "url": "http://127.0.0.1.example.com" }),
        ];
        insta::assert_snapshot!(given.map(faults).join("\n"), @r"
        `store_configuration` must be an object with a `type`
        `store_configuration.type` must be one of `aws-secrets-manager`, `aws-ssm`, `gcp-secret-manager`, `azure-key-vault`, `vault`, `kubernetes-secret`; `keychain` is not known
        `store_configuration.region` must be an AWS region, such as eu-central-1
        `store_configuration.url` is not a known field; the fields here are `type`, `region`, `endpoint`
        `store_configuration.url` must be an https:// URL without user name, query or fragment (http:// only for this machine: localhost, 127.0.0.1 or [::1])
        `store_configuration.role` is required
        `store_configuration.mount` must be a path: letters, digits and ._- between slashes, without `.` or `..`
        `store_configuration.kv_version` must be a whole number from 1 to 2
        `store_configuration.url` must be an https:// URL without user name, query or fragment (http:// only for this machine: localhost, 127.0.0.1 or [::1])
        `store_configuration.audience` must be an audience of the store's own, such as `vault` or its address: with a cloud's audience, the store could sign in to that cloud as the job
        `store_configuration.audience` is required: a cloud may accept this `url`, the default, as its own audience
        `store_configuration.url` must be an https:// URL without user name, query or fragment (http:// only for this machine: localhost, 127.0.0.1 or [::1])
        ");
    }

    #[test]
    fn a_server_on_this_machine_needs_no_tls() {
        for url in ["http://localhost:8200", "http://127.0.0.1", "http://[::1]:8200/vault"] {
            assert_eq!(faults(json!({ "type": "vault", "url": url, "role": "r" })), "", "{url}");
        }
    }

    #[test]
    fn the_token_for_a_vault_is_for_its_address_unless_another_audience_is_given() {
        let given = json!({ "type": "vault", "url": "https://v", "role": "r" });
        assert_eq!(store(given.clone()).audience(), Some("https://v"));
        let mut named = given;
        named["audience"] = "vault".into();
        assert_eq!(store(named).audience(), Some("vault"));
        assert_eq!(store(json!({ "type": "kubernetes-secret" })).audience(), None);
    }

    #[test]
    fn a_reference_fits_its_store() {
        let vault = json!({ "type": "vault", "url": "https://v", "role": "r" });
        let old = json!({ "type": "vault", "url": "https://v", "role": "r", "kv_version": 1 });
        let aws = json!({ "type": "aws-secrets-manager", "region": "eu-central-1" });
        let ssm = json!({ "type": "aws-ssm", "region": "eu-central-1" });
        let gcp = json!({ "type": "gcp-secret-manager", "project_id": "p" });
        let azure = json!({ "type": "azure-key-vault", "url": "https://t.vault.azure.net" });
        let cluster = json!({ "type": "kubernetes-secret" });
        for (of, locator, version, fault) in [
            (&vault, "shop/db#password", Some("3"), None),
            (&vault, "shop/../ops", None, Some("ref")),
            (&vault, "/shop", None, Some("ref")),
            (&vault, "shop?x", None, Some("ref")),
            (&vault, "shop", Some("latest"), Some("version")),
            (&old, "shop", Some("3"), Some("version")),
            (&aws, "prod/db-password", Some("AWSPREVIOUS"), None),
            (&aws, "a b", None, Some("ref")),
            (&ssm, "/shop/db", Some("3"), None),
            (&gcp, "db-password", Some("latest"), None),
            (&gcp, "../x", None, Some("ref")),
            (&azure, "db-password", None, None),
            (&azure, "db_password", None, Some("ref")),
            (&cluster, "db#password", None, None),
            (&cluster, "db#password", Some("1"), Some("version")),
            (&cluster, "../x", None, Some("ref")),
        ] {
            let reference = SecretReference {
                store: "store".parse().unwrap(),
                locator: locator.to_owned(),
                version: version.map(str::to_owned),
            };
            let found = store(of.clone()).faults_of(&reference);
            assert_eq!(found.first().map(|(field, _)| *field), fault, "{of} {locator}: {found:?}");
        }
    }
}
