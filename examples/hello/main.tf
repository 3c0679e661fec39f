# A module of thirty resources that needs no provider to download and no cloud account.

variable "services" {
  description = "Number of simulated services."
  type        = number
  default     = 30
}

variable "greeting" {
  description = "Greeting of each service."
  type        = string
  default     = "Hello from Canyon"
}

resource "terraform_data" "service" {
  count = var.services
  input = "${var.greeting}, service ${count.index}"
}

output "first_words" {
  description = "Greeting of the first service."
  value       = one(slice(terraform_data.service[*].output, 0, min(1, var.services)))
}

output "services" {
  description = "Number of services."
  value       = length(terraform_data.service)
}
