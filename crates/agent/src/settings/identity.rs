//! The settings for how the agent signs in.

use super::faults::Faults;
use super::layers::{Given, Layer};
use secrecy::SecretString;
use std::path::{Path, PathBuf};

/// The path at which the kubelet puts a token for Canyon, if the pod asks for one. (The token at
/// `kubernetes.io/serviceaccount` is for the cluster's API server and is sent nowhere else.)
const PROJECTED: &str = "/var/run/secrets/canyon/token";
/// The host name of the metadata server in every Google Cloud.
const GCP_HOST: &str = "metadata.google.internal";

/// How the agent signs in.
#[derive(Clone, Debug)]
pub enum IdentitySettings {
    /// With a key that it creates in its state folder.
    OwnKey,
    /// With the key in this file.
    KeyFile(PathBuf),
    /// With a key that it creates in this Secret of its cluster: namespace and name.
    KeySecret(String, String),
    /// With a token.
    Token(SecretString),
    /// As the service account of each organization, with a token of its platform.
    ServiceAccount(SourceSettings),
}

/// The source of the platform's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceSettings {
    /// A file.
    File(PathBuf),
    /// Google Cloud's metadata server: its host, and the audience of the token.
    Gcp(String, String),
    /// A program, with its arguments.
    Helper(PathBuf, Vec<String>),
}

/// Facts about the machine that are not settings.
pub struct Machine<'a> {
    /// Reads a variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Whether a file exists.
    pub exists: &'a dyn Fn(&Path) -> bool,
}

const ONE_OF: [&str; 4] = ["token", "key_file", "key_secret", "service_account_path"];
const OF_ACCOUNTS: [&str; 5] = [
    "identity_source",
    "identity_token_file",
    "identity_audience",
    "credential_helper_cmd_path",
    "credential_helper_cmd_args",
];

/// Reads how the agent signs in; `None` after at least one fault.
pub(super) fn read(
    layer: &Layer,
    machine: &Machine<'_>,
    faults: &mut Faults,
) -> Option<IdentitySettings> {
    let get = |key: &str| layer.0.get(key);
    let methods: Vec<_> = ONE_OF.into_iter().filter_map(get).collect();
    if let [first, others @ ..] = &*methods {
        for other in others {
            let reason = format!(
                "contradicts {}: the agent signs in with one of them, so set only one",
                first.origin
            );
            faults.add(&other.origin, reason);
        }
    }
    if get("service_account_path").is_none() {
        for given in OF_ACCOUNTS.into_iter().filter_map(get) {
            let reason = "is for signing in as a service account, but CANYON_SERVICE_ACCOUNT_PATH is \
                          not set";
            faults.add(&given.origin, reason);
        }
        return own(layer, faults);
    }
    source(layer, machine, faults).map(IdentitySettings::ServiceAccount)
}

fn own(layer: &Layer, faults: &mut Faults) -> Option<IdentitySettings> {
    if let Some(token) = layer.0.get("token") {
        return Some(IdentitySettings::Token(token.value.clone().into()));
    }
    if let Some(file) = layer.0.get("key_file") {
        return Some(IdentitySettings::KeyFile(file.value.clone().into()));
    }
    let Some(Given { value, origin }) = layer.0.get("key_secret") else {
        return Some(IdentitySettings::OwnKey);
    };
    let good = |part: &&str| {
        !part.is_empty()
            && part.len() <= 253
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
    };
    match value.split_once('/') {
        Some((namespace, name)) if [namespace, name].iter().all(good) => {
            Some(IdentitySettings::KeySecret(namespace.to_owned(), name.to_owned()))
        }
        _ => {
            faults.add(origin, "is not NAMESPACE/NAME of a Secret");
            None
        }
    }
}

