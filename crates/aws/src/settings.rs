//! Settings of a function, from its environment variables, checked before anything else.
//!
//! A function with a missing or contradictory setting does not start, and reports in one line which
//! setting it is.

mod function;

pub use function::Function;

use secrecy::SecretString;
use std::time::Duration;
use url::Url;

const SIGNING_KEYS: &str = "CANYON_SIGNING_KEYS";
const JOB_SIGNING_KEYS: &str = "CANYON_JOB_SIGNING_KEYS";

/// The settings of a function. A setting that the function does not need is empty.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `CANYON_TABLE`: the name of the table.
    pub table: String,
    /// `CANYON_BUCKET`: the name of the bucket of logs, archives and outputs.
    pub bucket: String,
    /// `CANYON_API_URL`: address of the API for callers and runners.
    pub api_url: String,
    /// `CANYON_ISSUER_URL`: Canyon's URL as an OIDC issuer. Default: the API's address.
    pub issuer_url: String,
    /// `CANYON_SIGNING_KEYS`: KMS keys; the first signs, all are published.
    pub signing_keys: Vec<String>,
    /// `CANYON_JOB_SIGNING_KEYS`: the same for the issuer of jobs' tokens.
    pub job_signing_keys: Vec<String>,
    /// `CANYON_MASTER_KEY`: the KMS key that wraps the master key.
    pub master_key: String,
    /// `CANYON_MASTER_KEY_TABLE`: the table that the master key was created for, if this table was
    /// restored from its backup.
    pub master_key_table: Option<String>,
    /// `CANYON_EVENT_BUS`: name or ARN of the bus for Canyon's events.
    pub event_bus: String,
    /// `CANYON_CORS_ORIGINS`: origins of browser consoles that may call the API.
    pub cors_origins: Vec<String>,
    /// `CANYON_OPERATOR_TOKEN_HASH`: hash of the operator's token, with which a caller may create
    /// organizations.
    pub operator_token_hash: Option<String>,
    /// `CANYON_PRIVATE_ISSUERS`: issuers on a private network whose keys Canyon may fetch.
    pub private_issuers: Vec<String>,
    /// `CANYON_PRIVATE_ISSUERS_CA`: file of the certificate authorities of these issuers.
    pub private_issuers_ca: Option<String>,
    /// `CANYON_RUNNER_IMAGE`: default image of jobs, for runners that name none.
    pub runner_image: Option<String>,
    /// `CANYON_LOCAL_JOBS`: folder of jobs that run as processes beside the functions. For tests
    /// and development.
    pub local_jobs: Option<String>,
    /// `CANYON_ALLOW_LOCAL_CLUSTERS`: whether runners may use clusters on the machine of the
    /// functions.
    pub allow_local_clusters: bool,
    /// `CANYON_AGENT_POLL_SECONDS`: how long an idle agent waits between two polls. With 0, the
    /// default, the agent waits within the request (long polling).
    pub agent_poll_interval: Duration,
    /// Region, credentials and endpoints of AWS.
    pub aws: Account,
}

/// Region, credentials and endpoints of AWS. Lambda sets these variables.
#[derive(Clone, Debug)]
pub struct Account {
    /// `AWS_REGION`.
    pub region: String,
    /// `AWS_ACCESS_KEY_ID`.
    pub access_key_id: String,
    /// `AWS_SECRET_ACCESS_KEY`.
    pub secret_access_key: SecretString,
    /// `AWS_SESSION_TOKEN`.
    pub session_token: Option<SecretString>,
    /// `AWS_ENDPOINT_URL_<SERVICE>` or `AWS_ENDPOINT_URL`, in the order of [`Service`].
    endpoints: [Option<String>; 4],
}

/// A service of AWS that Canyon calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Holds the table.
    DynamoDb,
    /// Holds the blobs.
    S3,
    /// Holds the keys.
    Kms,
    /// Has the event bus.
    EventBridge,
}

