//! Where the job of a definition runs: what the definitions say of it, and the changes of a runner that this makes.
//!
//! Runner rules link each environment to one runner, with its limits and its trust. A definition may name another cluster, which
//! an account reaches, or the agent of another runner, and it may change the pod. See docs/decisions/0068.

use super::container_job::JobPlacement;
use crate::account::{AccountCredentials, AccountId};
use crate::field_error::FieldErrors;
use crate::ids::RunnerId;
use crate::merge_patch::merge_patch;
use crate::runner::configuration::RunnerConfiguration;
use crate::runner::{CONFIGURATION, JobPlace, RunnerDefinition};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// What definitions say of the place of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// What the definition itself says.
    pub job: JobPlacement,
    /// The cluster with its account, if a definition names one.
    pub cluster: Option<Map<String, Value>>,
    /// The runner whose agent launches the job.
    pub agent: Option<RunnerId>,
}

/// The changes of a runner for the jobs of a definition. A deployment keeps them: its job is found there as long as it lives,
/// whatever becomes of the definition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefinedPlace {
    /// The runner, if it is another than that of the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<RunnerId>,
    /// `type` and `cluster`, which replace those of the runner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Map<String, Value>>,
    /// What is merged into the runner's `job`.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub job: Map<String, Value>,
}

/// What a job keeps of its runner's `job` in a cluster, if the runner itself has none.
const KEPT_OUTSIDE_CLUSTERS: [&str; 3] = ["allowed_images", "identity", "timeouts"];
/// Fields of a published cluster that say how to reach programs in it, and nothing of jobs.
const NOT_OF_JOBS: [&str; 2] = ["loadbalancer", "loadbalancer_hosted_zone"];

impl Placement {
    /// The account that reaches the cluster.
    ///
    /// # Errors
    ///
    /// Why it names no account.
    pub fn account(&self) -> Result<Option<AccountId>, String> {
        let given = self.cluster.as_ref().and_then(|cluster| cluster.get("account"));
        let text = match given {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) => text.as_str(),
            Some(_) => return Err("its `cluster.account` is no text".to_owned()),
        };
        AccountId::of_reference(text)
            .map(Some)
            .map_err(|error| format!("its `cluster.account` is no account: {error}"))
    }

    /// The changes of `runner`, which the environment has, or which `agent` names. `credentials` are those of [`Self::account`].
    ///
    /// # Errors
    ///
    /// Why the definitions name no place.
    pub fn place(
        &self,
        runner: &RunnerConfiguration,
        credentials: Option<&AccountCredentials>,
    ) -> Result<DefinedPlace, String> {
        let cluster = match &self.cluster {
            // The agent is in its cluster.
            Some(cluster) if self.agent.is_none() => cluster_of(cluster, runner, credentials)?,
            Some(_) | None => None,
        };
        let is_in_cluster =
            cluster.is_some() || runner.runner_type().job_place() == JobPlace::Cluster;
        // Elsewhere there are no namespaces, service accounts and pods: published definitions have them in any case.
        let job = if is_in_cluster { self.job.changes() } else { Map::new() };
        Ok(DefinedPlace { runner: self.agent.clone(), cluster, job })
    }
}

