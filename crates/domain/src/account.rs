//! Accounts of an organization: identities at clouds that resource definitions name.
//!
//! Canyon stores no keys of clouds. It exchanges its own OIDC token for the credentials of a role or a service account,
//! which trusts Canyon's issuer.

use crate::field_error::{FieldErrors, shown};
use crate::ids::{InvalidId, MAX_ID_LENGTH, text_id};
use crate::runner::eks::other_partition;
use crate::runner::fields::Fields;
use crate::runner::patterns::{
    GCP_AUDIENCE, GCP_SERVICE_ACCOUNT, REGION, ROLE_ARN, SESSION_NAME, UUID,
};
use crate::runner::string_enum::{OneOf as _, listed};
use crate::runner::tagged_object::tagged_object;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

text_id!(
    /// An account of an organization. Published definitions name accounts with upper case letters.
    AccountId, "account id", MAX_ID_LENGTH, is_account_id,
    "use 2 to 63 letters, digits and hyphens, starting and ending with a letter or digit"
);

/// `^[A-Za-z0-9][A-Za-z0-9-]{0,61}[A-Za-z0-9]$`, apart from the length.
fn is_account_id(text: &str) -> bool {
    text.len() >= 2
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

impl AccountId {
    /// The account that `text`, a reference in a resource definition, names: `ORG/ID`, or `ID` alone. Published definitions name
    /// the organization for which they were written; Canyon takes accounts only of the caller's.
    ///
    /// # Errors
    ///
    /// The text names no account.
    pub fn of_reference(text: &str) -> Result<Self, InvalidId> {
        text.rsplit_once('/').map_or(text, |(_, name)| name).parse()
    }
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its id.
    pub id: AccountId,
    /// Its purpose, for people.
    pub name: Option<String>,
    /// What Canyon exchanges its token for.
    pub credentials: AccountCredentials,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Increases with every write.
    pub version: u64,
}

tagged_object! {
    /// The types of accounts.
    AccountType,
    /// What Canyon exchanges its token for. In the API, `type` is beside `credentials`.
    AccountCredentials.account_type,
    /// A role of AWS that trusts Canyon's issuer.
    AwsRole = "aws-role" {
        /// ARN of the role to assume.
        aws_role: String = required_text(&ROLE_ARN.strict()),
        /// Name of the session; Canyon chooses one unless set.
        session_name: Option<String> = text(&SESSION_NAME.strict()),
        /// Region of the STS endpoint; the region of the cluster unless set.
        sts_region: Option<String> = text(&REGION.strict()),
    }
    /// A service account of Google Cloud, by workload identity federation.
    GcpIdentity = "gcp-identity" {
        /// Workload identity provider that trusts Canyon's issuer.
        gcp_audience: String = required_text(&GCP_AUDIENCE.strict()),
        /// Service account to act as.
        gcp_service_account: String = required_text(&GCP_SERVICE_ACCOUNT.strict()),
    }
    /// An application or a managed identity of Azure with a federated credential.
    AzureIdentity = "azure-identity" {
        /// Entra tenant.
        azure_identity_tenant_id: String = required_text(&UUID),
        /// Application, or managed identity, that trusts Canyon's issuer.
        azure_identity_client_id: String = required_text(&UUID),
    }
}

impl AccountType {
    /// Parses `type` of an account. Notes why it is none.
    pub fn read(given: &str, errors: &mut FieldErrors) -> Option<Self> {
        given.parse().map_err(|_| errors.add("type", refusal(given))).ok()
    }
}

/// Why an account cannot have the type `given`; it continues a sentence after the path.
fn refusal(given: &str) -> String {
    let federated = match given {
        "aws" => Some(AccountType::AwsRole),
        "gcp" => Some(AccountType::GcpIdentity),
        "azure" => Some(AccountType::AzureIdentity),
        _ => None,
    };
    match federated {
        Some(federated) => format!(
            "cannot be `{given}`: such an account has keys of a cloud, and Canyon stores none; use `{federated}`, which trusts \
             Canyon's tokens"
        ),
        None => format!(
            "must be one of {}, which trust Canyon's tokens; `{}` is not supported: Canyon stores no keys of clouds",
            listed(AccountType::TEXTS),
            shown(given)
        ),
    }
}

/// The type of clusters on Google Cloud, in the words of resource definitions.
pub const GKE: &str = "gke";

impl AccountCredentials {
    /// The type of the clusters that it reaches, in the words of resource definitions, and `auth` of a runner there.
    pub fn cluster_access(&self) -> (&'static str, Map<String, Value>) {
        let (reached, auth) = match self {
            Self::AwsRole { aws_role, session_name, sts_region } => (
                "eks",
                json!({ "role_arn": aws_role, "session_name": session_name, "sts_region": sts_region }),
            ),
            Self::GcpIdentity { gcp_audience, gcp_service_account } => (
                GKE,
                json!({ "gcp_audience": gcp_audience, "gcp_service_account": gcp_service_account }),
            ),
            Self::AzureIdentity { azure_identity_tenant_id, azure_identity_client_id } => (
                "aks",
                json!({ "tenant_id": azure_identity_tenant_id, "client_id": azure_identity_client_id }),
            ),
        };
        let given = match auth {
            Value::Object(members) => members.into_iter().filter(|(_, value)| !value.is_null()),
            _ => return (reached, Map::new()),
        };
        (reached, given.collect())
    }

    /// Parses `credentials` of an account of this type. Notes every fault.
    pub fn read(of: AccountType, mut value: Value, errors: &mut FieldErrors) -> Option<Self> {
        const PATH: &str = "credentials";
        if of == AccountType::AwsRole
            && let Some(members) = value.as_object_mut()
            && members.remove("external_id").is_some_and(|given| !given.is_null())
        {
            errors.add(
                "credentials.external_id",
                "is not possible: the role trusts Canyon's issuer and the subject of its token, and AWS compares no external id with \
                 that; remove it here and from the role's trust policy",
            );
        }
        Fields::read(value, PATH, errors, |fields| {
            let read = Self::read_as(of, fields);
            if let Self::AwsRole { aws_role, sts_region: Some(region), .. } = &read
                && let Some(reason) = other_partition(aws_role, region)
            {
                fields.fault("aws_role", reason);
            }
            read
        })
    }

    /// `credentials` as the API has them: without the type.
    pub fn members(&self) -> Map<String, Value> {
        match json!(self) {
            Value::Object(mut members) => {
                members.remove("type");
                members
            }
            _ => Map::new(),
        }
    }

    /// The JSON Schema of `credentials` in the API: as [`Self::schema`], without the type.
    pub fn schema_of_members() -> Value {
        let mut schema = Self::schema();
        for of_type in schema["oneOf"].as_array_mut().into_iter().flatten() {
            if let Some(properties) = of_type["properties"].as_object_mut() {
                properties.remove("type");
            }
            if let Some(required) = of_type["required"].as_array_mut() {
                required.retain(|name| name != "type");
            }
        }
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(of: &str, credentials: Value) -> Result<Option<AccountCredentials>, FieldErrors> {
        let mut faults = FieldErrors::default();
        let of = AccountType::read(of, &mut faults);
        let read = of.and_then(|of| AccountCredentials::read(of, credentials, &mut faults));
        faults.into_result(read)
    }

    fn faults(of: &str, credentials: Value) -> String {
        let faults = read(of, credentials).err().unwrap_or_default();
        faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn an_id_may_have_upper_case_letters_and_digits_first() {
        for id in ["my-account", "myAccount", "1a", "A--b", &"a".repeat(63)] {
            assert_eq!(id.parse::<AccountId>().unwrap().as_str(), id);
        }
        for id in ["", "a", "-ab", "ab-", "a_b", "a/b", "ä1", &"a".repeat(64)] {
            assert!(id.parse::<AccountId>().is_err(), "{id:?}");
        }
    }

    #[test]
    fn credentials_of_every_type_are_read_and_shown_alike() {
        for (of, given) in [
            ("aws-role", json!({ "aws_role": "arn:aws:iam::123456789012:role/deploy" })),
            (
                "aws-role",
                json!({
                    "aws_role": "arn:aws-cn:iam::123456789012:role/deploy",
                    "session_name": "canyon", "sts_region": "cn-north-1",
                }),
            ),
            (
                "gcp-identity",
                json!({
                    "gcp_audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
                    "gcp_service_account": "deploy@acme.iam.gserviceaccount.com",
                }),
            ),
            (
                "azure-identity",
                json!({
                    "azure_identity_tenant_id": "11111111-2222-3333-4444-555555555555",
                    "azure_identity_client_id": "66666666-7777-8888-9999-000000000000",
                }),
            ),
        ] {
            let credentials = read(of, given.clone()).unwrap().unwrap();
            assert_eq!(credentials.account_type().as_str(), of);
            assert_eq!(Value::Object(credentials.members()), given);
            let stored = json!(credentials);
            assert_eq!(stored["type"], of);
            assert_eq!(serde_json::from_value::<AccountCredentials>(stored).unwrap(), credentials);
        }
    }

    #[test]
    fn one_answer_names_every_fault_of_credentials() {
        let given = [
            ("aws-role", json!("x")),
            ("aws-role", json!({ "sts_region": "x", "aws_access_key_id": "AKIA" })),
            (
                "aws-role",
                json!({
                    "aws_role": "arn:aws:iam::123456789012:role/r", "external_id": "x",
                    "sts_region": "cn-north-1", "session_name": "a b",
                }),
            ),
            ("gcp-identity", json!({ "gcp_audience": "sts", "gcp_service_account": "a@b.com" })),
            ("azure-identity", json!({ "azure_identity_tenant_id": "x", "type": "azure" })),
        ];
        insta::assert_snapshot!(given.map(|(of, given)| faults(of, given)).join("\n"), @r"
        `credentials` must be an object, not text
        `credentials.aws_role` is required
        `credentials.sts_region` must be an AWS region, such as eu-central-1
        `credentials.aws_access_key_id` is not a known field; the fields here are `aws_role`, `session_name`, `sts_region`
        `credentials.external_id` is not possible: the role trusts Canyon's issuer and the subject of its token, and AWS compares no external id with that; remove it here and from the role's trust policy
        `credentials.session_name` must be 3 to 64 letters, digits and +=,.@-_
        `credentials.aws_role` must be of the partition `aws-cn`, as the region is
        `credentials.gcp_audience` must be a workload identity provider: //iam.googleapis.com/projects/NUMBER/locations/global/workloadIdentityPools/POOL/providers/PROVIDER
        `credentials.gcp_service_account` must be the address of a Google service account, ending in .gserviceaccount.com
        `credentials.azure_identity_tenant_id` must be a UUID
        `credentials.azure_identity_client_id` is required
        `credentials.type` is not a known field; the fields here are `azure_identity_tenant_id`, `azure_identity_client_id`
        ");
    }

    #[test]
    fn a_type_that_stores_keys_is_refused_with_the_type_to_use_instead() {
        let said = ["aws", "gcp", "azure", "basic", "username-password", ""]
            .map(|of| faults(of, json!({})))
            .join("\n");
        insta::assert_snapshot!(said, @r"
        `type` cannot be `aws`: such an account has keys of a cloud, and Canyon stores none; use `aws-role`, which trusts Canyon's tokens
        `type` cannot be `gcp`: such an account has keys of a cloud, and Canyon stores none; use `gcp-identity`, which trusts Canyon's tokens
        `type` cannot be `azure`: such an account has keys of a cloud, and Canyon stores none; use `azure-identity`, which trusts Canyon's tokens
        `type` must be one of `aws-role`, `gcp-identity`, `azure-identity`, which trust Canyon's tokens; `basic` is not supported: Canyon stores no keys of clouds
        `type` must be one of `aws-role`, `gcp-identity`, `azure-identity`, which trust Canyon's tokens; `username-password` is not supported: Canyon stores no keys of clouds
        `type` must be one of `aws-role`, `gcp-identity`, `azure-identity`, which trust Canyon's tokens; `` is not supported: Canyon stores no keys of clouds
        ");
    }

    #[test]
    fn an_external_id_that_is_null_is_none() {
        let role = json!({ "aws_role": "arn:aws:iam::123456789012:role/r", "external_id": null });
        assert_eq!(faults("aws-role", role), "");
    }

    #[test]
    fn the_schema_has_the_properties_of_credentials_without_the_type() {
        let schema = AccountCredentials::schema_of_members();
        let names = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        let types = schema["oneOf"].as_array().unwrap();
        assert_eq!(types.len(), AccountType::ALL.len());
        assert_eq!(names(&types[0]["properties"]), ["aws_role", "session_name", "sts_region"]);
        assert_eq!(types[0]["required"], json!(["aws_role"]));
    }

    #[test]
    fn a_reference_names_the_account_with_or_without_an_organization() {
        for text in ["my-org/myAccount", "myAccount", "${context.org.id}/myAccount"] {
            assert_eq!(AccountId::of_reference(text).unwrap().as_str(), "myAccount", "{text}");
        }
        for text in ["my-org/", "", "${context.app.id}"] {
            assert!(AccountId::of_reference(text).is_err(), "{text}");
        }
    }
}
