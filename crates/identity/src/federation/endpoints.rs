//! Addresses of the clouds.

/// Addresses of the clouds' services: the public ones, unless a setting names others, such as
/// private endpoints, sovereign clouds or test servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Google's Security Token Service.
    pub gcp_sts: String,
    /// Google's IAM Service Account Credentials.
    pub gcp_iam_credentials: String,
    /// Google's Kubernetes Engine API.
    pub gke: String,
    /// Microsoft Entra.
    pub azure_authority: String,
    /// Azure Resource Manager.
    pub azure_resource_manager: String,
    /// AWS STS, instead of the region's.
    pub aws_sts: Option<String>,
    /// Amazon EKS, instead of the region's.
    pub aws_eks: Option<String>,
    /// Amazon ECS, instead of the region's.
    pub aws_ecs: Option<String>,
    /// Amazon CloudWatch Logs, instead of the region's.
    pub aws_logs: Option<String>,
}

impl Endpoints {
    /// Reads the addresses from variables. The names are those of the SDKs where they have one:
    /// `AWS_ENDPOINT_URL_STS`, `_EKS`, `_ECS`, `_CLOUDWATCH_LOGS`, and `AZURE_AUTHORITY_HOST`.
    pub fn from_variables(variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let given = |name: &str| {
            let text = variable(name).map(|text| text.trim().trim_end_matches('/').to_owned());
            text.filter(|text| !text.is_empty())
        };
        let or = |name: &str, public: &str| given(name).unwrap_or_else(|| public.to_owned());
        let everywhere = given("AWS_ENDPOINT_URL");
        let aws = |name: &str| given(name).or_else(|| everywhere.clone());
        Self {
            gcp_sts: or("CANYON_GCP_STS_URL", "https://sts.googleapis.com"),
            gcp_iam_credentials: or(
                "CANYON_GCP_IAM_CREDENTIALS_URL",
                "https://iamcredentials.googleapis.com",
            ),
            gke: or("CANYON_GKE_URL", "https://container.googleapis.com"),
            azure_authority: or("AZURE_AUTHORITY_HOST", "https://login.microsoftonline.com"),
            azure_resource_manager: or(
                "CANYON_AZURE_RESOURCE_MANAGER_URL",
                "https://management.azure.com",
            ),
            aws_sts: aws("AWS_ENDPOINT_URL_STS"),
            aws_eks: aws("AWS_ENDPOINT_URL_EKS"),
            aws_ecs: aws("AWS_ENDPOINT_URL_ECS"),
            aws_logs: aws("AWS_ENDPOINT_URL_CLOUDWATCH_LOGS"),
        }
    }
}
