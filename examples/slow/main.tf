# A module with slow resources that record when they begin and end: to observe a deployment that is
# cancelled, or that continues while its server is down.

variable "steps" {
  description = "Number of resources, all created at once."
  type        = number
  default     = 3
}

variable "seconds" {
  description = "Duration of each step in seconds."
  type        = number
  default     = 5
}

variable "journal" {
  description = "File that gets a line at the begin and at the end of each step."
  type        = string
  default     = "/dev/null"
}

variable "round" {
  description = "Another value replaces all resources."
  type        = string
  default     = "1"
}

resource "terraform_data" "step" {
  count            = var.steps
  triggers_replace = var.round

  # exec: a signal to the step stops the sleep, and no process remains.
  provisioner "local-exec" {
    command     = "echo begin ${var.round} ${count.index} >>\"$JOURNAL\"; exec sleep ${var.seconds}"
    environment = { JOURNAL = var.journal }
  }
  provisioner "local-exec" {
    command     = "echo end ${var.round} ${count.index} >>\"$JOURNAL\""
    environment = { JOURNAL = var.journal }
  }
}

output "round" {
  description = "The round of the last apply."
  value       = var.round
}
