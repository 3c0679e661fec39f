//! The settings of a Docker engine: how it is reached and what its jobs may have, as the owner of
//! the host sets it.

use super::engine_user::EngineUser;
use canyon_domain::runner::docker::is_extra_host;
use secrecy::SecretString;
use std::path::{Path, PathBuf};

/// The engine's address if no setting names one.
const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";
/// The minimum that the engine accepts (`docker run --memory`).
const LEAST_MEMORY: i64 = 6 * 1024 * 1024;
/// A job's memory limit if no setting names one, so that a job cannot exhaust the host.
const DEFAULT_MEMORY: i64 = 4 * 1024 * 1024 * 1024;

/// The settings as given. All are optional.
#[derive(Clone, Debug, Default)]
pub struct DockerSettings {
    /// The program whose settings these are.
    pub user: EngineUser,
    /// `unix:///PATH`, `tcp://HOST:PORT` or `https://HOST:PORT`. Default: `DOCKER_HOST`, else the
    /// usual socket.
    pub host: Option<String>,
    /// Folder with `ca.pem`, `cert.pem` and `key.pem` for an engine with TLS. Default:
    /// `DOCKER_CERT_PATH`.
    pub certificates: Option<PathBuf>,
    /// The runner image of jobs whose runner names no other.
    pub image: Option<String>,
    /// Whether the image is on the engine already and is never pulled.
    pub local_image: bool,
    /// Further entries of `/etc/hosts`: `NAME:ADDRESS`.
    pub extra_hosts: Vec<String>,
    /// The memory limit of a job, such as `512 MB`. For an agent the most that a runner may have, for `canyon local`
    /// the limit of jobs whose runner has none.
    pub memory_limit: Option<String>,
    /// A folder of the host for jobs: `HOST_PATH:CONTAINER_PATH`, with `:ro` at the end for
    /// read-only.
    pub bind_path: Option<String>,
    /// The user name for the registry of the image.
    pub registry_username: Option<String>,
    /// The password for the registry of the image.
    pub registry_password: Option<SecretString>,
    /// Network of the containers. Default: the engine's default network.
    pub network: Option<String>,
    /// Allows jobs to reach the metadata service of the machine's cloud, and so the machine's own
    /// credentials.
    pub acknowledge_host_credentials: bool,
}

/// An invalid setting of the Docker dispatcher.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{setting}` of the Docker dispatcher {reason}")]
pub struct SettingsError {
    /// The setting's name.
    pub setting: &'static str,
    /// What is wrong with it; continues the sentence after its name.
    pub reason: String,
}

/// The engine's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Host {
    Unix(String),
    Plain(String),
    Tls(String, PathBuf),
}

/// A folder of the host that is mounted into jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bind {
    pub(super) source: String,
    pub(super) target: String,
    pub(super) is_read_only: bool,
}

/// The validated settings.
#[derive(Clone, Debug)]
pub(super) struct ValidSettings {
    pub(super) user: EngineUser,
    pub(super) host: Host,
    pub(super) image: Option<String>,
    pub(super) local_image: bool,
    pub(super) extra_hosts: Vec<String>,
    /// In bytes.
    pub(super) memory: i64,
    pub(super) bind: Option<Bind>,
    pub(super) credentials: Option<(String, SecretString)>,
    pub(super) network: Option<String>,
    pub(super) acknowledge_host_credentials: bool,
}

