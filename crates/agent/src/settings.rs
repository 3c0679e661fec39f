//! The agent's settings. All are checked before anything starts.

pub mod authorities;
pub mod dispatcher;
pub mod faults;
pub mod file;
pub mod former_names;
pub mod identity;
pub mod layers;
pub mod listen;
pub mod names;
pub mod served;

use authorities::Authorities;
use canyon_domain::agent::invalid_labels_reason;
use canyon_domain::ids::AgentId;
use dispatcher::{DispatcherSettings, DispatcherType};
use faults::Faults;
use identity::{IdentitySettings, Machine};
use layers::{Given, Layer};
use listen::Listen;
use served::Served;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;
use url::Url;

/// The settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of Canyon's API.
    pub api_url: String,
    /// The organizations that it serves: at least one.
    pub served: Vec<Served>,
    /// The agent's name.
    pub name: AgentId,
    /// The labels by which runners may select this agent.
    pub labels: BTreeMap<String, String>,
    /// Whether it takes the jobs of runners that select no agent; see
    /// [`canyon_domain::agent::Agent::run_untagged_jobs`].
    pub run_untagged_jobs: Option<bool>,
    /// How it signs in, in each organization.
    pub identity: IdentitySettings,
    /// The jobs' platform.
    pub dispatcher: DispatcherSettings,
    /// The folder of its key and of local jobs.
    pub state_dir: PathBuf,
    /// The most jobs at once.
    pub concurrency: u32,
    /// How long it waits for its jobs when it is asked to end.
    pub drain: Duration,
    /// Whether it ends after one job.
    pub single: bool,
    /// Whether it takes only jobs that were requested for it; see [`canyon_domain::agent::Agent::reserved`].
    pub reserved: bool,
    /// The address of the health server.
    pub listen_health: Option<Listen>,
    /// Certificate authorities to trust in addition to the system's.
    pub authorities: Option<Authorities>,
    /// The program `canyon-runner`, for local jobs.
    pub runner_program: Option<PathBuf>,
    /// Warnings for the log at the start.
    pub warnings: Vec<String>,
}

/// An address of a Canyon, without a slash at the end.
pub(crate) fn http_url(text: &str) -> Result<String, &'static str> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.filter(Url::has_host).ok_or("is not an http or https address")?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("contains a user name or a password; remove it");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("contains a query or a fragment; remove it");
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Parses a boolean: the values that Go programs accept (`strconv.ParseBool`), or yes or no.
pub(crate) fn boolean(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "true" | "t" | "1" | "yes" => Some(true),
        "false" | "f" | "0" | "no" => Some(false),
        _ => None,
    }
}

struct Reader<'a> {
    layer: &'a Layer,
    faults: &'a mut Faults,
}

impl Reader<'_> {
    fn get(&self, key: &str) -> Option<&Given> {
        self.layer.0.get(key)
    }

    fn parsed<T: FromStr>(&mut self, key: &str, wanted: &str) -> Option<T> {
        let Given { value, origin } = self.get(key)?.clone();
        let parsed = value.parse().ok();
        if parsed.is_none() {
            self.faults.add(&origin, format!("is not {wanted}"));
        }
        parsed
    }

    fn number(&mut self, key: &str, default: u32, range: std::ops::RangeInclusive<u32>) -> u32 {
        let wanted = format!("a number from {} to {}", range.start(), range.end());
        let Some(number) = self.parsed(key, &wanted) else { return default };
        if !range.contains(&number)
            && let Some(given) = self.get(key).cloned()
        {
            self.faults.add(&given.origin, format!("is not {wanted}"));
        }
        number
    }

    fn boolean(&mut self, key: &str) -> Option<bool> {
        let Given { value, origin } = self.get(key)?.clone();
        let read = boolean(&value);
        if read.is_none() {
            self.faults.add(&origin, "is neither true nor false");
        }
        read
    }

    fn id<T: FromStr<Err: ToString>>(&mut self, text: Option<&str>, origin: &str) -> Option<T> {
        let parsed = text?.parse();
        parsed
            .map_err(|error: T::Err| {
                self.faults.add(origin, format!("does not fit: {}", error.to_string()));
            })
            .ok()
    }

    fn api_url(&mut self) -> Option<String> {
        let Some(Given { value, origin }) = self.get("api_url").cloned() else {
            self.faults.missing("CANYON_API_URL", "set it to Canyon's address");
            return None;
        };
        http_url(&value).map_err(|reason| self.faults.add(&origin, reason)).ok()
    }

    fn name(&mut self) -> Option<AgentId> {
        if let Some(Given { value, origin }) = self.get("name").cloned() {
            return self.id(Some(&value), &origin);
        }
        let host = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
        let name = host.parse().ok();
        if name.is_none() {
            let reason = "the machine's name is not a valid agent name; set one";
            self.faults.missing("CANYON_AGENT_NAME", reason);
        }
        name
    }

    fn labels(&mut self) -> BTreeMap<String, String> {
        let Some(Given { value, origin }) = self.get("labels").cloned() else {
            return BTreeMap::new();
        };
        let mut labels = BTreeMap::new();
        for pair in value.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some((name, value)) if !name.is_empty() => {
                    let before = labels.insert(name.to_owned(), value.to_owned());
                    if before.is_some_and(|before| before != value) {
                        self.faults
                            .add(&origin, format!("has `{name}` twice, with different values"));
                    }
                }
                _ => self.faults.add(&origin, "is not NAME=VALUE,..."),
            }
        }
        if let Some(fault) = invalid_labels_reason(&labels) {
            self.faults.add(&origin, fault);
        }
        labels
    }

    /// What an agent of several organizations cannot have.
    fn check_sharing(&mut self) {
        let several = "but CANYON_RUNNER_PATH names several";
        if let Some(Given { origin, .. }) = self.get("token").cloned() {
            let instead = "use the agent's key, or a service account of each";
            self.faults.add(&origin, format!("is of one organization, {several}: {instead}"));
        }
        if self.boolean("single") == Some(true)
            && let Some(Given { origin, .. }) = self.get("single").cloned()
        {
            self.faults.add(&origin, format!("is for one job of one organization, {several}"));
        }
        if let Some(Given { value, origin }) = self.get("job_dispatcher_type").cloned()
            && value == DispatcherType::Local.as_str()
        {
            let reason = format!(
                "is `local`, {several} organizations: their jobs would be processes of one user, and could read each other's secrets"
            );
            self.faults.add(&origin, reason);
        }
    }

    fn state_dir(&mut self, machine: &Machine<'_>) -> Option<PathBuf> {
        let given = self.get("state_dir").map(|given| PathBuf::from(&given.value));
        // systemd sets this variable to the folder that it created for the service (`StateDirectory=`).
        let systemd = || (machine.variable)("STATE_DIRECTORY").map(PathBuf::from);
        let home = || {
            let home = (machine.variable)("HOME")?;
            Some(Path::new(&home).join(".local/state/canyon-agent"))
        };
        let found =
            given.or_else(systemd).or_else(home).and_then(|path| std::path::absolute(path).ok());
        if found.is_none() {
            self.faults.missing(
                "CANYON_AGENT_STATE_DIR",
                "set the folder in which the agent keeps its key",
            );
        }
        found
    }
}

