//! The calls to a cluster, each with a time limit and explained errors.

use super::connect::{Connection, Connector};
use super::{errors, job, names, network_policy};
use crate::{DispatchError, JobRef, Target};
use canyon_domain::failure::Failure;
use canyon_domain::pod_template::CONTAINER;
use canyon_domain::to_json::to_json_text;
use futures::AsyncReadExt as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{
    DeleteParams, ListParams, LogParams, Patch, PatchParams, PostParams, Preconditions,
};
use kube::{Api, Client};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Limit of one call, including the connection.
const TIMEOUT: Duration = Duration::from_secs(15);
/// Limit of reading a container's output: by default the kubelet keeps 10 MiB of it in one file.
const OUTPUT_TIMEOUT: Duration = Duration::from_mins(1);
const OUTPUT_LIMIT: u64 = 64 * 1024 * 1024;
/// The number of Jobs in one page of a list: see the limits in `limited_body`.
const PAGE: u32 = 100;
/// The maximum number of pages of one list, because the server decides whether there is another.
const MAX_PAGES: u32 = 50;

/// Whether a call takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    /// It does.
    Real,
    /// The API server validates the request and does not store the object.
    Dry,
}

/// The outcome of a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Created {
    /// The object is new.
    Now,
    /// An object of that name exists.
    IsThere,
}

/// The cluster of one runner.
pub(super) struct Calls {
    connector: Arc<Connector>,
    target: Arc<Target>,
}