fn source(layer: &Layer, machine: &Machine<'_>, faults: &mut Faults) -> Option<SourceSettings> {
    let get = |key: &str| layer.0.get(key);
    let wanted = get("identity_source").map(|given| (given.value.as_str(), given.origin.as_str()));
    let file = get("identity_token_file").map(|given| PathBuf::from(&given.value));
    let helper = get("credential_helper_cmd_path").map(|given| PathBuf::from(&given.value));
    if let (None, Some(arguments)) = (&helper, get("credential_helper_cmd_args")) {
        faults.add(&arguments.origin, "is set, but CANYON_CREDENTIAL_HELPER_CMD_PATH is not");
    }
    if let (Some(_), Some(given)) = (&helper, get("identity_token_file")) {
        faults.add(
            &given.origin,
            "contradicts CANYON_CREDENTIAL_HELPER_CMD_PATH: set only one of them",
        );
    }
    let aws = || (machine.variable)("AWS_WEB_IDENTITY_TOKEN_FILE").map(PathBuf::from);
    let projected = || Some(PathBuf::from(PROJECTED)).filter(|path| (machine.exists)(path));
    let missing = |faults: &mut Faults, setting: &str, reason: &str| {
        faults.missing(setting, reason);
        None
    };
    match wanted {
        Some(("file", _)) => file.or_else(projected).map(SourceSettings::File).or_else(|| {
            missing(faults, "CANYON_IDENTITY_TOKEN_FILE", "CANYON_IDENTITY_SOURCE is `file`")
        }),
        Some(("aws", _)) => aws().map(SourceSettings::File).or_else(|| {
            let reason = "CANYON_IDENTITY_SOURCE is `aws`, and EKS sets this variable in pods with a role for \
                          service accounts; elsewhere use a credential helper";
            missing(faults, "AWS_WEB_IDENTITY_TOKEN_FILE", reason)
        }),
        Some(("gcp", _)) => Some(gcp(layer, machine)),
        Some(("helper", _)) | None if helper.is_some() => with_helper(helper?, layer, faults),
        Some(("helper", _)) => {
            missing(faults, "CANYON_CREDENTIAL_HELPER_CMD_PATH", "CANYON_IDENTITY_SOURCE is `helper`")
        }
        Some((_, origin)) => {
            faults.add(origin, "is not one of file, aws, gcp and helper");
            None
        }
        None => file.or_else(projected).or_else(aws).map(SourceSettings::File).or_else(|| {
            let reason = "the service account needs a token of this platform: set this, \
                          CANYON_CREDENTIAL_HELPER_CMD_PATH, or CANYON_IDENTITY_SOURCE=gcp";
            missing(faults, "CANYON_IDENTITY_TOKEN_FILE", reason)
        }),
    }
}

fn gcp(layer: &Layer, machine: &Machine<'_>) -> SourceSettings {
    let host = (machine.variable)("GCE_METADATA_HOST").unwrap_or_else(|| GCP_HOST.to_owned());
    let audience = layer.0.get("identity_audience").map_or("canyon", |given| &given.value);
    SourceSettings::Gcp(host, audience.to_owned())
}

fn with_helper(program: PathBuf, layer: &Layer, faults: &mut Faults) -> Option<SourceSettings> {
    let Some(Given { value, origin }) = layer.0.get("credential_helper_cmd_args") else {
        return Some(SourceSettings::Helper(program, Vec::new()));
    };
    let words = words(value);
    if words.is_none() {
        faults.add(origin, "has a quote without an end");
    }
    Some(SourceSettings::Helper(program, words?))
}

/// Splits a line into arguments at white space; quotes of either kind keep text together. There is no shell, so no other
/// character has a special meaning.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_becomes_arguments_without_a_shell() {
        let of = |line| words(line).unwrap();
        assert_eq!(of("-region=us-east-2  -aud=canyon"), ["-region=us-east-2", "-aud=canyon"]);
        assert_eq!(of(r#"-a "b c" '' d'"'e"#), ["-a", "b c", "", r#"d"e"#]);
        assert_eq!(of("$(id) `id` ; a|b *"), ["$(id)", "`id`", ";", "a|b", "*"]);
        assert_eq!(words("-a 'b"), None);
    }
}
