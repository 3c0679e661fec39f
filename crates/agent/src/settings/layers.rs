//! The sources of settings: flags take precedence over the environment, and that over the file.

use super::faults::Faults;
use super::names::{DATA, DATA_VARIABLE, NAMES, OURS, is_of_a_service};
use clap::ArgMatches;
use std::collections::BTreeMap;

/// A value, and the name of its source for messages.
#[derive(Clone, PartialEq, Eq)]
pub struct Given {
    /// The value; it may be a secret.
    pub value: String,
    /// `CANYON_API_URL`, `--api-url`, or ``` `api_url` in PATH ```.
    pub origin: String,
}

impl std::fmt::Debug for Given {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Given").field(&self.origin).finish()
    }
}

/// Settings by their keys; those of the jobs' platform as `job_dispatcher_data.NAME`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layer(pub BTreeMap<String, Given>);

impl Layer {
    fn set(&mut self, key: &str, value: &str, origin: &str) {
        let (value, origin) = (value.to_owned(), origin.to_owned());
        self.0.insert(key.to_owned(), Given { value, origin });
    }

    /// The settings on the command line. clap has refused unknown flags before.
    pub fn of_flags(matches: &ArgMatches, faults: &mut Faults) -> Self {
        let mut layer = Self::default();
        for name in NAMES.iter().filter(|name| name.flag && name.key != "single") {
            if let Some(value) = matches.get_one::<String>(name.key) {
                layer.set(name.key, value, &format!("--{}", name.key.replace('_', "-")));
            }
        }
        if matches.get_flag("single") {
            layer.set("single", "true", "--single");
        }
        let labels = matches.get_many::<String>("label").into_iter().flatten();
        let labels: Vec<_> = labels.map(String::as_str).collect();
        if !labels.is_empty() {
            layer.set("labels", &labels.join(","), "--label");
        }
        for pair in matches.get_many::<String>(DATA).into_iter().flatten() {
            match pair.split_once('=') {
                Some((name, value)) => {
                    layer.set(
                        &format!("{DATA}.{name}"),
                        value,
                        &format!("--job-dispatcher-data {name}"),
                    );
                }
                None => faults.add("--job-dispatcher-data", "is not NAME=VALUE"),
            }
        }
        layer
    }

    /// The settings in the environment. A variable with an empty value counts as not set.
    pub fn of_environment(
        variables: impl IntoIterator<Item = (String, String)>,
        faults: &mut Faults,
    ) -> Self {
        let mut layer = Self::default();
        for (variable, value) in variables {
            if value.is_empty() {
                continue;
            }
            if let Some(name) = variable.strip_prefix(DATA_VARIABLE) {
                layer.set(&format!("{DATA}.{}", name.to_ascii_lowercase()), &value, &variable);
                continue;
            }
            let known = NAMES.iter().find(|name| name.variables.contains(&variable.as_str()));
            match known {
                None if OURS.iter().any(|prefix| variable.starts_with(prefix))
                    && !is_of_a_service(&variable, &value) =>
                {
                    faults.add(&variable, "is not a setting of the agent");
                }
                None => {}
                Some(name) => match layer.0.get(name.key) {
                    Some(other) if other.value != value => {
                        let reason = format!(
                            "has another value than {}; set only one of them",
                            other.origin
                        );
                        faults.add(&variable, reason);
                    }
                    _ => layer.set(name.key, &value, &variable),
                },
            }
        }
        layer
    }

    /// All settings of `self`, and those of `weaker` that `self` does not have.
    #[must_use]
    pub fn over(mut self, weaker: Self) -> Self {
        for (key, given) in weaker.0 {
            self.0.entry(key).or_insert(given);
        }
        self
    }
}
