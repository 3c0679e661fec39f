//! What the kernel takes as the environment of a program. Beyond it, no program starts, and the kernel's error
//! (`Argument list too long`) names no variable.

use canyon_domain::failure::{Failure, FailureClass};
use rustix::process::{Resource, getrlimit};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The longest `NAME=VALUE` with its final NUL: `MAX_ARG_STRLEN` of Linux, for pages of 4 KiB.
const LONGEST: usize = 128 * 1024;

/// The most that Linux takes for arguments and environment together, whatever the limit of the stack
/// (`execve(2)`): three quarters of 8 MiB.
const MOST: u64 = 6 * 1024 * 1024;

/// The least that Linux takes (`ARG_MAX`).
const LEAST: u64 = 128 * 1024;

/// What is left for the arguments of a program, and for the variables that OpenTofu adds for its plugins.
const RESERVE: usize = 16 * 1024;

/// The pointer to a variable counts too.
const POINTER: usize = 8;

/// Refuses an environment that OpenTofu could not start with. Of two variables with the same name, the last one counts.
///
/// # Errors
///
/// A [`Failure`] that names the largest variable.
pub fn check(variables: &[(OsString, OsString)]) -> Result<(), Failure> {
    let stack = getrlimit(Resource::Stack).current.unwrap_or(u64::MAX);
    check_for_stack(variables, stack)
}

fn check_for_stack(variables: &[(OsString, OsString)], stack: u64) -> Result<(), Failure> {
    let sizes: BTreeMap<&OsStr, usize> = variables
        .iter()
        .map(|(name, value)| (name.as_os_str(), name.len() + value.len() + "=\0".len()))
        .collect();
    let Some((largest, size)) = sizes.iter().max_by_key(|(_, size)| **size) else { return Ok(()) };
    let largest = largest.to_string_lossy();
    if *size > LONGEST {
        return Err(refusal(format!(
            "the environment variable `{largest}` has {size} bytes with its name, and a program takes at most {LONGEST}; \
             shorten it, or give the value as a variable of the module"
        )));
    }
    let limit = usize::try_from((stack / 4).clamp(LEAST, MOST)).unwrap_or(usize::MAX);
    let whole: usize = sizes.values().map(|size| size + POINTER).sum();
    if whole > limit.saturating_sub(RESERVE) {
        let (count, limit) = (sizes.len(), limit - RESERVE);
        return Err(refusal(format!(
            "the environment has {whole} bytes in {count} variables, and a program takes at most {limit} here (a quarter of \
             the limit of the stack); the largest one is `{largest}` with {size} bytes"
        )));
    }
    Ok(())
}

fn refusal(message: String) -> Failure {
    Failure::new(FailureClass::Config, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn variable(name: &str, bytes: usize) -> (OsString, OsString) {
        let value = bytes - name.len() - "=\0".len();
        (name.into(), "x".repeat(value).into())
    }

    #[test]
    fn the_longest_variable_that_is_accepted_is_the_longest_that_the_kernel_takes() {
        for (bytes, is_accepted) in [(LONGEST, true), (LONGEST + 1, false)] {
            let variables = [variable("SHORT", 20), variable("LONG", bytes)];
            let checked = check(&variables).map_err(|failure| failure.message);
            assert_eq!(checked.is_ok(), is_accepted, "{checked:?}");
            let started = Command::new("true").env_clear().envs(variables).status();
            assert_eq!(started.is_ok(), is_accepted, "{started:?}");
            if let Err(message) = checked {
                assert!(message.contains("`LONG` has 131073 bytes"), "{message}");
            }
        }
    }

    #[test]
    fn all_variables_together_fit_a_quarter_of_the_stack() {
        let variables: Vec<_> =
            (0..20).map(|n| variable(&format!("VARIABLE_{n}"), 100_000 + n)).collect();
        let stack = 8 * 1024 * 1024;
        assert!(check_for_stack(&variables, stack).is_ok());
        let message = check_for_stack(&variables, stack / 2).unwrap_err().message;
        assert!(message.contains("2000350 bytes in 20 variables"), "{message}");
        assert!(message.contains("`VARIABLE_19` with 100019 bytes"), "{message}");
        // The last value of a name counts.
        let mut replaced = variables.clone();
        replaced.extend((0..20).map(|n| variable(&format!("VARIABLE_{n}"), 100)));
        assert!(check_for_stack(&replaced, stack / 2).is_ok());
    }
}
