# Resources in a Google Cloud project for runners of type kubernetes-gke: a workload identity pool that trusts Canyon's
# issuer, and a service account that one runner may impersonate. The module contains no secret.
#
#   tofu apply -var project_id=my-project -var cluster_project_id=my-project -var issuer_url=https://canyon.example.com
#
# A runner names the provider and the service account, and its subject exists only after its creation: apply without
# subjects, create the runner with the outputs, and apply again with the output of `canyon doctor runner NAME --print-only`.

terraform {
  required_version = ">= 1.8"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.0"
    }
  }
}

variable "project_id" {
  description = "The project of the pool and of the service account."
  type        = string
}

variable "cluster_project_id" {
  description = "The project of the cluster."
  type        = string
}

variable "issuer_url" {
  description = "Canyon's name as an OIDC issuer."
  type        = string

  validation {
    condition     = can(regex("^https://[^\" ]*[^\"/ ]$", var.issuer_url))
    error_message = "An https address without a slash at its end."
  }
}

variable "subjects" {
  description = "The subjects of the runners that may act as the service account. Each is org:UUID:runner:UUID."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for s in var.subjects : can(regex("^org:[0-9a-f-]{36}:runner:[0-9a-f-]{36}$", s))])
    error_message = "Each subject is org:UUID:runner:UUID, as canyon doctor prints it."
  }
}

variable "pool_id" {
  description = "Id of the workload identity pool. It stays taken for 30 days after its deletion."
  type        = string
  default     = "canyon"
}

variable "account_id" {
  description = "Id of the service account."
  type        = string
  default     = "canyon-launcher"
}

resource "google_iam_workload_identity_pool" "canyon" {
  project                   = var.project_id
  workload_identity_pool_id = var.pool_id
  display_name              = "Canyon"
}

resource "google_iam_workload_identity_pool_provider" "canyon" {
  project                            = var.project_id
  workload_identity_pool_id          = google_iam_workload_identity_pool.canyon.workload_identity_pool_id
  workload_identity_pool_provider_id = "canyon"
  display_name                       = "Canyon"

  attribute_mapping = {
    "google.subject" = "assertion.sub"
  }

  # Only for the launcher. The tokens of jobs have longer subjects; give them a provider of their own.
  attribute_condition = "assertion.sub.matches('^org:[0-9a-f-]{36}:runner:[0-9a-f-]{36}$')"

  oidc {
    # Without a list of audiences, the provider's own name is the audience: gcp_audience of the runner.
    issuer_uri = var.issuer_url
  }
}

resource "google_service_account" "launcher" {
  project      = var.project_id
  account_id   = var.account_id
  display_name = "Canyon's launcher"
}

resource "google_service_account_iam_member" "runners" {
  for_each           = toset(var.subjects)
  service_account_id = google_service_account.launcher.name
  role               = "roles/iam.workloadIdentityUser"
  member             = "principal://iam.googleapis.com/${google_iam_workload_identity_pool.canyon.name}/subject/${each.value}"
}

# To find the cluster and its authority. The cluster's own RBAC decides what the account may do in it: this role permits
# neither reads nor changes there.
resource "google_project_iam_member" "cluster_viewer" {
  project = var.cluster_project_id
  role    = "roles/container.clusterViewer"
  member  = google_service_account.launcher.member
}

output "gcp_audience" {
  description = "cluster.auth.gcp_audience of the runner."
  value       = "//iam.googleapis.com/${google_iam_workload_identity_pool_provider.canyon.name}"
}

output "gcp_service_account" {
  description = "cluster.auth.gcp_service_account of the runner, and the user of its RoleBinding."
  value       = google_service_account.launcher.email
}
