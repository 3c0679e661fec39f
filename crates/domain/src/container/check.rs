//! How a container job finds out whether its resource is still as its last deployment has left it.

use super::{ARGUMENT, MAX_ARGUMENTS};
use crate::runner::fields::Fields;
use crate::runner::properties::properties;
use serde::{Deserialize, Serialize};

/// The exit code that means drift, unless the job names another.
const DRIFT_EXIT_CODE: u32 = 2;

properties! {
    /// The program that a check starts in place of the job's own, in the same container, with `ACTION=check`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct JobCheck, check {
        /// The program and its first arguments.
        #[serde(default)]
        pub command: Vec<String> = texts_or_empty(&(0..=MAX_ARGUMENTS), &ARGUMENT),
        /// Further arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub args: Vec<String> = texts_or_empty(&(0..=MAX_ARGUMENTS), &ARGUMENT),
        /// The exit code that means that the resource differs. Default: 2.
        pub drift_exit_code: Option<u32> = number(1..=255),
    }
}

impl JobCheck {
    fn check(&self, fields: &mut Fields) {
        if self.command.is_empty() && !fields.is_faulty("command") {
            fields.fault("command", "is required: Canyon starts your program and must know it");
        }
    }

    /// The exit code that means that the resource differs.
    pub fn drift_exit_code(&self) -> u32 {
        self.drift_exit_code.unwrap_or(DRIFT_EXIT_CODE)
    }
}
