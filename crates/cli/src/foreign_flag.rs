//! Flags as Terraform and OpenTofu write them, with one dash: which flag of `canyon` does the same.

use crate::error::CliError;

/// Of each flag, what to write instead.
const FLAGS: [(&str, &str); 14] = [
    ("-var", "write `--var NAME=VALUE`"),
    ("-var-file", "write `--var-file FILE`"),
    ("-target", "write `--target ADDRESS`"),
    ("-replace", "write `--replace ADDRESS`"),
    ("-parallelism", "write `--parallelism N`"),
    ("-destroy", "write `--destroy`, or run `canyon destroy`"),
    ("-auto-approve", "write `--yes`"),
    ("-force", "write `--yes`"),
    ("-json", "write `--out json`"),
    ("-raw", "write `--jq .`"),
    (
        "-out",
        "Canyon keeps no plan to apply later: `canyon plan` prints one, and `canyon deploy` plans again",
    ),
    ("-chdir", "name the folder of the module: `--module ./FOLDER`"),
    ("-help", "write `--help`"),
    ("-version", "run `canyon version`"),
];

/// The refusal that names the flag of `canyon`, if `error` is due to such a flag among the arguments `given`.
pub(crate) fn refusal(error: &clap::Error, given: &[String]) -> Option<CliError> {
    if !error.use_stderr() {
        return None;
    }
    let mut flags = given.iter().take_while(|one| *one != "--");
    let (flag, instead) = flags.find_map(|one| {
        let name = one.split_once('=').map_or(one.as_str(), |(name, _)| name);
        FLAGS.iter().find(|(flag, _)| *flag == name)
    })?;
    let message = format!("`{flag}` is a flag of OpenTofu, and `canyon` has its own");
    Some(CliError::usage_with_hint(message, *instead))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::command;
    use crate::hint::hint;

    /// The hint for a command line that clap refuses.
    fn refused(line: &str) -> Option<String> {
        let given: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let error = command().try_get_matches_from(&given).unwrap_err();
        refusal(&error, &given[1..]).map(|error| hint(&error).unwrap())
    }

    #[test]
    fn each_flag_of_opentofu_is_refused_with_that_of_canyon() {
        for (flag, instead) in FLAGS.iter().filter(|(flag, _)| *flag != "-help") {
            for line in [
                format!("canyon deploy shop dev --module m {flag}=x"),
                format!("canyon plan {flag} a"),
            ] {
                assert_eq!(refused(&line).as_deref(), Some(*instead), "{line}");
            }
        }
    }

    #[test]
    fn other_errors_are_left_to_clap() {
        for line in [
            "canyon deploy shop",
            "canyon deploy shop dev --target",
            "canyon deploy -- -var",
            "canyon -h",
        ] {
            assert_eq!(refused(line), None, "{line}");
        }
    }
}
