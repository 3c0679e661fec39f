//! Platform `kubernetes`: jobs are Jobs of a cluster.

use super::values::Values;
use super::{Kind, KindError, aws};
use crate::settings::dispatcher::DispatcherSettings;
use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_dispatch::kubernetes::{ClusterSource, JobDefaults, KubernetesPlatform};
use canyon_dispatch::{Dispatcher, Platform as _, Target};
use canyon_domain::runner::RunnerType;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::OnceCell;

const PEM: &str = "-----BEGIN";

type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The kind `kubernetes`.
pub(super) fn kind(
    settings: &DispatcherSettings,
    variable: Variable<'_>,
) -> Result<Arc<dyn Kind>, KindError> {
    let (source, defaults) = read(settings, variable)?;
    let platform = Arc::new(KubernetesPlatform::for_agent(source, defaults));
    Ok(Arc::new(KubernetesKind { platform, place: OnceCell::new() }))
}

/// The access to the cluster, and the agent's defaults for all jobs there.
pub(super) fn read(
    settings: &DispatcherSettings,
    variable: Variable<'_>,
) -> Result<(ClusterSource, JobDefaults), KindError> {
    let mut values = Values::of(settings);
    let source = source(&mut values, variable);
    let defaults = defaults(&mut values, variable);
    if let Err(faults) = defaults.check() {
        values.faults.add("CANYON_JOB_DISPATCHER_DATA_*", format!("together: {faults}"));
    }
    match source {
        Some(source) if values.faults.is_empty() => Ok((source, defaults)),
        _ => Err(KindError(values.faults.to_string())),
    }
}

struct KubernetesKind {
    platform: Arc<KubernetesPlatform>,
    place: OnceCell<String>,
}

#[async_trait]
impl Kind for KubernetesKind {
    fn serves(&self) -> RunnerType {
        RunnerType::KubernetesAgent
    }

    async fn platform_id(&self) -> Result<String, KindError> {
        let place = self.place.get_or_try_init(|| self.platform.platform_id()).await;
        place.cloned().map_err(KindError::of)
    }

    fn dispatcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        self.platform.dispatcher(target)
    }
}

/// The access to the cluster. Without a setting, and in a pod, that is the pod's own service account.
fn source(values: &mut Values<'_>, variable: Variable<'_>) -> Option<ClusterSource> {
    let given = values.text("auth_type");
    let auth_type = given.as_deref().unwrap_or(match variable("KUBERNETES_SERVICE_HOST") {
        Some(_) => "in_cluster",
        None => "kube_config",
    });
    let used: &[&str] = match auth_type {
        "kube_config" => &["kube_config_path", "kube_config_context"],
        "x509_cert" => &["kube_server", "client_cert", "client_key", "ca_cert"],
        "eks_iam" => &["region", "eks_cluster"],
        _ => &[],
    };
    for name in [
        "kube_config_path",
        "kube_config_context",
        "kube_server",
        "client_cert",
        "client_key",
        "ca_cert",
        "region",
        "eks_cluster",
    ] {
        if !used.contains(&name) {
            values.refuse(name, &format!("is not for `auth_type` `{auth_type}`"));
        }
    }
    match auth_type {
        "in_cluster" => {
            let found = ClusterSource::of_pod(variable);
            if found.is_none() {
                let reason =
                    "is `in_cluster`, but this is not a pod: KUBERNETES_SERVICE_HOST is not set";
                values.fault("auth_type", reason);
            }
            found
        }
        "kube_config" => kubeconfig(values, variable),
        "x509_cert" => certificate(values),
        "eks_iam" => eks(values, variable),
        "runner_id_token" => {
            values.fault(
                "auth_type",
                "is `runner_id_token`, with which Canyon would have to sign in to the cluster itself. That needs no \
                 agent: use a runner of type `kubernetes` with `auth.oidc`",
            );
            None
        }
        _ => {
            let reason = "is not one of in_cluster, kube_config, x509_cert and eks_iam";
            values.fault("auth_type", reason);
            None
        }
    }
}

/// The kubeconfig, at the same paths as kubectl uses.
fn kubeconfig(values: &mut Values<'_>, variable: Variable<'_>) -> Option<ClusterSource> {
    let given = values.text("kube_config_path").or_else(|| variable("KUBECONFIG"));
    let of_home = || Some(PathBuf::from(variable("HOME")?).join(".kube/config"));
    let Some(path) = given.map(PathBuf::from).or_else(of_home).filter(|path| path.is_file()) else {
        values.fault(
            "kube_config_path",
            "is not a file: set it or KUBECONFIG to an existing file, or create ~/.kube/config",
        );
        return None;
    };
    Some(ClusterSource::KubeConfig { path, context: values.text("kube_config_context") })
}

