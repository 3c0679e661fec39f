# A module whose resources take their time, and write down when they begin and end: to watch a
# deployment being cancelled, or going on while its server is gone.

variable "steps" {
  description = "How many resources to make, all at once."
  type        = number
  default     = 3
}

variable "seconds" {
  description = "How long each of them takes."
  type        = number
  default     = 5
}

variable "journal" {
  description = "File to write a line to at the begin and at the end of each step."
  type        = string
  default     = "/dev/null"
}

variable "round" {
  description = "Another value makes everything anew."
  type        = string
  default     = "1"
}

resource "terraform_data" "step" {
  count            = var.steps
  triggers_replace = var.round

  # exec: whoever stops the step stops the sleep, and leaves no process behind.
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
  description = "The round that was made last."
  value       = var.round
}
