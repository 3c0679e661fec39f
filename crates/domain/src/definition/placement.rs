//! Where the job of a definition runs, compared with the runner of its environment.
//!
//! Runner rules link each environment to one runner, which says in which cluster and as whom jobs run. A definition chooses no other
//! place: what it says of one must be true of the runner.

use super::container_job::JobPlacement;
use super::resolution::Placement;
use crate::ids::RunnerId;
use crate::merge_patch::merge_patch;
use crate::runner::configuration::RunnerConfiguration;
use crate::runner::kubernetes::KubernetesJob;
use serde_json::{Map, Value};

/// What a definition says of the place of its jobs and is not true of a runner.
///
/// A runner without a cluster has no namespaces, service accounts and pods: there, what a definition says of them has no effect.
pub fn mismatches(of: &Placement, id: &RunnerId, runner: &RunnerConfiguration) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(agent) = of.agent.as_ref().filter(|agent| *agent != id) {
        found.push(format!("its `agent_url` is that of runner `{agent}`"));
    }
    if let Some(cluster) = &of.cluster
        && of.agent.is_none()
    {
        found.extend(other_cluster(cluster, runner));
    }
    if let Some(job) = runner.kubernetes_job() {
        found.extend(other_job(&of.job, job));
    }
    found
}

fn other_cluster(wanted: &Map<String, Value>, runner: &RunnerConfiguration) -> Option<String> {
    // The members of the cluster are below `cluster`, beside its account.
    let wanted = wanted.get("cluster").and_then(Value::as_object).unwrap_or(wanted);
    if wanted.is_empty() {
        return None;
    }
    let name = wanted.get("name").and_then(Value::as_str).unwrap_or_default();
    let Some(has) = runner.cloud_cluster() else {
        return Some(format!(
            "its cluster is `{name}`, and the runner names no cluster of a cloud"
        ));
    };
    let differs = |(field, wanted): (&String, &Value)| {
        let has = has.get(field).filter(|has| *has != wanted)?;
        Some(format!("its cluster has {field} {wanted}, and that of the runner {has}"))
    };
    wanted.iter().find_map(differs)
}

fn other_job(wanted: &JobPlacement, has: &KubernetesJob) -> Vec<String> {
    let mut found = Vec::new();
    let pairs = [
        ("namespace", &wanted.namespace, &has.namespace),
        ("service_account", &wanted.service_account, &has.service_account),
    ];
    for (field, wanted, has) in pairs {
        if let Some(wanted) = wanted.as_ref().filter(|wanted| *wanted != has) {
            found.push(format!(
                "its `job.{field}` is `{wanted}`, and that of the runner is `{has}`"
            ));
        }
    }
    if let Some(template) = &wanted.pod_template {
        let has = Value::Object(has.pod_template.clone().unwrap_or_default());
        let mut merged = has.clone();
        merge_patch(&mut merged, Value::Object(template.clone()));
        if merged != has {
            found.push(
                "its `job.pod_template` has what the runner's `job.pod_template` has not"
                    .to_owned(),
            );
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::RunnerDefinition;
    use serde_json::json;

    fn gke() -> RunnerConfiguration {
        let given = json!({
            "runner_configuration": {
                "type": "kubernetes-gke",
                "job": {"namespace": "humanitec-runner", "service_account": "runner-job",
                    "pod_template": {"spec": {"imagePullSecrets": [{"name": "ghcr"}], "nodeSelector": {"a": "b"}}}},
                "cluster": {"name": "my-cluster", "project_id": "my-gcp-project", "location": "europe-west3-a",
                    "auth": {"gcp_audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
                        "gcp_service_account": "x@my-gcp-project.iam.gserviceaccount.com"}},
            },
            "state_storage_configuration": {"type": "gcs", "bucket": "states"},
        });
        RunnerDefinition::parse(given).unwrap().configuration
    }

    fn placement(cluster: &Value, namespace: &str, template: &Value) -> Placement {
        let job = JobPlacement {
            namespace: Some(namespace.to_owned()),
            pod_template: template.as_object().cloned(),
            ..JobPlacement::default()
        };
        Placement { job, cluster: cluster.as_object().cloned(), agent: None }
    }

    #[test]
    fn a_definition_fits_the_runner_of_which_all_it_says_is_true() {
        let id: RunnerId = "eu".parse().unwrap();
        let cluster = json!({"account": "acme/cloud", "cluster": {"cluster_type": "gke", "name": "my-cluster",
            "project_id": "my-gcp-project", "zone": "europe-west3-a", "loadbalancer": "10.10.10.10"}});
        let template = json!({"spec": {"imagePullSecrets": [{"name": "ghcr"}]}});
        let found = |placement: &Placement| mismatches(placement, &id, &gke());
        assert_eq!(
            found(&placement(&cluster, "humanitec-runner", &template)),
            Vec::<String>::new()
        );
        let mut other = cluster.clone();
        other["cluster"]["name"] = json!("other");
        let reasons =
            found(&placement(&other, "else", &json!({"spec": {"hostNetwork": true}}))).join("\n");
        assert_eq!(
            reasons,
            "its cluster has name \"other\", and that of the runner \"my-cluster\"\n\
            its `job.namespace` is `else`, and that of the runner is `humanitec-runner`\n\
            its `job.pod_template` has what the runner's `job.pod_template` has not"
        );
        let agent = Placement { agent: Some("inside".parse().unwrap()), ..Placement::default() };
        assert_eq!(found(&agent), ["its `agent_url` is that of runner `inside`"]);
        assert_eq!(
            found(&Placement { agent: Some(id.clone()), ..Placement::default() }),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_runner_without_a_cluster_does_not_fit_a_definition_that_names_one() {
        let id: RunnerId = "laptop".parse().unwrap();
        let docker = json!({
            "runner_configuration": {"type": "docker", "job": {}},
            "state_storage_configuration": {"type": "gcs", "bucket": "states"},
        });
        let docker = RunnerDefinition::parse(docker).unwrap().configuration;
        let cluster = json!({"cluster": {"name": "my-cluster"}});
        let reasons = mismatches(&placement(&cluster, "x", &json!(null)), &id, &docker);
        assert_eq!(
            reasons,
            ["its cluster is `my-cluster`, and the runner names no cluster of a cloud"]
        );
        assert_eq!(
            mismatches(&placement(&json!({}), "x", &json!({"spec": {}})), &id, &docker),
            Vec::<String>::new()
        );
    }
}
