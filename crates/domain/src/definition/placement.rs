//! Where the job of a definition runs: what the definitions say of it, and the changes of a runner that this makes.
//!
//! Runner rules link each environment to one runner, with its limits and its trust. A definition may name another cluster, which
//! an account reaches, or the agent of another runner, and it may change the pod. See docs/decisions/0068.

use super::container_job::JobPlacement;
use crate::account::{AccountCredentials, AccountId, GKE};
use crate::defined_place::DefinedPlace;
use crate::ids::RunnerId;
use crate::runner::JobPlace;
use crate::runner::configuration::RunnerConfiguration;
use serde_json::{Map, Value};

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
    let (reached, auth) = credentials.cluster_access();
    if kind != reached {
        let of = credentials.account_type();
        return Err(format!(
            "its `cluster_type` is {kind}, and an account of type `{of}` reaches `{reached}`"
        ));
    }
    if reached == GKE {
        let (zone, region) = (members.remove("zone"), members.remove("region"));
        members.extend(zone.or(region).map(|location| ("location".to_owned(), location)));
    }
    members.insert("auth".to_owned(), Value::Object(auth));
    Ok(Some(Map::from_iter([
        ("type".to_owned(), format!("kubernetes-{reached}").into()),
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