impl Account {
    /// The configured endpoint of the service; `None` for that of the region.
    pub fn endpoint(&self, service: Service) -> Option<&str> {
        let [dynamodb, s3, kms, eventbridge] = &self.endpoints;
        match service {
            Service::DynamoDb => dynamodb.as_deref(),
            Service::S3 => s3.as_deref(),
            Service::Kms => kms.as_deref(),
            Service::EventBridge => eventbridge.as_deref(),
        }
    }
}

/// The setting because of which a function does not start, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("setting {name}: {reason}")]
pub struct SettingError {
    name: &'static str,
    reason: String,
}

impl SettingError {
    /// `reason` states the fault of the setting `name`, and what to do.
    pub fn new(name: &'static str, reason: impl Into<String>) -> Self {
        Self { name, reason: reason.into() }
    }
}

/// Variables of the process or of a test.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Variables<'_> {
    /// An empty variable counts as not set, because templates set empty ones.
    fn optional(&self, name: &str) -> Option<String> {
        (self.0)(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
    }

    fn required(&self, name: &'static str) -> Result<String, SettingError> {
        self.optional(name).ok_or_else(|| {
            SettingError::new(name, "it is missing; the template `infra/aws` sets it")
        })
    }

    /// The value of a setting; empty for a function that does not need it.
    fn needed(&self, name: &'static str, is_needed: bool) -> Result<String, SettingError> {
        if is_needed { self.required(name) } else { Ok(String::new()) }
    }

    fn list(&self, name: &str) -> Vec<String> {
        let text = self.optional(name).unwrap_or_default();
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(str::to_owned).collect()
    }

    /// Parses an address to which tokens may be sent; removes a slash at its end.
    fn url(name: &'static str, text: &str) -> Result<String, SettingError> {
        let wrong = |reason: &str| SettingError::new(name, format!("`{text}` {reason}"));
        let url: Url = text.parse().map_err(|_| wrong("is not a URL"))?;
        let local = match url.host() {
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            Some(url::Host::Domain(name)) => name == "localhost",
            None => return Err(wrong("names no host")),
        };
        if url.scheme() != "https" && !(url.scheme() == "http" && local) {
            return Err(wrong("must begin with https://"));
        }
        if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
            return Err(wrong("must have no query, fragment or user"));
        }
        Ok(text.trim_end_matches('/').to_owned())
    }

    fn account(&self) -> Result<Account, SettingError> {
        let common = self.optional("AWS_ENDPOINT_URL");
        let endpoint = |service: &str| {
            self.optional(&format!("AWS_ENDPOINT_URL_{service}")).or_else(|| common.clone())
        };
        Ok(Account {
            region: self.required("AWS_REGION")?,
            access_key_id: self.required("AWS_ACCESS_KEY_ID")?,
            secret_access_key: self.required("AWS_SECRET_ACCESS_KEY")?.into(),
            session_token: self.optional("AWS_SESSION_TOKEN").map(SecretString::from),
            endpoints: ["DYNAMODB", "S3", "KMS", "EVENTBRIDGE"].map(endpoint),
        })
    }

    fn signing_keys(&self, name: &'static str) -> Result<Vec<String>, SettingError> {
        let keys = self.list(name);
        if keys.is_empty() {
            return Err(SettingError::new(name, "it must name at least one KMS key"));
        }
        for (index, key) in keys.iter().enumerate() {
            if keys[..index].contains(key) {
                return Err(SettingError::new(name, format!("it names `{key}` twice")));
            }
        }
        Ok(keys)
    }

    /// `true` or `false`; the default is `false`.
    fn switch(&self, name: &'static str) -> Result<bool, SettingError> {
        match self.optional(name).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(other) => {
                Err(SettingError::new(name, format!("`{other}` is neither `true` nor `false`")))
            }
        }
    }

    /// Whole seconds from 0 to `most`; the default is 0.
    fn seconds(&self, name: &'static str, most: u64) -> Result<Duration, SettingError> {
        let Some(text) = self.optional(name) else { return Ok(Duration::ZERO) };
        let seconds = text.parse().ok().filter(|seconds| *seconds <= most);
        seconds.map(Duration::from_secs).ok_or_else(|| {
            SettingError::new(
                name,
                format!("`{text}` is not a whole number of seconds from 0 to {most}"),
            )
        })
    }

    fn operator_token_hash(&self) -> Result<Option<String>, SettingError> {
        const NAME: &str = "CANYON_OPERATOR_TOKEN_HASH";
        let hash = self.optional(NAME);
        let good = |hash: &String| {
            hash.len() == 43
                && hash.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if hash.as_ref().is_some_and(|hash| !good(hash)) {
            let reason = "it is not the hash that `canyon token new` prints (43 characters)";
            return Err(SettingError::new(NAME, reason));
        }
        Ok(hash)
    }
}