impl DockerSettings {
    /// Validates the settings. `variable` reads the environment of the process.
    pub(super) fn check(
        self,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<ValidSettings, SettingsError> {
        let host = self.host.or_else(|| variable("DOCKER_HOST"));
        let certificates =
            self.certificates.or_else(|| variable("DOCKER_CERT_PATH").map(PathBuf::from));
        if !self.extra_hosts.iter().all(|entry| is_extra_host(entry)) {
            let rule = "must have entries NAME:ADDRESS, the address an IP or `host-gateway`";
            return Err(wrong("extra_hosts", rule));
        }
        let memory = self.memory_limit.as_deref().map_or(Ok(DEFAULT_MEMORY), memory)?;
        let credentials = match (self.registry_username, self.registry_password) {
            (Some(name), Some(password)) => Some((name, password)),
            (None, None) => None,
            (Some(_), None) => {
                return Err(wrong("registry_password", "is required with `registry_username`"));
            }
            (None, Some(_)) => {
                return Err(wrong("registry_username", "is required with `registry_password`"));
            }
        };
        Ok(ValidSettings {
            user: self.user,
            host: parse_host(host.as_deref().unwrap_or(DEFAULT_HOST), certificates.as_deref())?,
            image: self.image,
            local_image: self.local_image,
            extra_hosts: self.extra_hosts,
            memory,
            bind: self.bind_path.as_deref().map(bind).transpose()?,
            credentials,
            network: self.network.map(network).transpose()?,
            acknowledge_host_credentials: self.acknowledge_host_credentials,
        })
    }
}

fn wrong(setting: &'static str, reason: impl Into<String>) -> SettingsError {
    SettingsError { setting, reason: reason.into() }
}

fn parse_host(host: &str, certificates: Option<&Path>) -> Result<Host, SettingsError> {
    let (scheme, rest) = host.split_once("://").unwrap_or(("", host));
    match (scheme, certificates) {
        ("unix", _) if rest.starts_with('/') => Ok(Host::Unix(rest.to_owned())),
        ("tcp" | "https", Some(folder)) if !rest.is_empty() => {
            Ok(Host::Tls(rest.to_owned(), folder.to_owned()))
        }
        ("https", None) => Err(wrong(
            "host",
            "uses TLS, so DOCKER_CERT_PATH must name a folder with ca.pem, cert.pem and key.pem",
        )),
        ("tcp" | "http", None) if !rest.is_empty() => Ok(Host::Plain(rest.to_owned())),
        _ => Err(wrong(
            "host",
            "must be unix:///PATH, tcp://HOST:PORT or https://HOST:PORT (for an engine behind ssh, \
             forward its socket)",
        )),
    }
}

/// Parses a number and a unit as Docker does: each unit is 1024 of the one before.
fn memory(text: &str) -> Result<i64, SettingsError> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => Some(0),
        "k" | "kb" | "kib" | "ki" => Some(10),
        "m" | "mb" | "mib" | "mi" => Some(20),
        "g" | "gb" | "gib" | "gi" => Some(30),
        _ => None,
    };
    let bytes = number.parse::<i64>().ok().zip(shift).and_then(|(number, shift)| {
        number.checked_mul(1_i64 << shift).filter(|bytes| *bytes >= LEAST_MEMORY)
    });
    bytes.ok_or_else(|| {
        wrong(
            "memory_limit",
            "must be a whole number with a unit, such as 512 MB or 2 GB, and at least 6 MB",
        )
    })
}

fn bind(text: &str) -> Result<Bind, SettingsError> {
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, is_read_only) = match parts.as_slice() {
        [source, target] | [source, target, "rw"] => (*source, *target, false),
        [source, target, "ro"] => (*source, *target, true),
        _ => ("", "", false),
    };
    if !is_plain_path(source) || !is_plain_path(target) {
        let rule =
            "must be HOST_PATH:CONTAINER_PATH, or that and `:ro`, with absolute paths without `..`";
        return Err(wrong("bind_path", rule));
    }
    // With one of these mounts, a module would be root on the host.
    if source == "/" || source.ends_with("docker.sock") || source.ends_with("containerd.sock") {
        return Err(wrong(
            "bind_path",
            "would give jobs control of the host; mount a folder made for them",
        ));
    }
    if ["/", "/work", "/tmp", "/proc", "/sys", "/dev"].contains(&target) {
        return Err(wrong(
            "bind_path",
            format!("cannot be at `{target}` in the container, because the job uses that path"),
        ));
    }
    Ok(Bind { source: source.to_owned(), target: target.to_owned(), is_read_only })
}

fn is_plain_path(path: &str) -> bool {
    path.starts_with('/')
        && !path.contains(char::is_control)
        && !path.split('/').any(|part| part == "..")
}