impl JobPlacement {
    fn changes(&self) -> Map<String, Value> {
        let Self { namespace, service_account, pod_template, cluster: _ } = self;
        let given = [
            ("namespace", namespace.clone().map(Value::String)),
            ("service_account", service_account.clone().map(Value::String)),
            ("pod_template", pod_template.clone().map(Value::Object)),
        ];
        given.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

impl DefinedPlace {
    /// The runner with the changes.
    ///
    /// # Errors
    ///
    /// Every fault, by its path below `runner_configuration`.
    pub fn applied_to(&self, runner: &RunnerDefinition) -> Result<RunnerDefinition, FieldErrors> {
        let mut whole = runner.to_value();
        let configuration = &mut whole[CONFIGURATION];
        if let Some(cluster) = &self.cluster {
            let mut job = configuration["job"].take();
            if runner.runner_type().job_place() != JobPlace::Cluster
                && let Value::Object(members) = &mut job
            {
                members.retain(|name, _| KEPT_OUTSIDE_CLUSTERS.contains(&name.as_str()));
            }
            *configuration = Value::Object(cluster.clone());
            configuration["job"] = job;
        }
        if !self.job.is_empty() {
            merge_patch(&mut configuration["job"], Value::Object(self.job.clone()));
        }
        RunnerDefinition::parse_stored(whole)
            .and_then(RunnerDefinition::usable)
            .map_err(|faults| faults.below(CONFIGURATION))
    }

    /// The cluster that it names, as `TYPE NAME`.
    pub fn cluster_name(&self) -> Option<String> {
        let cluster = self.cluster.as_ref()?;
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let name = text(cluster.get("cluster")?.get("name"))?;
        Some(format!("{} {name}", text(cluster.get("type"))?))
    }

    /// Whether it changes nothing of `runner`.
    pub fn is_that_of(&self, runner: &RunnerDefinition) -> bool {
        self.runner.is_none()
            && self.applied_to(runner).is_ok_and(|changed| changed.to_value() == runner.to_value())
    }
}

/// The `type` and `cluster` of a runner in the cluster that a definition names; `None` if it names none, or the runner's own.
fn cluster_of(
    wanted: &Map<String, Value>,
    runner: &RunnerConfiguration,
    credentials: Option<&AccountCredentials>,
) -> Result<Option<Map<String, Value>>, String> {
    // The members of the cluster are below `cluster`, beside its account.
    let wanted = wanted.get("cluster").and_then(Value::as_object).unwrap_or(wanted);
    let mut members = wanted.clone();
    members.remove("account");
    members.retain(|name, _| !NOT_OF_JOBS.contains(&name.as_str()));
    if members.is_empty() {
        return Ok(None);
    }
    let Some(credentials) = credentials else {
        return match other_cluster(&members, runner) {
            None => Ok(None),
            Some(reason) => Err(format!(
                "{reason}, and no account is named that reaches another: add `account` to the cluster"
            )),
        };
    };
    let kind = members.remove("cluster_type").unwrap_or_default();
    let (runner_type, auth) = match (kind.as_str(), credentials) {
        (Some("gke"), AccountCredentials::GcpIdentity { gcp_audience, gcp_service_account }) => {
            let auth =
                json!({ "gcp_audience": gcp_audience, "gcp_service_account": gcp_service_account });
            let (zone, region) = (members.remove("zone"), members.remove("region"));
            members.extend(zone.or(region).map(|location| ("location".to_owned(), location)));
            ("kubernetes-gke", auth)
        }
        (Some("eks"), AccountCredentials::AwsRole { aws_role, session_name, sts_region }) => {
            let auth = json!({ "role_arn": aws_role, "session_name": session_name, "sts_region": sts_region });
            ("kubernetes-eks", auth)
        }
        (
            Some("aks"),
            AccountCredentials::AzureIdentity {
                azure_identity_tenant_id,
                azure_identity_client_id,
            },
        ) => {
            let auth = json!({ "tenant_id": azure_identity_tenant_id, "client_id": azure_identity_client_id });
            ("kubernetes-aks", auth)
        }
        (Some("gke" | "eks" | "aks"), _) => {
            return Err(format!(
                "its cluster is of type {kind}, which no account of type `{}` reaches",
                credentials.account_type()
            ));
        }
        _ => return Err(format!("its `cluster_type` is {kind}; there are `aks`, `eks` and `gke`")),
    };
    let mut auth = auth;
    if let Value::Object(auth) = &mut auth {
        auth.retain(|_, value| !value.is_null());
    }
    members.insert("auth".to_owned(), auth);
    Ok(Some(Map::from_iter([
        ("type".to_owned(), runner_type.into()),
        ("cluster".to_owned(), Value::Object(members)),
    ])))
}

/// How the cluster differs from that of the runner.
fn other_cluster(wanted: &Map<String, Value>, runner: &RunnerConfiguration) -> Option<String> {
    let name = wanted.get("name").and_then(Value::as_str).unwrap_or_default();
    let Some(has) = runner.cloud_cluster() else {
        return Some(format!(
            "its cluster is `{name}`, and the runner names no cluster of a cloud"
        ));
    };
    wanted.iter().find_map(|(field, wanted)| {
        let has = has.get(field).filter(|has| *has != wanted)?;
        Some(format!("its cluster has {field} {wanted}, and that of the runner {has}"))
    })
}

#[cfg(test)]
#[path = "placement_tests.rs"]
mod tests;
