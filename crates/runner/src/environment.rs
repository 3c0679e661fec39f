//! The environments of the programs that the runner starts.
//!
//! OpenTofu, and with it the module, gets every variable that the job was started with, except Canyon's
//! own. The platform has built that environment from three sources: the variables of the runner's definition,
//! those of the image, and its own. A job of type `local` has the variables that its dispatcher passes on
//! (`canyon_dispatch::local`), and the definition's variables come with the claim, as do those that the organization keeps
//! for the environment.
//!
//! git fetches the module, and gets a fixed list: one of git's own variables could change what git does.

use crate::git_access::{GitAccess, ssh};
use crate::{identity, identity::files::Files, settings::Settings, workspace::Workspace};
use crate::{module_variables, registry_token};
use canyon_domain::ids::ProjectId;
use canyon_domain::job::Job;
use canyon_domain::job_identity::TokenPhase;
use canyon_domain::variables::job::JobVariable;
use canyon_domain::variables::{SET_BY_RUNNER, may_be_set};
use secrecy::{ExposeSecret as _, SecretString};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The variables of the job's environment that git gets.
const FOR_GIT: [&str; 15] = [
    "PATH",
    "HOME",
    "LANG",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "SSH_AUTH_SOCK",
];

/// Names and values. Of two with the same name, the last one counts.
pub type Variables = Vec<(OsString, OsString)>;

/// The names of variables that were set for `job` and do not reach the module.
pub fn left_out<'a>(settings: &'a Settings, job: &'a Job) -> impl Iterator<Item = &'a str> {
    let of_definition = job.environment.keys().map(String::as_str);
    let without_effect =
        of_definition.filter(|name| !may_be_set(name) || SET_BY_RUNNER.contains(name));
    settings.left_out.iter().map(String::as_str).chain(without_effect)
}

/// The environment of OpenTofu or Terraform in `phase`.
pub fn of_tofu(
    settings: &Settings,
    workspace: &Workspace,
    job: &Job,
    read_token: Option<&SecretString>,
    phase: TokenPhase,
) -> Variables {
    let mut variables = settings.inherited.clone();
    // The runner's variables come last: of two with the same name, the last one counts.
    add_read_token(&mut variables, settings, read_token);
    remove_identity_overrides(&mut variables, job);
    variables.extend(of_identity(workspace, job, phase));
    variables.extend(
        job.environment
            .iter()
            .filter(|(name, _)| may_be_set(name))
            .map(|(name, value)| set(name, value.as_ref())),
    );
    // What is kept for the environment is nearer than what the runner has for all its environments.
    let kept = job.variables.iter().filter_map(JobVariable::environment);
    variables.extend(
        kept.filter(|(name, _)| may_be_set(name)).map(|(name, value)| set(name, value.as_ref())),
    );
    variables.extend(of_context(settings, job));
    variables.extend([
        // Canyon's address and the project's groups, for modules that call the API.
        set("CANYON_ENDPOINT", settings.api_url.as_ref()),
        set("CANYON_GROUP_PATH", groups(&job.project_id).as_ref()),
        set("TMPDIR", workspace.temporary().as_os_str()),
        set("TF_DATA_DIR", workspace.data().as_os_str()),
        set("TF_IN_AUTOMATION", "1".as_ref()),
        set("TF_INPUT", "0".as_ref()),
        // Disables the version check that OpenTofu and Terraform make at each start.
        set("CHECKPOINT_DISABLE", "1".as_ref()),
    ]);
    trust_same_authorities(&mut variables);
    // If that file does not exist, OpenTofu prints a warning on standard output, which breaks its JSON.
    variables.retain(|(name, value)| name != "TF_CLI_CONFIG_FILE" || Path::new(value).exists());
    variables
}

