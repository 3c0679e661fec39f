//! A container job: any image that runs as the work of a deployment.
//!
//! The program gets its task by variables and files, and answers by files: see [`results`]. Nothing is asked of its image.
//!
//! ```
//! use canyon_domain::container::ContainerJob;
//! use serde_json::json;
//!
//! let request = json!({
//!     "image": "ghcr.io/acme/bucket:1.1.0",
//!     "command": ["/opt/bucket"],
//!     "files": {"config.json": "{}"},
//! });
//! let job = ContainerJob::parse(request)?;
//! assert_eq!(job.shared_directory(), "/canyon/work");
//! assert_eq!(job.timeout_seconds(), 3_600);
//! # Ok::<(), canyon_domain::field_error::FieldErrors>(())
//! ```

mod check;
mod files;
pub mod results;
mod run;
mod secret;
mod source;
mod templates;

pub use check::JobCheck;
pub(crate) use files::relative_path;
pub use files::{Encoding, JobFile};
pub use run::{ContainerLaunch, ContainerRun, ContainerTask};
pub use secret::JobSecret;
pub use source::JobSource;

use crate::field_error::FieldErrors;
use crate::runner::container_size::ContainerSize;
use crate::runner::fields::Fields;
use crate::runner::patterns::{is_image, is_variable};
use crate::runner::properties::properties;
use crate::runner::shape::Shape;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The folder that the program starts in, unless the job names another.
const SHARED_DIRECTORY: &str = "/canyon/work";
/// Folders of the kernel and of Canyon, which no job may use as its own.
const FOREIGN_DIRECTORIES: [&str; 5] = ["/proc", "/sys", "/dev", "/canyon/bin", "/canyon/run"];
/// The variables by which the program gets its task.
pub const CONTRACT: [&str; 6] = [
    "ACTION",
    "SCRIPTS_DIRECTORY",
    "RESOURCE_INPUTS_FILE",
    "OUTPUTS_FILE",
    "SECRET_OUTPUTS_FILE",
    "ERROR_FILE",
];
/// Maximum number of arguments in `command` and in `args`.
const MAX_ARGUMENTS: usize = 64;
/// Maximum length of `command` and `args` together, in bytes.
const MAX_COMMAND: usize = 32 * 1024;
/// Maximum number of variables.
const MAX_VARIABLES: usize = 64;
/// Maximum length of all variables together, in bytes.
const MAX_VARIABLE_BYTES: usize = 64 * 1024;
/// Maximum length of an amount of CPU or memory.
const MAX_AMOUNT: usize = 20;
/// Maximum length of the inputs as JSON, in bytes.
pub const MAX_INPUTS: usize = 256 * 1024;

const CONTAINER_IMAGE: Shape = Shape {
    rule: "a container image, such as registry.example.com/team/image:tag",
    max: 512,
    fits: is_image,
    published: None,
    format: None,
};
const ARGUMENT: Shape = text("text without NUL", MAX_COMMAND, |text| !text.contains('\0'));
const VARIABLE_VALUE: Shape =
    text("text without NUL", MAX_VARIABLE_BYTES, |text| !text.contains('\0'));
const VARIABLE_NAME: Shape = text(
    "the name of a variable: letters, digits and `_`, not starting with a digit or with `CANYON_`, and none of the contract \
     (`ACTION`, `SCRIPTS_DIRECTORY`, `RESOURCE_INPUTS_FILE`, `OUTPUTS_FILE`, `SECRET_OUTPUTS_FILE`, `ERROR_FILE`)",
    255,
    |name| is_variable(name) && !CONTRACT.contains(&name),
);
const DIRECTORY: Shape = text(
    "an absolute path without `.`, `..` or empty parts, outside of /proc, /sys, /dev, /canyon/bin and /canyon/run, and neither `/` nor `/canyon`",
    1024,
    is_own_directory,
);

const fn text(rule: &'static str, max: usize, fits: fn(&str) -> bool) -> Shape {
    Shape { rule, max, fits, published: None, format: None }
}

fn is_own_directory(path: &str) -> bool {
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    let is_absolute = path.strip_prefix('/').is_some_and(|below| below.split('/').all(is_part));
    let lies_in = |folder: &str| {
        path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    is_absolute
        && path != "/canyon"
        && !path.contains('\0')
        && !FOREIGN_DIRECTORIES.iter().any(|folder| lies_in(folder))
}

properties! {
    /// What a container job runs.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct ContainerJob, check {
        /// Its image.
        pub image: String = required_text(&CONTAINER_IMAGE),
        /// The program and its first arguments: Canyon starts the program, and does not read the image for it.
        #[serde(default)]
        pub command: Vec<String> = texts_or_empty(&(0..=MAX_ARGUMENTS), &ARGUMENT),
        /// Further arguments.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub args: Vec<String> = texts_or_empty(&(0..=MAX_ARGUMENTS), &ARGUMENT),
        /// The folder that the program starts in, which has the files and the source. Default: `/canyon/work`.
        pub shared_directory: Option<String> = text(&DIRECTORY),
        /// Environment variables of the program.
        pub variables: Option<BTreeMap<String, String>> = text_map(MAX_VARIABLES, &VARIABLE_NAME, &VARIABLE_VALUE),
        /// Files in the shared directory, by path.
        pub files: Option<Map<String, Value>> = free_object(),
        /// Secret environment variables of the program, by name.
        pub secret_variables: Option<BTreeMap<String, JobSecret>> = secrets(),
        /// Secret files in the shared directory, by path. Only the program's user may read them.
        pub secret_files: Option<BTreeMap<String, JobSecret>> = secrets(),
        /// A git repository that is checked out into the shared directory.
        pub source: Option<JobSource> = object(JobSource::read),
        /// What the program finds as JSON in `RESOURCE_INPUTS_FILE`.
        pub inputs: Option<Map<String, Value>> = free_object(),
        /// Whether a failure shows the end of the log: at most 80 lines and 4 KiB.
        pub append_logs_to_error: Option<bool> = flag(),
        /// Maximum duration of the program. Default: one hour.
        pub timeout_seconds: Option<u32> = number(10..=86_400),
        /// Time from the request to stop until the kill. Default: one minute.
        pub grace_seconds: Option<u32> = number(0..=3_600),
        /// Whether the program may run again after its job was lost.
        pub idempotent: Option<bool> = flag(),
        /// CPU, in the units of the platform. Default: that of the runner.
        pub cpu: Option<String> = amount(),
        /// Memory, in the units of the platform. Default: that of the runner.
        pub memory: Option<String> = amount(),
        /// What a check starts. Without it, the resource cannot be checked.
        pub check: Option<JobCheck> = object(JobCheck::read),
        /// How long the container stays after a failure, so that people can look into it. Default: not at all.
        pub keep_seconds: Option<u32> = number(0..=3_600),
    }
}

