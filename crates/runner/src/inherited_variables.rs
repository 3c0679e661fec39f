//! The variables of the runner's own environment that the module gets: all that the job was started with, except
//! Canyon's own.

use canyon_domain::variables::may_be_set;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

/// The prefix of Canyon's own variables.
const CANYON_PREFIX: &str = "CANYON_";

/// Returns the `variables` that the module gets, and the names of those that were set for the job but that the
/// module does not get. A variable that repeats the claim code is left out too, such as `$(CANYON_CLAIM_CODE)` of a
/// pod template.
pub fn for_module(
    variables: &[(OsString, OsString)],
    claim_code: &str,
) -> (Vec<(OsString, OsString)>, Vec<String>) {
    let (mut passed, mut left_out) = (Vec::new(), Vec::new());
    for (name, value) in variables {
        let text = name.to_string_lossy();
        if text.starts_with(CANYON_PREFIX) {
            continue;
        }
        if may_be_set(&text) && !contains(value, claim_code) {
            passed.push((name.clone(), value.clone()));
        } else {
            left_out.push(text.into_owned());
        }
    }
    (passed, left_out)
}

fn contains(value: &OsStr, part: &str) -> bool {
    value.as_bytes().windows(part.len().max(1)).any(|window| window == part.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_gets_every_variable_except_canyons_own_and_those_that_break_the_run() {
        let variables = [
            ("CANYON_CLAIM_CODE", "cyc_1"),
            ("COPY", "code: cyc_1."),
            ("DATABASE_URL", "postgres://db"),
            ("GIT_SSL_NO_VERIFY", "1"),
            ("TF_CLI_ARGS_apply", "-lock=false"),
            ("TF_TOKEN_registry_example_com", "t"),
            ("TF_WORKSPACE", "other"),
            ("XDG_CACHE_HOME", "/work/cache"),
        ];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let (passed, left_out) = for_module(&variables, "cyc_1");
        let names: Vec<_> = passed.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        let expected = [
            "DATABASE_URL",
            "GIT_SSL_NO_VERIFY",
            "TF_TOKEN_registry_example_com",
            "XDG_CACHE_HOME",
        ];
        assert_eq!(names, expected);
        assert_eq!(left_out, ["COPY", "TF_CLI_ARGS_apply", "TF_WORKSPACE"]);
    }
}
