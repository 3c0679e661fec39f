//! The variables of the runner's own environment that the module gets: all that the job was started with, except
//! Canyon's own.

use crate::certificates::{CERTIFICATES, CERTIFICATES_OF_JOB};
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
        if is_canyons(name) {
            continue;
        }
        let text = name.to_string_lossy();
        if may_be_set(&text) && !contains(value, claim_code) {
            passed.push((name.clone(), value.clone()));
        } else {
            left_out.push(text.into_owned());
        }
    }
    (passed, left_out)
}

/// The `variables` of its container that the program of a container job gets: all except Canyon's own and those that repeat
/// the claim code, and the container's own value of what the runner has replaced for itself.
pub fn of_container(
    variables: &[(OsString, OsString)],
    claim_code: &str,
) -> Vec<(OsString, OsString)> {
    let is_passed = |name: &OsStr, value: &OsStr| !is_canyons(name) && !contains(value, claim_code);
    let mut passed: Vec<_> =
        variables.iter().filter(|(name, value)| is_passed(name, value)).cloned().collect();
    let replaced = variables.iter().find(|(name, _)| name == CERTIFICATES_OF_JOB);
    if let Some((_, of_job)) = replaced {
        passed.retain(|(name, _)| name != CERTIFICATES);
        if !of_job.is_empty() {
            passed.push((CERTIFICATES.into(), of_job.clone()));
        }
    }
    passed
}

/// Whether the variable `name` is one of Canyon's own.
pub fn is_canyons(name: &OsStr) -> bool {
    name.as_bytes().starts_with(CANYON_PREFIX.as_bytes())
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

    #[test]
    fn the_program_of_a_container_job_gets_the_variables_of_its_image_as_they_are() {
        let of = |variables: &[(&str, &str)]| {
            let variables: Vec<_> =
                variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
            let passed = of_container(&variables, "cyc_1").into_iter();
            let text = |text: OsString| text.into_string().unwrap();
            passed
                .map(|(name, value)| format!("{}={}", text(name), text(value)))
                .collect::<Vec<_>>()
        };
        let image =
            [("TF_WORKSPACE", "own"), ("COPY", "cyc_1"), ("CANYON_ORG", "local"), ("A", "1")];
        assert_eq!(of(&image), ["TF_WORKSPACE=own", "A=1"]);
        let replaced =
            [("SSL_CERT_FILE", "/canyon/bin/ca-certificates.crt"), (CERTIFICATES_OF_JOB, "")];
        assert_eq!(of(&replaced), Vec::<String>::new());
        let replaced = [("SSL_CERT_FILE", "/canyon/bin/x"), (CERTIFICATES_OF_JOB, "/of/image")];
        assert_eq!(of(&replaced), ["SSL_CERT_FILE=/of/image"]);
    }
}
