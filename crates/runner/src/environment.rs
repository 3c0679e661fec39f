//! The environments of the programs that the runner starts.
//!
//! Both begin empty. A variable of the runner's own environment goes on only if it is known to be
//! meant for the program: the claim code is in that environment too.

use crate::registry_token;
use crate::{identity, identity::files::Files, settings::Settings, workspace::Workspace};
use canyon_domain::ids::ProjectId;
use canyon_domain::job::Job;
use canyon_domain::job_identity::TokenPhase;
use secrecy::{ExposeSecret as _, SecretString};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// For every program.
const COMMON: [&str; 12] = [
    "PATH",
    "HOME",
    "LANG",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "SSH_AUTH_SOCK",
];

/// For OpenTofu: its own files, and the identity that the platform gave the job.
const FOR_TOFU: [&str; 2] = ["TF_CLI_CONFIG_FILE", "TF_PLUGIN_CACHE_DIR"];
const FOR_TOFU_PREFIXES: [&str; 6] =
    ["AWS_", "ARM_", "AZURE_", "GOOGLE_", "KUBERNETES_", "TF_VAR_"];

type Variables = Vec<(OsString, OsString)>;

fn inherited(settings: &Settings, wanted: impl Fn(&str) -> bool) -> Variables {
    let inherited = settings.inherited.iter();
    inherited.filter(|(name, _)| name.to_str().is_some_and(&wanted)).cloned().collect()
}

/// The environment of OpenTofu or Terraform in `phase`.
pub fn of_tofu(
    settings: &Settings,
    workspace: &Workspace,
    job: &Job,
    read_token: Option<&SecretString>,
    phase: TokenPhase,
) -> Variables {
    let own_token = registry_token::variable(&settings.api_url);
    let mut variables = inherited(settings, |name| {
        COMMON.contains(&name)
            || own_token.as_deref() == Some(name)
            || FOR_TOFU.contains(&name)
            || FOR_TOFU_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    });
    // OpenTofu warns on its standard output of a file that is not there, which spoils its JSON.
    variables.retain(|(name, value)| name != "TF_CLI_CONFIG_FILE" || Path::new(value).exists());
    // Ours come last: of two of a name, the last one counts.
    let set = |name: &str, value: &OsStr| (OsString::from(name), value.to_owned());
    if let (Some(name), Some(token)) = (own_token, read_token)
        && !variables.iter().any(|(other, _)| *other == *name)
    {
        variables.push(set(&name, token.expose_secret().as_ref()));
    }
    if let Some(of) = &job.identity {
        let against = |name: &OsStr| {
            name.to_str().is_some_and(|name| identity::environment::stands_against(of, name))
        };
        variables.retain(|(name, _)| !against(name));
        let (files, session) = (Files::new(workspace.identity()), job.deployment_id.to_string());
        let identity = identity::environment::variables(of, &files, phase, &session);
        variables.extend(identity.iter().map(|(name, value)| set(name, value.as_ref())));
    }
    variables.extend(
        job.environment
            .iter()
            .filter(|(name, _)| may_be_set(name))
            .map(|(name, value)| set(name, value.as_ref())),
    );
    variables.extend([
        // Whose Canyon it is and where in it, for modules that ask it something.
        set("CANYON_ENDPOINT", settings.api_url.as_ref()),
        set("CANYON_GROUP_PATH", groups(&job.project_id).as_ref()),
        set("TMPDIR", workspace.temporary().as_os_str()),
        set("TF_DATA_DIR", workspace.data().as_os_str()),
        set("TF_IN_AUTOMATION", "1".as_ref()),
        set("TF_INPUT", "0".as_ref()),
        // No call home at each start.
        set("CHECKPOINT_DISABLE", "1".as_ref()),
    ]);
    variables
}

/// The groups that a project lies in, as a path; empty for a plain project.
fn groups(project: &ProjectId) -> &str {
    project.as_str().rsplit_once('/').map_or("", |(groups, _)| groups)
}

/// `TF_CLI_ARGS` could add options such as `-lock=false` to every command.
fn may_be_set(name: &str) -> bool {
    !name.starts_with("TF_CLI_ARGS") && !name.starts_with("CANYON_")
}

/// The environment of git, which reads no configuration but ours, asks nobody, and speaks `scheme`
/// alone.
pub fn of_git(settings: &Settings, scheme: &str) -> Variables {
    let mut variables = inherited(settings, |name| COMMON.contains(&name));
    let ours = [
        ("GIT_ALLOW_PROTOCOL", scheme),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_LFS_SKIP_SMUDGE", "1"),
        ("GIT_ASKPASS", "true"),
        ("SSH_ASKPASS", "true"),
        // Trust on first use would be no trust: a job's first use is its only one.
        (
            "GIT_SSH_COMMAND",
            "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=20",
        ),
        ("GIT_SSH_VARIANT", "ssh"),
        ("LC_ALL", "C"),
    ];
    variables.extend(ours.map(|(name, value)| (name.into(), value.into())));
    variables
}