/// Adds the variable with which a program reads modules from Canyon, unless the job was started with one.
pub fn add_read_token(
    variables: &mut Variables,
    settings: &Settings,
    read_token: Option<&SecretString>,
) {
    if let (Some(name), Some(token)) = (registry_token::variable(&settings.api_url), read_token)
        && !variables.iter().any(|(other, _)| *other == *name)
    {
        variables.push(set(&name, token.expose_secret().as_ref()));
    }
}

/// Removes what the platform has set and would take precedence over the job's identity.
pub fn remove_identity_overrides(variables: &mut Variables, job: &Job) {
    let Some(of) = &job.identity else { return };
    let overrides = |name: &OsStr| {
        name.to_str().is_some_and(|name| identity::environment::overrides_identity(of, name))
    };
    variables.retain(|(name, _)| !overrides(name));
}

/// The variables that name the files of the job's identity in `phase`.
pub fn of_identity(workspace: &Workspace, job: &Job, phase: TokenPhase) -> Variables {
    let Some(of) = &job.identity else { return Variables::new() };
    let (files, session) = (Files::new(workspace.identity()), job.deployment_id.to_string());
    let identity = identity::environment::variables(of, &files, phase, &session);
    identity.iter().map(|(name, value)| set(name, value.as_ref())).collect()
}

/// The variables with what a job knows of itself, such as `CANYON_PROJECT`.
pub fn of_context(settings: &Settings, job: &Job) -> Variables {
    let context = module_variables::context(&settings.org, job);
    context.iter().map(|(name, value)| set(&name.to_uppercase(), value.as_ref())).collect()
}

/// The variable `name`.
pub fn set(name: &str, value: &OsStr) -> (OsString, OsString) {
    (name.into(), value.to_owned())
}

/// The project's groups as a path, without the project itself; empty for a project without groups.
fn groups(project: &ProjectId) -> &str {
    project.as_str().rsplit_once('/').map_or("", |(groups, _)| groups)
}

/// The environment of git. git reads no configuration but this one, never prompts, and uses the protocol `scheme`, and
/// those of submodules, with the job's credentials.
pub fn of_git(settings: &Settings, scheme: &str, access: &GitAccess) -> Variables {
    let is_for_git = |name: &OsStr| name.to_str().is_some_and(|name| FOR_GIT.contains(&name));
    let inherited = settings.inherited.iter().chain(access.job_environment());
    let mut variables: Variables =
        inherited.filter(|(name, _)| is_for_git(name)).cloned().collect();
    // A list that git reads in place of its settings `protocol.*`.
    let protocols = match scheme {
        "https" | "ssh" => "https:ssh".to_owned(),
        other => format!("{other}:https:ssh"),
    };
    let ours = [
        ("GIT_ALLOW_PROTOCOL", protocols.as_str()),
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_LFS_SKIP_SMUDGE", "1"),
        ("GIT_ASKPASS", "true"),
        ("SSH_ASKPASS", "true"),
        ("GIT_SSH_VARIANT", "ssh"),
        ("LC_ALL", "C"),
        // No credential helper but one of the job's credentials.
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "credential.helper"),
        ("GIT_CONFIG_VALUE_0", ""),
    ];
    variables.extend(ours.map(|(name, value)| (name.into(), value.into())));
    variables.push(("GIT_SSH_COMMAND".into(), format!("ssh {}", ssh::OPTIONS.join(" ")).into()));
    variables.extend(access.variables(&variables));
    trust_same_authorities(&mut variables);
    variables
}

/// Makes git trust the certificate authorities that the job's other programs trust: the TLS of Debian's git does not read
/// `SSL_CERT_FILE`.
fn trust_same_authorities(variables: &mut Variables) {
    let value = |wanted: &str| variables.iter().rev().find(|(name, _)| name == wanted);
    if value("GIT_SSL_CAINFO").is_none()
        && let Some((_, file)) = value("SSL_CERT_FILE")
    {
        variables.push(("GIT_SSL_CAINFO".into(), file.clone()));
    }
}