impl Settings {
    /// Whether other organizations use the agent too.
    pub fn is_shared(&self) -> bool {
        self.served.len() > 1
    }

    /// Reads the settings of `layer`.
    ///
    /// # Errors
    ///
    /// All settings that are missing, unknown or contradictory, at once.
    pub fn read(layer: &Layer, machine: &Machine<'_>, mut faults: Faults) -> Result<Self, Faults> {
        let mut reader = Reader { layer, faults: &mut faults };
        let api_url = reader.api_url();
        let served = reader.served();
        let identity = identity::read(layer, machine, reader.faults);
        let dispatcher = DispatcherSettings::read(layer, reader.faults);
        let name = reader.name();
        let state_dir = reader.state_dir(machine);
        // All settings are read before the result is built, so that every fault is reported.
        let labels = reader.labels();
        let concurrency = reader.number("concurrency", 10, 1..=10_000);
        let drain = reader.number("drain_seconds", 30, 0..=86_400);
        let single = reader.boolean("single").unwrap_or_default();
        let run_untagged_jobs = reader.boolean("run_untagged_jobs");
        let listen_health = reader.parsed("listen_health", Listen::FORM);
        let authorities = authorities::read(layer, reader.faults);
        if served.len() > 1 {
            reader.check_sharing();
        }
        let runner_program = layer.0.get("runner_program").map(|given| PathBuf::from(&given.value));
        let settings = (|| {
            Some(Self {
                warnings: warnings(layer, api_url.as_deref()?, dispatcher.as_ref()?),
                api_url: api_url?,
                served,
                name: name?,
                labels,
                run_untagged_jobs,
                identity: identity?,
                dispatcher: dispatcher?,
                state_dir: state_dir?,
                concurrency,
                drain: Duration::from_secs(drain.into()),
                single,
                reserved: false,
                listen_health,
                authorities,
                runner_program,
            })
        })();
        if let Some(given) =
            layer.0.get("log_format").filter(|given| !["text", "json"].contains(&&*given.value))
        {
            faults.add(&given.origin, "is neither text nor json");
        }
        match settings {
            Some(settings) if faults.is_empty() => Ok(settings),
            _ => Err(faults),
        }
    }
}

fn warnings(layer: &Layer, api_url: &str, dispatcher: &DispatcherSettings) -> Vec<String> {
    let own = [plain_http(api_url), foreign_host(layer, api_url)];
    own.into_iter().flatten().chain(dispatcher.warnings()).collect()
}

fn plain_http(api_url: &str) -> Option<String> {
    let host = Url::parse(api_url).ok();
    let is_plain = host.as_ref().is_some_and(|url| url.scheme() == "http");
    let is_here = host
        .as_ref()
        .and_then(Url::host_str)
        .is_some_and(|host| matches!(host, "localhost" | "[::1]") || host.starts_with("127."));
    (is_plain && !is_here).then(|| {
        format!("{api_url} is not https: anyone on the network in between can read and change the traffic")
    })
}

/// In other products this setting is the host of the web pages that name the API. Canyon's address is the API's own.
fn foreign_host(layer: &Layer, api_url: &str) -> Option<String> {
    let Given { value, origin } = layer.0.get("service_discovery_host")?;
    let url = Url::parse(api_url).ok()?;
    let host = url.host_str()?;
    let fits = value == host || url.port().is_some_and(|port| *value == format!("{host}:{port}"));
    (!fits).then(|| {
        format!("{origin} is not the host of {api_url}, and is not used: the agent uses only that address")
    })
}

#[cfg(test)]
mod tests;
