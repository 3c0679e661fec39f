# Resources in Azure for runners of type kubernetes-aks: a managed identity that trusts one runner, and its permission to
# find one cluster. The module contains no secret.
#
#   tofu apply -var subscription_id=... -var resource_group=my-group -var cluster=my-cluster -var issuer_url=https://...
#
# A runner names the identity, and its subject exists only after its creation: apply without subjects, create the runner
# with the outputs, and apply again with the output of `canyon doctor runner NAME --print-only`.

terraform {
  required_version = ">= 1.8"
  required_providers {
    azurerm = {
      source  = "hashicorp/azurerm"
      version = ">= 4.0"
    }
  }
}

variable "subscription_id" {
  description = "The subscription of the cluster."
  type        = string
}

variable "resource_group" {
  description = "The resource group of the cluster."
  type        = string
}

variable "cluster" {
  description = "The name of the cluster."
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
  description = "The subjects of the runners that may use the identity, at most 20. Each is org:UUID:runner:UUID."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for s in var.subjects : can(regex("^org:[0-9a-f-]{36}:runner:[0-9a-f-]{36}$", s))])
    error_message = "Each subject is org:UUID:runner:UUID, as canyon doctor prints it."
  }
}

variable "identity_name" {
  description = "The name of the managed identity."
  type        = string
  default     = "canyon-launcher"
}

provider "azurerm" {
  subscription_id = var.subscription_id
  features {}
}

data "azurerm_resource_group" "cluster" {
  name = var.resource_group
}

resource "azurerm_user_assigned_identity" "launcher" {
  name                = var.identity_name
  resource_group_name = var.resource_group
  location            = data.azurerm_resource_group.cluster.location
}

resource "azurerm_federated_identity_credential" "runner" {
  for_each  = toset(var.subjects)
  name      = "canyon-${substr(sha256(each.value), 0, 12)}"
  parent_id = azurerm_user_assigned_identity.launcher.id
  issuer    = var.issuer_url
  subject   = each.value
  audience  = ["api://AzureADTokenExchange"]

  resource_group_name = var.resource_group
}

# To find the cluster and its authority. The cluster's own RBAC decides what the identity may do in it.
resource "azurerm_role_assignment" "cluster_user" {
  scope                = "${data.azurerm_resource_group.cluster.id}/providers/Microsoft.ContainerService/managedClusters/${var.cluster}"
  role_definition_name = "Azure Kubernetes Service Cluster User Role"
  principal_id         = azurerm_user_assigned_identity.launcher.principal_id
}

output "client_id" {
  description = "cluster.auth.client_id of the runner."
  value       = azurerm_user_assigned_identity.launcher.client_id
}

output "tenant_id" {
  description = "cluster.auth.tenant_id of the runner."
  value       = azurerm_user_assigned_identity.launcher.tenant_id
}

output "kubernetes_user" {
  description = "The name of the user in the RoleBinding: the object id."
  value       = azurerm_user_assigned_identity.launcher.principal_id
}