fn network(name: String) -> Result<String, SettingsError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if name == "host" || name == "none" || name.is_empty() || !name.chars().all(is_name) {
        let rule = "must be the name of a network of the engine, and neither `host` (jobs would reach services \
                    on the host's loopback) nor `none` (jobs could not reach Canyon)";
        return Err(wrong("network", rule));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: DockerSettings) -> Result<ValidSettings, SettingsError> {
        settings.check(&|_| None)
    }

    #[test]
    fn memory_limits_parse_as_docker_parses_them() {
        let mb = 1024 * 1024;
        let cases = [
            ("42 MB", Some(42 * mb)),
            ("42mib", Some(42 * mb)),
            (" 512m ", Some(512 * mb)),
            ("2 GB", Some(2048 * mb)),
            ("6291456", Some(6 * mb)),
            ("5 MB", None),
            ("", None),
            ("MB", None),
            ("-1 GB", None),
            ("1.5 GB", None),
            ("4 TB", None),
            ("99999999999999 GB", None),
        ];
        for (text, expected) in cases {
            let found = check(DockerSettings {
                memory_limit: Some(text.to_owned()),
                ..DockerSettings::default()
            });
            match (found, expected) {
                (Ok(found), expected) => assert_eq!(Some(found.memory), expected, "{text}"),
                (Err(error), None) => assert_eq!(error.setting, "memory_limit"),
                (Err(error), Some(_)) => panic!("{text}: {error}"),
            }
        }
    }

    #[test]
    fn an_invalid_setting_is_named_in_its_error() {
        let text = |text: &str| Some(text.to_owned());
        let none = DockerSettings::default;
        let cases = [
            ("host", DockerSettings { host: text("ssh://somewhere"), ..none() }),
            ("host", DockerSettings { host: text("https://somewhere:2376"), ..none() }),
            ("host", DockerSettings { host: text("unix://relative"), ..none() }),
            ("extra_hosts", DockerSettings { extra_hosts: vec!["a".to_owned()], ..none() }),
            ("extra_hosts", DockerSettings { extra_hosts: vec!["a:b".to_owned()], ..none() }),
            ("bind_path", DockerSettings { bind_path: text("/a"), ..none() }),
            ("bind_path", DockerSettings { bind_path: text("/a/../b:/c"), ..none() }),
            ("bind_path", DockerSettings { bind_path: text("/var/run/docker.sock:/x"), ..none() }),
            ("bind_path", DockerSettings { bind_path: text("/a:/work"), ..none() }),
            ("network", DockerSettings { network: text("host"), ..none() }),
            ("network", DockerSettings { network: text("container:x"), ..none() }),
            ("registry_password", DockerSettings { registry_username: text("a"), ..none() }),
            (
                "registry_username",
                DockerSettings { registry_password: Some("hunter2".to_owned().into()), ..none() },
            ),
        ];
        for (setting, settings) in cases {
            let error = check(settings).unwrap_err();
            assert_eq!(error.setting, setting);
            assert!(error.to_string().contains(setting) && !error.to_string().contains("hunter2"));
        }
    }

    #[test]
    fn the_engines_address_comes_from_the_settings_or_the_environment() {
        let host = |settings: DockerSettings, variable: Option<&str>| {
            let variable = variable.map(str::to_owned);
            settings.check(&|name| (name == "DOCKER_HOST").then(|| variable.clone())?).unwrap().host
        };
        let none = DockerSettings::default;
        assert_eq!(host(none(), None), Host::Unix("/var/run/docker.sock".to_owned()));
        assert_eq!(host(none(), Some("unix:///a")), Host::Unix("/a".to_owned()));
        let given = DockerSettings { host: Some("tcp://h:2375".to_owned()), ..none() };
        assert_eq!(host(given.clone(), Some("unix:///a")), Host::Plain("h:2375".to_owned()));
        let with_tls = DockerSettings { certificates: Some("/certs".into()), ..given };
        assert_eq!(host(with_tls, None), Host::Tls("h:2375".to_owned(), "/certs".into()));
    }
}