fn certificate(values: &mut Values<'_>) -> Option<ClusterSource> {
    let reason = "`auth_type` is `x509_cert`";
    let server = values.required("kube_server", reason);
    if !server.is_empty() && !server.starts_with("https://") {
        values.fault("kube_server", "must begin with https://");
    }
    Some(ClusterSource::Certificate {
        server,
        authority: pem(values, "ca_cert")?,
        certificate: pem(values, "client_cert")?,
        key: pem(values, "client_key")?.into(),
    })
}

/// PEM in base64. The setting holds PEM, PEM in base64, or the path of a file with either.
fn pem(values: &mut Values<'_>, name: &str) -> Option<String> {
    let given = values.required(name, "`auth_type` is `x509_cert`");
    if given.is_empty() {
        return None;
    }
    let text = if given.starts_with('/') {
        match std::fs::read_to_string(&given) {
            Ok(text) => text,
            Err(error) => {
                values.fault(name, format!("is the path of a file that cannot be read: {error}"));
                return None;
            }
        }
    } else {
        given
    };
    if text.contains(PEM) {
        return Some(STANDARD.encode(text));
    }
    let packed: String = text.split_whitespace().collect();
    let unpacked = STANDARD.decode(&packed).unwrap_or_default();
    if !String::from_utf8_lossy(&unpacked).contains(PEM) {
        values.fault(
            name,
            "is neither PEM, nor PEM in base64, nor the absolute path of a file with either",
        );
        return None;
    }
    Some(packed)
}

fn eks(values: &mut Values<'_>, variable: Variable<'_>) -> Option<ClusterSource> {
    let reason = "`auth_type` is `eks_iam`";
    let region = aws::region(values, variable, reason);
    let cluster = values.required("eks_cluster", reason);
    let ambient = aws::ambient(values, &region, variable)?;
    Some(ClusterSource::EksIam { ambient, region, cluster })
}

fn defaults(values: &mut Values<'_>, variable: Variable<'_>) -> JobDefaults {
    JobDefaults {
        image: values.text("image").or_else(|| variable("CANYON_RUNNER_IMAGE")),
        namespace: values.text("namespace"),
        memory_request: values.text("memory_request"),
        memory_limit: values.text("memory_limit"),
        cpu_request: values.text("cpu_request"),
        cpu_limit: values.text("cpu_limit"),
        run_as_user: values.parsed("security_context_run_as_user", "a number"),
        run_as_group: values.parsed("security_context_run_as_group", "a number"),
        run_as_non_root: values.boolean("security_context_run_as_non_root"),
        node_selector: values.map("node_selector"),
        host_aliases: values.aliases("host_aliases"),
        annotations: values.map("pod_annotations"),
        labels: values.map("pod_labels"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::dispatcher::DispatcherType;

    #[tokio::test]
    async fn the_region_of_eks_is_the_setting_or_the_variable_of_aws_programs() {
        let region = |own: Option<&str>, machine: &[(&str, &str)]| {
            let own = own.map(|region| ("region", region));
            let data = [("auth_type", "eks_iam"), ("eks_cluster", "production")].into_iter();
            let data = data.chain(own).map(|(name, value)| (name.to_owned(), value.to_owned()));
            let settings = DispatcherSettings::of(DispatcherType::Kubernetes, data);
            let variable = |wanted: &str| {
                let found = machine.iter().find(|(name, _)| *name == wanted);
                found.map(|(_, value)| (*value).to_owned())
            };
            let mut values = Values::of(&settings);
            let source = source(&mut values, &variable);
            let faults = values.faults.to_string();
            let Some(ClusterSource::EksIam { region, .. }) = source else { return Err(faults) };
            if faults.is_empty() { Ok(region) } else { Err(faults) }
        };
        let (named, default) = (("AWS_REGION", "eu-west-1"), ("AWS_DEFAULT_REGION", "eu-west-2"));
        assert_eq!(region(Some("us-east-2"), &[named, default]).unwrap(), "us-east-2");
        assert_eq!(region(None, &[named, default]).unwrap(), "eu-west-1");
        assert_eq!(region(None, &[default]).unwrap(), "eu-west-2");
        let missing = region(None, &[]).unwrap_err();
        assert!(missing.contains("_REGION is not set: `auth_type` is `eks_iam`"), "{missing}");
    }
}
