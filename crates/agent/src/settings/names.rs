//! Every setting with its names: in the file, as a flag, and in the environment.

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// The name in the file; with hyphens instead of underscores, the flag.
    pub key: &'static str,
    /// The variables. Messages name the first one.
    pub variables: &'static [&'static str],
    /// Whether there is a flag. A secret has none, because every user of the machine can read a command line.
    pub flag: bool,
    /// The help text.
    pub help: &'static str,
}

const fn name(key: &'static str, variables: &'static [&'static str], help: &'static str) -> Name {
    Name { key, variables, flag: true, help }
}

/// The prefix of the settings of the jobs' platform; in the file, the name of a map.
pub const DATA: &str = "job_dispatcher_data";
/// The prefix of their variables.
pub const DATA_VARIABLE: &str = "CANYON_JOB_DISPATCHER_DATA_";
/// Variables with these prefixes are settings, or mistakes. (Other variables with `CANYON_` may have another origin:
/// Kubernetes sets some for each Service, for example for a Service called `canyon`.)
pub const OURS: [&str; 5] = [
    "CANYON_AGENT_",
    "CANYON_JOB_DISPATCHER_",
    "CANYON_CREDENTIAL_HELPER_",
    "CANYON_IDENTITY_",
    "CANYON_SERVICE_ACCOUNT_",
];

/// Whether Kubernetes has set the variable: it sets the address and ports of each Service in every pod. For a Service
/// called `canyon-agent`, these variables begin like settings.
pub(super) fn is_of_a_service(variable: &str, value: &str) -> bool {
    if ["_SERVICE_HOST", "_SERVICE_PORT"].iter().any(|end| variable.ends_with(end))
        || variable.contains("_SERVICE_PORT_")
    {
        return true;
    }
    // A mistaken setting may end in `_PORT` too, but it has another value.
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

/// The settings, except those of the jobs' platform.
pub const NAMES: [Name; 27] = [
    name("api_url", &["CANYON_API_URL", "CANYON_ENDPOINT"], "The address of Canyon's API"),
    name("org", &["CANYON_ORG"], "The organization; default: the first part of the runner's path"),
    name(
        "runner_path",
        &["CANYON_RUNNER_PATH"],
        "The runner to serve: ORG/RUNNER. With ORG alone: the runners that select this agent by its id or labels. Several, separated by commas, for organizations that share the agent",
    ),
    name("name", &["CANYON_AGENT_NAME"], "The agent's name; default: the machine's name"),
    name(
        "labels",
        &["CANYON_AGENT_LABELS"],
        "Labels by which runners may select this agent: NAME=VALUE,...",
    ),
    name(
        "run_untagged_jobs",
        &["CANYON_AGENT_RUN_UNTAGGED_JOBS"],
        "Whether it takes the jobs of runners that select no agent [only with a runner to serve]",
    ),
    name(
        "service_account_path",
        &["CANYON_SERVICE_ACCOUNT_PATH"],
        "The service account to sign in as: ORG/ACCOUNT; one for each organization",
    ),
    name(
        "identity_source",
        &["CANYON_IDENTITY_SOURCE"],
        "The source of the platform's token for it: file, aws, gcp or helper; default: the one that is set up",
    ),
    name(
        "identity_token_file",
        &["CANYON_IDENTITY_TOKEN_FILE"],
        "A file with a token of the platform, which the platform renews",
    ),
    name(
        "identity_audience",
        &["CANYON_IDENTITY_AUDIENCE"],
        "The audience to ask Google Cloud's metadata server for [canyon]",
    ),
    name(
        "credential_helper_cmd_path",
        &["CANYON_CREDENTIAL_HELPER_CMD_PATH"],
        "A program that prints a token of the platform",
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
        "The agent's own ed25519 key in PEM; default: the agent creates one in the state folder",
    ),
    name(
        "key_secret",
        &["CANYON_AGENT_KEY_SECRET"],
        "The Secret of the agent's cluster in which it keeps its key: NAMESPACE/NAME",
    ),
    name(
        "service_discovery_host",
        &["CANYON_SERVICE_DISCOVERY_HOST"],
        "Accepted for compatibility, and not used: the agent uses only Canyon's address",
    ),
    name(
        "job_dispatcher_type",
        &["CANYON_JOB_DISPATCHER_TYPE"],
        "The jobs' platform: kubernetes, ecs, docker or local",
    ),
    name("state_dir", &["CANYON_AGENT_STATE_DIR"], "The folder of its key and of local jobs"),
    name("concurrency", &["CANYON_AGENT_CONCURRENCY"], "The most jobs at once [10]"),
    name(
        "drain_seconds",
        &["CANYON_AGENT_DRAIN_SECONDS"],
        "How many seconds it waits for its jobs when it is asked to end; they go on without it [30]",
    ),
    name("single", &["CANYON_AGENT_SINGLE"], "Launch one job, wait for its end, and exit"),
    name(
        "listen_health",
        &["CANYON_AGENT_LISTEN_HEALTH"],
        "The address for /livez, /readyz and /metrics: ADDRESS:PORT, or :PORT for every address",
    ),
    name("log_format", &["CANYON_AGENT_LOG_FORMAT"], "text or json [text]"),
    name("log", &["CANYON_LOG"], "The log level: error, warn, info, debug [info]"),
    name(
        "ca_file",
        &["CANYON_CA_FILE"],
        "A file of certificate authorities to trust in addition to the system's, in PEM",
    ),
    name("ca_pem", &["CANYON_CA_PEM"], "The same authorities as PEM text instead of a file"),
    name(
        "runner_program",
        &["CANYON_AGENT_RUNNER_PROGRAM"],
        "The program canyon-runner, for local jobs; default: the one beside the agent or on the PATH",
    ),
];
