//! The caller's own credentials for clouds and clusters, which a job on this machine gets.
//!
//! The job has a home folder of its own, so it would not find the files in the caller's. It gets their paths by the
//! variables that name them.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Prefixes of the variables in which providers find credentials.
const PREFIXES: [&str; 7] = ["AWS_", "ARM_", "AZURE_", "CLOUDSDK_", "GCLOUD_", "GOOGLE_", "KUBE_"];
const KUBECONFIG: &str = "KUBECONFIG";
const KUBE_CONFIG_PATH: &str = "KUBE_CONFIG_PATH";

/// The files and folders in the home folder, and the variables that name another one.
const FILES: [(&str, &str); 6] = [
    ("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials"),
    ("AWS_CONFIG_FILE", ".aws/config"),
    ("AZURE_CONFIG_DIR", ".azure"),
    ("CLOUDSDK_CONFIG", ".config/gcloud"),
    ("GOOGLE_APPLICATION_CREDENTIALS", ".config/gcloud/application_default_credentials.json"),
    (KUBECONFIG, ".kube/config"),
];
/// Variables with paths, besides those of [`FILES`]. Some are lists of paths.
const PATHS: [&str; 3] = ["AWS_WEB_IDENTITY_TOKEN_FILE", KUBE_CONFIG_PATH, "KUBE_CONFIG_PATHS"];
/// With one of these, the providers for Kubernetes do not read the kubeconfig.
const INSTEAD_OF_KUBECONFIG: [&str; 3] = [KUBE_CONFIG_PATH, "KUBE_CONFIG_PATHS", "KUBE_HOST"];

type Variables = BTreeMap<OsString, OsString>;

/// The variables that the job's providers get from this process.
pub(super) fn of_this_process() -> Variables {
    let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let folder = env::current_dir().unwrap_or_default();
    of(env::vars_os(), home.as_deref(), &folder, &Path::exists)
}

/// The same, for an environment, its home folder, its working folder and its files.
fn of(
    environment: impl IntoIterator<Item = (OsString, OsString)>,
    home: Option<&Path>,
    folder: &Path,
    exists: &dyn Fn(&Path) -> bool,
) -> Variables {
    let is_given = |(name, value): &(OsString, OsString)| is_credential(name) && !value.is_empty();
    let mut found: Variables = environment.into_iter().filter(is_given).collect();
    // The job has another working folder.
    for name in FILES.iter().map(|(name, _)| *name).chain(PATHS) {
        if let Some(paths) = found.get_mut(OsStr::new(name)) {
            *paths = absolute(paths, home, folder);
        }
    }
    for (name, file) in FILES {
        if let Some(path) = home.map(|home| home.join(file)).filter(|path| exists(path)) {
            found.entry(name.into()).or_insert_with(|| path.into());
        }
    }
    // OpenTofu's providers for Kubernetes and Helm do not read KUBECONFIG.
    let is_named = INSTEAD_OF_KUBECONFIG.iter().any(|name| found.contains_key(OsStr::new(name)));
    if let Some(paths) = found.get(OsStr::new(KUBECONFIG)).filter(|_| !is_named).cloned() {
        let are_several = env::split_paths(&paths).count() > 1;
        let name = if are_several { "KUBE_CONFIG_PATHS" } else { KUBE_CONFIG_PATH };
        found.insert(name.into(), paths);
    }
    found
}

fn is_credential(name: &OsStr) -> bool {
    let is_cloud = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    name.to_str().is_some_and(|name| name == KUBECONFIG || is_cloud(name))
}

/// A path, or a list of paths, with each path from the root of the file system on.
fn absolute(paths: &OsStr, home: Option<&Path>, folder: &Path) -> OsString {
    let whole = env::split_paths(paths).filter(|path| !path.as_os_str().is_empty()).map(|path| {
        match (path.strip_prefix("~"), home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => folder.join(path),
        }
    });
    // None of the parts of a list has its separator.
    env::join_paths(whole).unwrap_or_else(|_| paths.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(variables: &[(&str, &str)], files: &[&str]) -> BTreeMap<String, String> {
        let owned = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let exists = |path: &Path| files.iter().any(|file| Path::new(file) == path);
        let found = of(owned, Some(Path::new("/users/jane")), Path::new("/work"), &exists);
        let text = |text: OsString| text.into_string().unwrap();
        found.into_iter().map(|(name, value)| (text(name), text(value))).collect()
    }

    fn expected(variables: &[(&str, &str)]) -> BTreeMap<String, String> {
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_job_gets_the_variables_of_clouds_and_clusters_and_no_others() {
        let clouds = [
            ("ARM_CLIENT_ID", "a"),
            ("AWS_PROFILE", "b"),
            ("AZURE_TENANT_ID", "c"),
            ("CLOUDSDK_CORE_PROJECT", "d"),
            ("GCLOUD_PROJECT", "e"),
            ("GOOGLE_CREDENTIALS", "f"),
            ("KUBE_CTX", "g"),
        ];
        let others = [
            ("CANYON_TOKEN", "s"),
            ("KUBERNETES_SERVICE_HOST", "s"),
            ("AWS_REGION", ""),
            ("X", "s"),
        ];
        let all: Vec<_> = clouds.into_iter().chain(others).collect();
        assert_eq!(given(&all, &[]), expected(&clouds));
    }

    #[test]
    fn a_job_finds_the_files_in_the_callers_home_folder() {
        let files = [
            "/users/jane/.aws/credentials",
            "/users/jane/.aws/config",
            "/users/jane/.azure",
            "/users/jane/.config/gcloud",
            "/users/jane/.config/gcloud/application_default_credentials.json",
            "/users/jane/.kube/config",
        ];
        let [credentials, config, azure, gcloud, default, kube] = files;
        assert_eq!(
            given(&[], &files),
            expected(&[
                ("AWS_SHARED_CREDENTIALS_FILE", credentials),
                ("AWS_CONFIG_FILE", config),
                ("AZURE_CONFIG_DIR", azure),
                ("CLOUDSDK_CONFIG", gcloud),
                ("GOOGLE_APPLICATION_CREDENTIALS", default),
                ("KUBECONFIG", kube),
                ("KUBE_CONFIG_PATH", kube),
            ])
        );
        assert_eq!(given(&[], &[]), expected(&[]));
    }

    #[test]
    fn a_variable_takes_precedence_over_a_file_and_its_path_means_the_same_in_the_jobs_folder() {
        let files = ["/users/jane/.aws/config", "/users/jane/.kube/config"];
        let own = [("AWS_CONFIG_FILE", "aws.ini"), ("KUBECONFIG", "~/a:b:/c")];
        let paths = "/users/jane/a:/work/b:/c";
        assert_eq!(
            given(&own, &files),
            expected(&[
                ("AWS_CONFIG_FILE", "/work/aws.ini"),
                ("KUBECONFIG", paths),
                ("KUBE_CONFIG_PATHS", paths),
            ])
        );
        let own = [("KUBE_HOST", "https://k")];
        let found = given(&own, &files);
        assert!(!found.contains_key("KUBE_CONFIG_PATH"), "{found:?}");
    }
}
