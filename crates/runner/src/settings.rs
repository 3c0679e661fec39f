//! The settings with which the platform starts a job.

use crate::inherited_variables;
use secrecy::{ExposeSecret as _, SecretString};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use url::Url;
use uuid::Uuid;

/// The address of Canyon's API.
const API_URL: &str = "CANYON_API_URL";
/// The deployment's organization.
const ORG: &str = "CANYON_ORG";
/// The deployment's id.
const DEPLOYMENT_ID: &str = "CANYON_DEPLOYMENT_ID";
/// The number of the attempt, from 1.
const ATTEMPT: &str = "CANYON_ATTEMPT";
/// `1` in a container: the runner also writes the log and the events to standard output.
const LOG_TO_STDOUT: &str = "CANYON_LOG_TO_STDOUT";
/// The image in which a container job runs.
const JOB_IMAGE: &str = "CANYON_JOB_IMAGE";
/// `1` on platforms that do not refuse images for root themselves.
const REFUSE_ROOT: &str = "CANYON_REFUSE_ROOT";
/// The `PATH` of a container whose image sets none.
pub(crate) const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The claim code, which is good for one claim.
pub(crate) const CLAIM_CODE: &str = "CANYON_CLAIM_CODE";

/// The settings, checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address of Canyon's API.
    pub api_url: String,
    /// The deployment's organization.
    pub org: String,
    /// The deployment's id.
    pub deployment: Uuid,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The claim code, which is good for one claim.
    pub claim_code: SecretString,
    /// Whether the runner also writes the log and the events to standard output; see [`crate::container_log`].
    pub log_to_stdout: bool,
    /// The `PATH` on which `tofu`, `terraform` and `git` are searched.
    pub search_path: OsString,
    /// The variables that the platform and the runner's definition set for the job, without Canyon's own;
    /// see [`crate::inherited_variables`].
    pub inherited: Vec<(OsString, OsString)>,
    /// The names of variables that were set for the job and that the module does not get.
    pub left_out: Vec<String>,
    /// The image in which the job runs, if that is the image of a container job.
    pub job_image: Option<String>,
    /// Whether a container job must not run as root.
    pub refuse_root: bool,
    /// The variables of the container, for the program of a container job.
    pub of_container: Vec<(OsString, OsString)>,
}

/// A setting that is missing or wrong. The message does not repeat its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} {reason}")]
pub struct InvalidSetting {
    name: &'static str,
    reason: &'static str,
}

impl Settings {
    /// Reads the process environment, and the claim code that [`crate::protection`] has removed from it.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`] names the first variable that is missing or wrong.
    pub fn from_environment(claim_code: Option<SecretString>) -> Result<Self, InvalidSetting> {
        let mut variables: Vec<_> = std::env::vars_os().collect();
        if let Some(code) = claim_code {
            variables.retain(|(name, _)| name != CLAIM_CODE);
            variables.push((CLAIM_CODE.into(), code.expose_secret().into()));
        }
        Self::read(&variables)
    }

    /// Reads `variables`.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`] names the first variable that is missing or wrong.
    pub fn read(variables: &[(OsString, OsString)]) -> Result<Self, InvalidSetting> {
        let text = |name: &'static str| {
            variables
                .iter()
                .find(|(key, _)| key == name)
                .and_then(|(_, value)| value.to_str())
                .filter(|value| !value.is_empty())
                .ok_or(InvalidSetting {
                    name,
                    reason: "is not set; Canyon sets it when it starts a job",
                })
        };
        let wrong = |name, reason| move || InvalidSetting { name, reason };
        let api_url = text(API_URL)?;
        Url::parse(api_url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(wrong(API_URL, "is not an http or https address"))?;
        let claim_code = text(CLAIM_CODE)?.to_owned();
        let (inherited, left_out) = inherited_variables::for_module(variables, &claim_code);
        let of_container = inherited_variables::of_container(variables, &claim_code);
        let attempt = text(ATTEMPT)?.parse().ok().filter(|number| *number > 0);
        Ok(Self {
            api_url: api_url.to_owned(),
            org: text(ORG)?.to_owned(),
            deployment: text(DEPLOYMENT_ID)?
                .parse()
                .map_err(|_| wrong(DEPLOYMENT_ID, "is not a uuid")())?,
            attempt: attempt.ok_or_else(wrong(ATTEMPT, "is not a number from 1"))?,
            claim_code: claim_code.into(),
            log_to_stdout: text(LOG_TO_STDOUT).is_ok_and(|value| value == "1"),
            search_path: text("PATH").unwrap_or(USUAL_PATH).into(),
            inherited,
            left_out,
            job_image: text(JOB_IMAGE).ok().map(str::to_owned),
            refuse_root: text(REFUSE_ROOT).is_ok_and(|value| value == "1"),
            of_container,
        })
    }

    /// The path of the executable program `name` on the search path.
    pub fn find_program(&self, name: &str) -> Option<PathBuf> {
        find_program(name, &self.search_path)
    }
}

/// The path of the executable program `name` on `search_path`.
pub fn find_program(name: &str, search_path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(search_path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| {
            rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
        })
}

/// Whether the job runs in a container, of which the platform keeps only the output.
pub fn is_in_container() -> bool {
    std::env::var_os(LOG_TO_STDOUT).is_some_and(|value| value == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Vec<(OsString, OsString)> {
        [
            (API_URL, "http://127.0.0.1:8080"),
            (ORG, "local"),
            (DEPLOYMENT_ID, "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000"),
            (ATTEMPT, "1"),
            (CLAIM_CODE, "code"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec()
    }

    #[test]
    fn each_bad_setting_is_named_and_its_value_is_not() {
        assert!(Settings::read(&good()).is_ok());
        let cases = [
            (API_URL, "ftp://x"),
            (API_URL, "localhost"),
            (ORG, ""),
            (DEPLOYMENT_ID, "7"),
            (ATTEMPT, "0"),
            (ATTEMPT, "one"),
            (CLAIM_CODE, ""),
        ];
        for (name, value) in cases {
            let mut variables = good();
            for (key, text) in &mut variables {
                if key == name {
                    *text = value.into();
                }
            }
            let error = Settings::read(&variables).unwrap_err().to_string();
            assert!(error.starts_with(name), "{name}={value}: {error}");
            assert!(value.len() < 2 || !error.contains(value), "{error}");
        }
        for (missing, _) in good() {
            let variables: Vec<_> = good().into_iter().filter(|(key, _)| *key != missing).collect();
            let error = Settings::read(&variables).unwrap_err().to_string();
            assert!(error.starts_with(missing.to_str().unwrap()), "{error}");
        }
    }

    #[test]
    fn an_image_without_a_path_has_the_usual_one() {
        let path = |value: Option<&str>| {
            let mut variables = good();
            variables.extend(value.map(|value| ("PATH".into(), value.into())));
            Settings::read(&variables).unwrap().search_path
        };
        assert_eq!(path(Some("/opt/bin")), "/opt/bin");
        assert_eq!((path(None), path(Some(""))), (USUAL_PATH.into(), USUAL_PATH.into()));
    }
}
