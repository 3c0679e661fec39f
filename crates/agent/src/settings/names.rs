//! Every setting by its names: in the file, as a flag, and in the environment.

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// In the file; with hyphens, the flag.
    pub key: &'static str,
    /// In the environment. The first is the one to use.
    pub variables: &'static [&'static str],
    /// Whether it is a flag too. A secret is not: everybody on the machine can read a command line.
    pub flag: bool,
    /// What it is.
    pub help: &'static str,
}

const fn name(key: &'static str, variables: &'static [&'static str], help: &'static str) -> Name {
    Name { key, variables, flag: true, help }
}

/// What begins the name of a setting of the jobs' platform: in the file it is a map of this name.
pub const DATA: &str = "job_dispatcher_data";
/// The same in the environment.
pub const DATA_VARIABLE: &str = "CANYON_JOB_DISPATCHER_DATA_";
/// Variables that begin so are settings, or mistakes. (Others that begin with `CANYON_` may be anybody's:
/// Kubernetes makes some for each Service, such as one that is called `canyon`.)
pub const OURS: [&str; 5] = [
    "CANYON_AGENT_",
    "CANYON_JOB_DISPATCHER_",
    "CANYON_CREDENTIAL_HELPER_",
    "CANYON_IDENTITY_",
    "CANYON_SERVICE_ACCOUNT_",
];

/// Whether Kubernetes has set it, in every pod beside a Service: its address and ports. Of a Service that is called
/// `canyon-agent` they begin like settings.
pub(super) fn is_of_a_service(variable: &str, value: &str) -> bool {
    if ["_SERVICE_HOST", "_SERVICE_PORT"].iter().any(|end| variable.ends_with(end))
        || variable.contains("_SERVICE_PORT_")
    {
        return true;
    }
    // A setting that somebody believes in may end so too, and has another value.
    let is_address = ["tcp://", "udp://", "sctp://"].iter().any(|by| value.starts_with(by));
    if variable.ends_with("_PORT") && is_address {
        return true;
    }
    let Some((_, port)) = variable.rsplit_once("_PORT_") else { return false };
    let parts: Vec<_> = port.split('_').collect();
    match *parts {
        [number, by] | [number, by, "ADDR" | "PORT" | "PROTO"] => {
            number.parse::<u16>().is_ok() && ["TCP", "UDP", "SCTP"].contains(&by)
        }
        _ => false,
    }
}

/// The settings, but for those of the jobs' platform.
pub const NAMES: [Name; 27] = [
    name("api_url", &["CANYON_API_URL", "CANYON_ENDPOINT"], "Where Canyon is"),
    name(
        "org",
        &["CANYON_ORG"],
        "The organization; without it, the first part of the runner's path",
    ),
    name(
        "runner_path",
        &["CANYON_RUNNER_PATH"],
        "The runner to serve: ORG/RUNNER. ORG alone: those that name this agent by its id or labels",
    ),
    name("name", &["CANYON_AGENT_NAME"], "The agent's name; without it, the machine's"),
    name("labels", &["CANYON_AGENT_LABELS"], "What runners may choose it by: NAME=VALUE,..."),
    name(
        "run_untagged_jobs",
        &["CANYON_AGENT_RUN_UNTAGGED_JOBS"],
        "Whether it takes the jobs of runners that name no agents [only with a runner to serve]",
    ),
    name(
        "service_account_path",
        &["CANYON_SERVICE_ACCOUNT_PATH"],
        "The service account to sign in as: ORG/ACCOUNT",
    ),
    name(
        "identity_source",
        &["CANYON_IDENTITY_SOURCE"],
        "What the place shows for it: file, aws, gcp or helper; without it, whichever is set up",
    ),
    name(
        "identity_token_file",
        &["CANYON_IDENTITY_TOKEN_FILE"],
        "A file with a token of the place, kept fresh by somebody",
    ),
    name(
        "identity_audience",
        &["CANYON_IDENTITY_AUDIENCE"],
        "The audience to ask Google Cloud's metadata server for [canyon]",
    ),
    name(
        "credential_helper_cmd_path",
        &["CANYON_CREDENTIAL_HELPER_CMD_PATH"],
        "A program that writes a token of the place",
    ),
    name(
        "credential_helper_cmd_args",
        &["CANYON_CREDENTIAL_HELPER_CMD_ARGS"],
        "Its arguments, separated by spaces; quotes keep them together",
    ),
    Name {
        key: "token",
        variables: &["CANYON_TOKEN"],
        flag: false,
        help: "A token with the role agent",
    },
    name(
        "key_file",
        &["CANYON_AGENT_KEY_FILE"],
        "The agent's own ed25519 key, PEM; without it, one is made in the state folder",
    ),
    name(
        "key_secret",
        &["CANYON_AGENT_KEY_SECRET"],
        "Where the agent keeps the key that it makes: NAMESPACE/NAME of a Secret of its cluster",
    ),
    name(
        "service_discovery_host",
        &["CANYON_SERVICE_DISCOVERY_HOST"],
        "Taken for compatibility, and not used: Canyon is found by its address",
    ),
    name(
        "job_dispatcher_type",
        &["CANYON_JOB_DISPATCHER_TYPE"],
        "What jobs run on: kubernetes, ecs, docker or local",
    ),
    name("state_dir", &["CANYON_AGENT_STATE_DIR"], "The folder of its key and of local jobs"),
    name("concurrency", &["CANYON_AGENT_CONCURRENCY"], "Most jobs at once [10]"),
    name(
        "drain_seconds",
        &["CANYON_AGENT_DRAIN_SECONDS"],
        "How long it stays for its jobs when it is to end; they go on without it [30]",
    ),
    name("single", &["CANYON_AGENT_SINGLE"], "Launch one job, wait for its end, and end"),
    name(
        "listen_health",
        &["CANYON_AGENT_LISTEN_HEALTH"],
        "Where to serve /livez, /readyz and /metrics, as ADDRESS:PORT, or :PORT for every address",
    ),
    name("log_format", &["CANYON_AGENT_LOG_FORMAT"], "text or json [text]"),
    name("log", &["CANYON_LOG"], "How much to log: error, warn, info, debug [info]"),
    name(
        "ca_file",
        &["CANYON_CA_FILE"],
        "Certificate authorities to trust besides the system's, PEM",
    ),
    name("ca_pem", &["CANYON_CA_PEM"], "The authorities themselves, in place of a file with them"),
    name(
        "runner_program",
        &["CANYON_AGENT_RUNNER_PROGRAM"],
        "The program canyon-runner, for local jobs; without it, the one beside the agent or on the PATH",
    ),
];
