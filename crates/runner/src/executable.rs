//! Chooses the program that runs the module.

use crate::settings::Settings;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::job::Executable;
use std::path::PathBuf;

/// Finds the program on the job's `PATH`.
///
/// # Errors
///
/// A [`Failure`] of class `config`, if the runner's image or machine does not have the program.
pub fn find(wanted: Executable, settings: &Settings) -> Result<PathBuf, Failure> {
    let names: &[&str] = match wanted {
        Executable::Any => &["tofu", "terraform"],
        Executable::Tofu => &["tofu"],
        Executable::Terraform => &["terraform"],
    };
    names.iter().find_map(|name| settings.find_program(name)).ok_or_else(|| {
        Failure::new(
            FailureClass::Config,
            format!(
                "`{}` is not on the PATH of the job; install it there, or use a runner image that has it",
                names.join("` or `")
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_chosen_program_is_found_and_a_missing_one_is_a_failure_of_class_config() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        let settings = [
            ("CANYON_API_URL", "http://127.0.0.1:1"),
            ("CANYON_ORG", "local"),
            ("CANYON_DEPLOYMENT_ID", "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000"),
            ("CANYON_ATTEMPT", "1"),
            ("CANYON_CLAIM_CODE", "code"),
            ("PATH", path),
        ];
        let settings = settings.map(|(name, value)| (name.into(), value.into())).to_vec();
        let settings = Settings::read(&settings).unwrap();
        let install = |name: &str, mode| {
            std::fs::write(folder.path().join(name), "").unwrap();
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(folder.path().join(name), permissions).unwrap();
        };
        let found = |wanted| {
            find(wanted, &settings)
                .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
                .map_err(|failure| failure.class)
        };
        assert_eq!(found(Executable::Any), Err(FailureClass::Config));
        install("terraform", 0o755);
        assert_eq!(found(Executable::Any).unwrap(), "terraform");
        install("tofu", 0o644);
        assert_eq!(found(Executable::Tofu), Err(FailureClass::Config), "it is not executable");
        install("tofu", 0o755);
        assert_eq!(found(Executable::Any).unwrap(), "tofu");
        assert_eq!(found(Executable::Terraform).unwrap(), "terraform");
    }
}