impl Settings {
    /// Reads the settings of this process, for `function`.
    ///
    /// # Errors
    ///
    /// [`SettingError`], which names the first faulty setting.
    pub fn read(function: Function) -> Result<Self, SettingError> {
        Self::from_variables(function, &|name| std::env::var(name).ok())
    }

    /// Like [`Settings::read`], from any variables.
    ///
    /// # Errors
    ///
    /// Like [`Settings::read`].
    pub fn from_variables(
        function: Function,
        variables: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, SettingError> {
        let variables = Variables(variables);
        let api_url = Variables::url("CANYON_API_URL", &variables.required("CANYON_API_URL")?)?;
        let issuer_url = match variables.optional("CANYON_ISSUER_URL") {
            Some(text) => Variables::url("CANYON_ISSUER_URL", &text)?,
            None => api_url.clone(),
        };
        let keys = |of: &'static str, needed: bool| {
            if needed { variables.signing_keys(of) } else { Ok(Vec::new()) }
        };
        let signing_keys = keys(SIGNING_KEYS, function.knows_signing_keys())?;
        let job_signing_keys = keys(JOB_SIGNING_KEYS, function.knows_job_signing_keys())?;
        if let Some(key) = job_signing_keys.iter().find(|key| signing_keys.contains(key)) {
            let reason =
                format!("`{key}` is also one of {SIGNING_KEYS}: the API may not sign as a runner");
            return Err(SettingError::new(JOB_SIGNING_KEYS, reason));
        }
        let master_key = variables.needed("CANYON_MASTER_KEY", function.seals())?;
        if signing_keys.iter().chain(&job_signing_keys).any(|key| *key == master_key) {
            let reason = "it is also one of the signing keys; use another KMS key";
            return Err(SettingError::new("CANYON_MASTER_KEY", reason));
        }
        Ok(Self {
            table: variables.needed("CANYON_TABLE", function.stores())?,
            bucket: variables.needed("CANYON_BUCKET", function.stores())?,
            api_url,
            issuer_url,
            signing_keys,
            job_signing_keys,
            master_key,
            master_key_table: variables.optional("CANYON_MASTER_KEY_TABLE"),
            event_bus: variables.needed("CANYON_EVENT_BUS", function.needs_bus())?,
            cors_origins: variables.list("CANYON_CORS_ORIGINS"),
            operator_token_hash: variables.operator_token_hash()?,
            private_issuers: variables.list("CANYON_PRIVATE_ISSUERS"),
            private_issuers_ca: variables.optional("CANYON_PRIVATE_ISSUERS_CA"),
            runner_image: variables.optional("CANYON_RUNNER_IMAGE"),
            local_jobs: variables.optional("CANYON_LOCAL_JOBS"),
            allow_local_clusters: variables.switch("CANYON_ALLOW_LOCAL_CLUSTERS")?,
            agent_poll_interval: variables.seconds("CANYON_AGENT_POLL_SECONDS", 20)?,
            aws: variables.account()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn good() -> HashMap<&'static str, &'static str> {
        HashMap::from([
            ("CANYON_TABLE", "canyon"),
            ("CANYON_BUCKET", "blobs"),
            ("CANYON_API_URL", "https://api.acme.com/"),
            ("CANYON_SIGNING_KEYS", "alias/a, alias/b"),
            ("CANYON_JOB_SIGNING_KEYS", "alias/j"),
            ("CANYON_MASTER_KEY", "alias/m"),
            ("CANYON_EVENT_BUS", "canyon"),
            ("CANYON_ISSUER_URL", ""),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "AKIA"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
            ("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:2"),
        ])
    }

    fn read(
        function: Function,
        change: (&'static str, &'static str),
    ) -> Result<Settings, SettingError> {
        let mut variables = good();
        variables.insert(change.0, change.1);
        let variable = |name: &str| variables.get(name).map(ToString::to_string);
        Settings::from_variables(function, &variable)
    }

    #[test]
    fn a_function_reads_the_settings_that_it_needs() {
        let settings = read(Function::Api, ("CANYON_LOG", "info")).unwrap();
        assert_eq!(settings.api_url, "https://api.acme.com");
        assert_eq!(settings.issuer_url, settings.api_url);
        assert_eq!(settings.job_signing_keys, ["alias/j"]);
        assert_eq!(settings.aws.endpoint(Service::S3), Some("http://127.0.0.1:2"));
        assert_eq!(settings.aws.endpoint(Service::Kms), Some("http://127.0.0.1:1"));
        assert!(!format!("{settings:?}").contains("\"secret\""), "a secret is never shown");
        // A function does not need settings that it does not use.
        for (function, unused) in [
            (Function::Events, "CANYON_SIGNING_KEYS"),
            (Function::Api, "CANYON_EVENT_BUS"),
            (Function::Api, "CANYON_SIGNING_KEYS"),
            (Function::Launcher, "CANYON_JOB_SIGNING_KEYS"),
            (Function::Issuer, "CANYON_TABLE"),
            (Function::Issuer, "CANYON_BUCKET"),
            (Function::Issuer, "CANYON_MASTER_KEY"),
            (Function::Issuer, "CANYON_EVENT_BUS"),
        ] {
            assert!(read(function, (unused, "")).is_ok(), "{function:?} without {unused}");
        }
    }

    #[test]
    fn the_api_reads_no_key_of_runners_and_the_issuer_reads_only_keys() {
        let api = read(Function::Api, ("CANYON_LOG", "info")).unwrap();
        assert_eq!(api.signing_keys, Vec::<String>::new());
        let issuer = read(Function::Issuer, ("CANYON_LOG", "info")).unwrap();
        assert_eq!(issuer.signing_keys, ["alias/a", "alias/b"]);
        assert_eq!(issuer.job_signing_keys, ["alias/j"]);
        let stored = (issuer.table, issuer.bucket, issuer.master_key, issuer.event_bus);
        assert_eq!(stored, Default::default(), "it only publishes");
    }

    #[test]
    fn a_faulty_setting_is_named_in_one_line() {
        let cases = [
            (Function::Api, "CANYON_TABLE", ""),
            (Function::Api, "CANYON_BUCKET", " "),
            (Function::Api, "CANYON_API_URL", "http://api.acme.com"),
            (Function::Api, "CANYON_API_URL", "api"),
            (Function::Api, "CANYON_ISSUER_URL", "https://acme.com/?x=1"),
            (Function::Launcher, "CANYON_SIGNING_KEYS", ","),
            (Function::Issuer, "CANYON_SIGNING_KEYS", ""),
            (Function::Issuer, "CANYON_SIGNING_KEYS", "alias/a,alias/a"),
            (Function::Api, "CANYON_JOB_SIGNING_KEYS", ""),
            (Function::Issuer, "CANYON_JOB_SIGNING_KEYS", ""),
            (Function::Issuer, "CANYON_JOB_SIGNING_KEYS", "alias/j,alias/b"),
            (Function::Api, "CANYON_MASTER_KEY", "alias/j"),
            (Function::Sweep, "CANYON_MASTER_KEY", "alias/a"),
            (Function::Launcher, "CANYON_EVENT_BUS", ""),
            (Function::Api, "CANYON_OPERATOR_TOKEN_HASH", "cya_token"),
            (Function::Api, "AWS_REGION", ""),
        ];
        for (function, name, value) in cases {
            let error = read(function, (name, value)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("setting {name}: ")), "{name}={value}: {error}");
            assert!(!error.contains('\n'));
        }
    }
}