impl Calls {
    pub(super) fn new(connector: Arc<Connector>, target: Arc<Target>) -> Self {
        Self { connector, target }
    }

    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    /// Runs `work` with a client of the cluster; `what` describes it in messages. If the cluster
    /// rejects the client's credentials, runs it once more with a new client.
    pub(super) async fn call<T, F>(
        &self,
        what: &str,
        limit: Duration,
        work: impl Fn(Client) -> F,
    ) -> Result<T, DispatchError>
    where
        F: Future<Output = Result<T, kube::Error>>,
    {
        let mut is_second = false;
        loop {
            let Connection { client, place, .. } = self.connector.connect(&self.target).await?;
            match tokio::time::timeout(limit, work(client)).await {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(kube::Error::Api(status))) if status.code == 401 && !is_second => {
                    self.connector.drop_client(&self.target);
                    is_second = true;
                }
                Ok(Err(error)) => return Err(errors::explain(&place, what, error).await),
                Err(_) => return Err(errors::no_answer(&place, what)),
            }
        }
    }

    fn namespace(&self) -> Result<&str, DispatchError> {
        Ok(&job::settings(&self.target)?.namespace)
    }

    pub(super) async fn create(&self, wanted: &Job, run: Run) -> Result<Created, DispatchError> {
        let namespace = self.namespace()?;
        let how = &PostParams { dry_run: run == Run::Dry, ..PostParams::default() };
        self.call("create the Job", TIMEOUT, |client| async move {
            match Api::<Job>::namespaced(client, namespace).create(how, wanted).await {
                Ok(_) => Ok(Created::Now),
                Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                    Ok(Created::IsThere)
                }
                Err(error) => Err(error),
            }
        })
        .await
    }

    pub(super) async fn job(&self, job: &JobRef) -> Result<Option<Job>, DispatchError> {
        let (namespace, name) = (self.namespace()?, &names::job_name(job));
        self.call("read the Job", TIMEOUT, |client| async move {
            Api::<Job>::namespaced(client, namespace).get_opt(name).await
        })
        .await
    }

    pub(super) async fn pods(&self, job: &JobRef) -> Result<Vec<Pod>, DispatchError> {
        let namespace = self.namespace()?;
        let which = &ListParams::default().labels(&names::pods_of(&self.target, job));
        self.call("list the Job's pods", TIMEOUT, |client| async move {
            Ok(Api::<Pod>::namespaced(client, namespace).list(which).await?.items)
        })
        .await
    }

    pub(super) async fn all_jobs(&self) -> Result<Vec<JobRef>, DispatchError> {
        let namespace = self.namespace()?;
        let mut which = ListParams::default().labels(&names::jobs_of(&self.target)).limit(PAGE);
        let mut found = Vec::new();
        for _ in 0..MAX_PAGES {
            let this = &which;
            let page = self
                .call("list the runner's Jobs", TIMEOUT, |client| async move {
                    Api::<Job>::namespaced(client, namespace).list(this).await
                })
                .await?;
            found.extend(page.items.iter().filter_map(names::job_of));
            match page.metadata.continue_.filter(|next| !next.is_empty()) {
                Some(next) => which.continue_token = Some(next),
                None => break,
            }
        }
        Ok(found)
    }

    /// Suspends the Job, so that it creates no more pods, and notes the reason if there is one.
    pub(super) async fn suspend(
        &self,
        job: &JobRef,
        verdict: Option<&Failure>,
    ) -> Result<(), DispatchError> {
        let (namespace, name) = (self.namespace()?, &names::job_name(job));
        let mut change = json!({ "spec": { "suspend": true } });
        if let Some(verdict) = verdict {
            let text = to_json_text(verdict);
            change["metadata"] = json!({ "annotations": { names::VERDICT: text } });
        }
        let change = &Patch::Merge(change);
        self.call("suspend the Job", TIMEOUT, |client| async move {
            let jobs = Api::<Job>::namespaced(client, namespace);
            gone_is_fine(jobs.patch(name, &PatchParams::default(), change).await.map(drop))
        })
        .await
    }

    /// Deletes the pod with a grace period of `grace` seconds, or with the pod's own.
    pub(super) async fn delete_pod(
        &self,
        pod: &Pod,
        grace: Option<u32>,
    ) -> Result<(), DispatchError> {
        let namespace = self.namespace()?;
        let how = &DeleteParams { grace_period_seconds: grace, ..only(&pod.metadata) };
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        self.call("delete the Job's pod", TIMEOUT, |client| async move {
            let pods = Api::<Pod>::namespaced(client, namespace);
            gone_is_fine(pods.delete(name, how).await.map(drop))
        })
        .await
    }

    pub(super) async fn delete_job(&self, job: &Job) -> Result<(), DispatchError> {
        let namespace = self.namespace()?;
        let how = &DeleteParams {
            propagation_policy: DeleteParams::background().propagation_policy,
            ..only(&job.metadata)
        };
        let name = job.metadata.name.as_deref().unwrap_or_default();
        self.call("delete the Job", TIMEOUT, |client| async move {
            let jobs = Api::<Job>::namespaced(client, namespace);
            gone_is_fine(jobs.delete(name, how).await.map(drop))
        })
        .await
    }

    /// Why the cluster could create no pod for the Job. `None` also if Canyon may not read events.
    pub(super) async fn failed_create(&self, job: &JobRef) -> Option<String> {
        let (namespace, name) = (self.namespace().ok()?, &names::job_name(job));
        let which = &ListParams::default().fields(&format!(
            "involvedObject.kind=Job,involvedObject.name={name},reason=FailedCreate"
        ));
        let read = self.call("list the Job's events", TIMEOUT, |client| async move {
            Ok(Api::<Event>::namespaced(client, namespace).list(which).await?.items)
        });
        read.await.ok()?.into_iter().rev().find_map(|event| event.message)
    }

    /// The output of the attempt's container, as far as its node still has it.
    pub(super) async fn output(&self, job: &JobRef) -> Result<Vec<u8>, DispatchError> {
        self.log(job, LogParams::default()).await
    }

    pub(super) async fn last_output(&self, job: &JobRef) -> Result<Vec<u8>, DispatchError> {
        self.log(job, LogParams { tail_lines: Some(20), ..LogParams::default() }).await
    }

    async fn log(&self, job: &JobRef, which: LogParams) -> Result<Vec<u8>, DispatchError> {
        let namespace = self.namespace()?;
        let which = &LogParams { container: Some(CONTAINER.to_owned()), ..which };
        let pods = self.pods(job).await?;
        let name = pods.iter().find_map(|pod| pod.metadata.name.as_deref());
        let Some(name) = name else { return Ok(Vec::new()) };
        self.call("read the pod's log", OUTPUT_TIMEOUT, |client| async move {
            let pods = Api::<Pod>::namespaced(client, namespace);
            let mut output = Vec::new();
            match pods.log_stream(name, which).await {
                Ok(stream) => {
                    let mut stream = stream.take(OUTPUT_LIMIT);
                    stream.read_to_end(&mut output).await.map_err(kube::Error::ReadEvents)?;
                }
                // 400: the container has not started. 404: the pod or its output is gone.
                Err(kube::Error::Api(status)) if [400, 404].contains(&status.code) => {}
                Err(error) => return Err(error),
            }
            Ok(output)
        })
        .await
    }

    /// Creates or restores the `NetworkPolicy` against metadata services.
    pub(super) async fn refuse_metadata(&self, namespace: &str) -> Result<(), DispatchError> {
        let wanted = &network_policy::policy(namespace);
        let what = "apply the NetworkPolicy against metadata services";
        self.call(what, TIMEOUT, |client| async move {
            let policies = Api::<NetworkPolicy>::namespaced(client, namespace);
            let Some(found) = policies.get_opt(network_policy::NAME).await? else {
                return match policies.create(&PostParams::default(), wanted).await {
                    Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(()),
                    other => other.map(drop),
                };
            };
            if network_policy::is_same(&found, wanted) {
                return Ok(());
            }
            let change = json!({ "spec": &wanted.spec });
            let change = Patch::Merge(&change);
            policies.patch(network_policy::NAME, &PatchParams::default(), &change).await.map(drop)
        })
        .await
    }
}

/// Deletes this object, but no later one of the same name.
fn only(metadata: &ObjectMeta) -> DeleteParams {
    let preconditions =
        metadata.uid.clone().map(|uid| Preconditions { uid: Some(uid), resource_version: None });
    DeleteParams { preconditions, ..DeleteParams::default() }
}

/// Ignores 404 (the object is gone) and 409 (another object has its name).
fn gone_is_fine(done: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match done {
        Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => Ok(()),
        other => other,
    }
}
