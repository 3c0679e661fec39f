//! An example of each command, which its `--help` ends with.

use crate::arguments::Cli;
use clap::{Command, CommandFactory as _};

/// Of each command that does not have its own, the lines of its example.
const EXAMPLES: [(&str, &[&str]); 41] = [
    (
        "create",
        &[
            "canyon create project shop",
            "canyon create environment shop dev --set=env_type_id=development",
            "canyon create runner cluster --set-yaml=@runner.yaml",
            "canyon create token --scoped-role deployer:project_id=shop --description ci",
        ],
    ),
    ("get", &["canyon get environment shop dev", "canyon get runner cluster --out yaml"]),
    (
        "list",
        &[
            "canyon list environments shop",
            "canyon list variables --project shop",
            "canyon list variable-uses region",
            "canyon list deployments --out json --jq '.[].id'",
            "canyon list audit --subject projects/shop --since 24h",
        ],
    ),
    (
        "update",
        &[
            "canyon update runner cluster --set-yaml=@runner.yaml",
            "canyon update project shop --set=display_name=Shop",
        ],
    ),
    ("delete", &["canyon delete environment shop dev --wait", "canyon delete runner cluster"]),
    ("set", &["canyon set variable --project shop --env dev replicas=2"]),
    ("unset", &["canyon unset variable --project shop --env dev replicas"]),
    ("show", &["canyon show plan 0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000"]),
    ("approve", &["canyon approve 0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000 --comment discussed"]),
    ("discard", &["canyon discard 0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000"]),
    ("apply", &["canyon apply 0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000"]),
    ("explain", &["canyon explain variables shop dev"]),
    (
        "deploy",
        &[
            "canyon deploy shop dev --module ./app --var replicas=2",
            "canyon deploy shop dev --module ./app --secret-var-file db_password=password.txt",
            "canyon deploy shop dev --module git::https://github.com/acme/app.git?ref=v1.2.0 --no-wait",
        ],
    ),
    ("plan", &["canyon plan shop dev --module ./app --var replicas=2"]),
    ("rollback", &["canyon rollback shop dev"]),
    ("destroy", &["canyon destroy shop dev"]),
    (
        "import",
        &[
            "canyon import shop dev aws_vpc.main vpc-0a1b2c3d",
            "canyon import shop dev 'aws_instance.web[0]' i-0a1b2c3d --module ./app",
        ],
    ),
    (
        "state",
        &[
            "canyon state list shop dev",
            "canyon state show shop dev aws_vpc.main",
            "canyon state mv shop dev aws_vpc.main module.net.aws_vpc.main",
            "canyon state rm shop dev aws_vpc.old --yes",
            "canyon state pull shop dev > terraform.tfstate",
        ],
    ),
    ("force-unlock", &["canyon force-unlock shop dev 9a7bff58-e09d-5260-5a4f-13cb3c817dd5"]),
    ("wait", &["canyon wait shop dev --timeout 600"]),
    ("status", &["canyon status", "canyon status shop dev --watch"]),
    ("logs", &["canyon logs shop dev --tail 50"]),
    ("outputs", &["canyon outputs shop dev", "canyon outputs shop dev url"]),
    ("cancel", &["canyon cancel shop dev"]),
    ("refresh-runner", &["canyon refresh-runner shop dev --dry-run"]),
    ("doctor", &["canyon doctor runner cluster"]),
    ("adopt", &["canyon adopt agent rack-7"]),
    (
        "reject",
        &[
            "canyon reject 0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000 --comment later",
            "canyon reject agent rack-7",
        ],
    ),
    ("forget", &["canyon forget agent rack-7"]),
    ("disable", &["canyon disable runner cluster", "canyon disable agent rack-7"]),
    ("enable", &["canyon enable runner cluster", "canyon enable agent rack-7"]),
    ("usage", &["canyon usage", "canyon usage --deployments-days 365 --logs-days 90"]),
    ("limit", &["canyon limit runner cluster --jobs 4", "canyon limit runner cluster --none"]),
    (
        "login",
        &[
            "canyon login --api-url https://canyon.example.com --org acme",
            "canyon login --context prod --api-url https://canyon.example.com --org acme",
            "canyon login --device",
        ],
    ),
    ("logout", &["canyon logout", "canyon logout --context prod"]),
    ("whoami", &["canyon whoami", "canyon whoami --out json --jq .role"]),
    (
        "config",
        &[
            "canyon config get-contexts",
            "canyon config use-context prod",
            "canyon config rename-context acme prod",
        ],
    ),
    ("token", &["canyon token new"]),
    ("local", &["canyon local --listen 127.0.0.1:8080"]),
    ("completion", &["canyon completion bash > canyon.bash"]),
    ("version", &["canyon version"]),
];

/// The commands and flags of `canyon`, with their examples.
pub(crate) fn command() -> Command {
    let mut command = Cli::command();
    for (name, lines) in EXAMPLES {
        if command.find_subcommand(name).is_some_and(|found| found.get_after_help().is_none()) {
            let help = format!("Examples:\n  {}", lines.join("\n  "));
            command = command.mut_subcommand(name, |found| found.after_help(help));
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_examples_and_each_is_accepted() {
        let mut refused = Vec::new();
        for found in command().get_subcommands() {
            let name = found.get_name();
            let help = found.get_after_help().map(ToString::to_string).unwrap_or_default();
            let lines = help.split_once("Examples:\n").map(|(_, lines)| lines);
            for line in lines.unwrap_or_else(|| panic!("{name} has no examples")).lines() {
                let line = line.split(" > ").next().unwrap_or_default().replace('\'', "");
                let parsed = command().try_get_matches_from(line.split_whitespace());
                refused.extend(parsed.err().map(|error| format!("{line}: {error}")));
                assert!(
                    line.starts_with(&format!("  canyon {name} "))
                        || line.trim() == format!("canyon {name}")
                );
            }
        }
        assert!(refused.is_empty(), "{}", refused.concat());
    }
}