impl ContainerJob {
    /// Parses a container job.
    ///
    /// # Errors
    /// Every fault with its path.
    pub fn parse(value: Value) -> Result<Self, FieldErrors> {
        let mut faults = FieldErrors::default();
        let job = Fields::read(value, "", &mut faults, Self::read);
        faults.into_result(job.unwrap_or_default())
    }

    fn check(&self, fields: &mut Fields) {
        if self.command.is_empty() && !fields.is_faulty("command") {
            fields.fault("command", "is required: Canyon starts your program and must know it");
        }
        let length: usize = self.command.iter().chain(&self.args).map(String::len).sum();
        if length > MAX_COMMAND {
            let reason = format!("has {length} bytes with `args`; {MAX_COMMAND} are allowed");
            fields.fault("command", reason);
        }
        let variables = self.variables.iter().flatten();
        let length: usize = variables.map(|(name, value)| name.len() + value.len()).sum();
        if length > MAX_VARIABLE_BYTES {
            let reason = format!("have {length} bytes; {MAX_VARIABLE_BYTES} are allowed");
            fields.fault("variables", reason);
        }
        let length =
            self.inputs.as_ref().map_or(0, |inputs| Value::from(inputs.clone()).to_string().len());
        if length > MAX_INPUTS {
            fields.fault("inputs", format!("have {length} bytes; {MAX_INPUTS} are allowed"));
        }
        for name in self.secret_variables.iter().flat_map(BTreeMap::keys) {
            let shown: String = name.chars().take(80).collect();
            let field = format!("secret_variables[{shown:?}]");
            if !(VARIABLE_NAME.fits)(name) {
                fields.fault(&field, format!("must be {}", VARIABLE_NAME.rule));
            } else if self.variables.iter().flatten().any(|(other, _)| other == name) {
                fields.fault(&field, "is in `variables` too");
            }
        }
        if !fields.is_faulty("shared_directory") {
            files::read(self, fields);
        }
        fields.faults("", self.check_templates());
    }

    /// The folder that the program starts in.
    pub fn shared_directory(&self) -> &str {
        self.shared_directory.as_deref().unwrap_or(SHARED_DIRECTORY)
    }

    /// The shared directory, if it is no folder that each job has in any case.
    fn provided_directory(&self) -> Option<&str> {
        let has = |folder: &str, path: &str| {
            path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let given = self.shared_directory.as_deref()?;
        Some(given).filter(|path| !has("/canyon", path) && !has("/tmp", path))
    }

    /// The files and the secret files, by their paths below the shared directory.
    pub fn files(&self) -> BTreeMap<String, JobFile> {
        let mut faults = FieldErrors::default();
        let given = Value::Object(Map::new());
        let read = |fields: &mut Fields| files::read(self, fields);
        Fields::read(given, "", &mut faults, read).unwrap_or_default()
    }

    /// Maximum duration of the program, in seconds.
    pub fn timeout_seconds(&self) -> u32 {
        self.timeout_seconds.unwrap_or(3_600)
    }

    /// Seconds from the request to stop until the kill.
    pub fn grace_seconds(&self) -> u32 {
        self.grace_seconds.unwrap_or(60)
    }

    /// How much of its platform it asks for.
    pub fn size(&self) -> ContainerSize {
        ContainerSize { cpu: self.cpu.clone(), memory: self.memory.clone() }
    }

    /// Seconds for which its container stays after a failure.
    pub fn keep_seconds(&self) -> u32 {
        self.keep_seconds.unwrap_or_default()
    }
}

impl Fields<'_> {
    /// An amount of CPU or memory. YAML makes a number of some of them.
    fn amount(&mut self, name: &'static str) -> Option<String> {
        let text = match self.take(name)? {
            Value::Number(number) => number.to_string(),
            Value::String(text) => text,
            _ => String::new(),
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
        if text.len() <= MAX_AMOUNT
            && text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(is_plain)
        {
            return Some(text);
        }
        self.fault(name, "must be an amount in the units of the runner's platform, such as 2, 0.5, `500m` or `1Gi`");
        None
    }
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod tests;
