//! `job_roles` of a job's identity: another role at the clouds for each class of jobs.

use super::fields::Fields;
use super::job_identity::JobIdentity;
use crate::role_class::RoleClass;
use crate::runner::eks::other_partition;
use crate::runner::patterns::{GCP_SERVICE_ACCOUNT, ROLE_ARN, UUID};
use crate::runner::properties::properties;
use serde::{Deserialize, Serialize};

properties! {
    /// `job.identity.job_roles`: the roles of each class that differ from those of the identity.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct JobRoles {
        /// Of every run until its apply begins, and of commands that only read.
        pub plan: Option<CloudRoles> = object(CloudRoles::read),
        /// Of the apply of a deployment or a rollback, and of commands that change the state.
        pub apply: Option<CloudRoles> = object(CloudRoles::read),
        /// Of a destroy run from its apply on.
        pub destroy: Option<CloudRoles> = object(CloudRoles::read),
    }
}

properties! {
    /// A role at each cloud. A cloud that is left out keeps the identity's own.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct CloudRoles {
        /// Role at AWS. Needs `aws` of the identity.
        pub aws_role_arn: Option<String> = text(&ROLE_ARN.strict()),
        /// Service account at Google Cloud. Needs `gcp.service_account` of the identity.
        pub gcp_service_account: Option<String> = text(&GCP_SERVICE_ACCOUNT.strict()),
        /// Application or managed identity at Azure. Needs `azure` of the identity.
        pub azure_client_id: Option<String> = text(&UUID.strict()),
    }
}

impl JobRoles {
    /// The roles of a class.
    pub fn of(&self, class: RoleClass) -> Option<&CloudRoles> {
        match class {
            RoleClass::Plan => self.plan.as_ref(),
            RoleClass::Apply => self.apply.as_ref(),
            RoleClass::Destroy => self.destroy.as_ref(),
        }
    }

    /// Notes what does not fit to the rest of `identity`.
    pub(super) fn check(&self, identity: &JobIdentity, fields: &mut Fields) {
        for class in RoleClass::ALL {
            if let Some(roles) = self.of(class) {
                roles.check(&format!("job_roles.{}", class.as_str()), identity, fields);
            }
        }
        let Some(plan) = &self.plan else { return };
        let mut twice = |name: &str, is_given: bool, older: &str, has_older: bool| {
            if is_given && has_older {
                let reason = format!("is also given by `{older}`; give it once");
                fields.fault(&format!("job_roles.plan.{name}"), reason);
            }
        };
        let JobIdentity { aws, gcp, azure, .. } = identity;
        let of_aws = aws.as_ref().is_some_and(|aws| aws.plan_role_arn.is_some());
        let of_gcp = gcp.as_ref().is_some_and(|gcp| gcp.plan_service_account.is_some());
        let of_azure = azure.as_ref().is_some_and(|azure| azure.plan_client_id.is_some());
        let CloudRoles { aws_role_arn, gcp_service_account, azure_client_id } = plan;
        twice("aws_role_arn", aws_role_arn.is_some(), "aws.plan_role_arn", of_aws);
        let account = gcp_service_account.is_some();
        twice("gcp_service_account", account, "gcp.plan_service_account", of_gcp);
        twice("azure_client_id", azure_client_id.is_some(), "azure.plan_client_id", of_azure);
    }
}

impl CloudRoles {
    /// The role at AWS.
    pub fn aws(&self) -> Option<&str> {
        self.aws_role_arn.as_deref()
    }

    /// The service account at Google Cloud.
    pub fn gcp(&self) -> Option<&str> {
        self.gcp_service_account.as_deref()
    }

    /// The application at Azure.
    pub fn azure(&self) -> Option<&str> {
        self.azure_client_id.as_deref()
    }

    /// Notes which roles have no identity of their cloud that they could replace. `path` is the object's.
    pub(super) fn check(&self, path: &str, identity: &JobIdentity, fields: &mut Fields) {
        let mut fault =
            |name: &str, reason: String| fields.fault(&format!("{path}.{name}"), reason);
        let needs =
            |what: &str| format!("needs `{what}` of the identity, which says what other jobs use");
        if let Some(role) = &self.aws_role_arn {
            match &identity.aws {
                None => fault("aws_role_arn", needs("aws")),
                Some(aws) => {
                    let region = aws.region.as_deref().unwrap_or_default();
                    if let Some(reason) = other_partition(role, region) {
                        fault("aws_role_arn", reason);
                    }
                }
            }
        }
        let account = identity.gcp.as_ref().and_then(|gcp| gcp.service_account.as_ref());
        if self.gcp_service_account.is_some() && account.is_none() {
            fault("gcp_service_account", needs("gcp.service_account"));
        }
        if self.azure_client_id.is_some() && identity.azure.is_none() {
            fault("azure_client_id", needs("azure"));
        }
    }
}
