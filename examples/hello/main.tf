# A module of thirty resources that needs no provider to download and no cloud account.

variable "services" {
  description = "How many services to pretend to run."
  type        = number
  default     = 30
}

variable "greeting" {
  description = "What each of them says."
  type        = string
  default     = "Hello from Canyon"
}

resource "terraform_data" "service" {
  count = var.services
  input = "${var.greeting}, service ${count.index}"
}

output "first_words" {
  description = "What the first service says."
  value       = one(slice(terraform_data.service[*].output, 0, min(1, var.services)))
}

output "services" {
  description = "How many there are."
  value       = length(terraform_data.service)
}
