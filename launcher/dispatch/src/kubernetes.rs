//! The kinds whose job is a Kubernetes Job: `kubernetes`, `kubernetes-gke`, `kubernetes-eks`,
//! `kubernetes-aks`, `kubernetes-agent`. They differ in how Canyon finds the cluster and signs in
//! there (`connect`).
//!
//! | step | what is called |
//! |---|---|
//! | `start` | creates the Job with a name that follows from the attempt; an existing Job is compared |
//! | `observe` | reads the Job, then its pods. A pod that can never run is ended, with the reason kept on the Job |
//! | `stop` | suspends the Job, so that it creates no more pods, and deletes the pod: with its own grace period, or one second |
//! | `tail` | reads the container's output, see `canyon_domain::container_log` |
//! | `forget` | deletes the Job; the cluster deletes its pods |
//!
//! Nothing is ever deleted with a grace period of zero: the object would be gone at once, and its
//! absence would no longer prove that the node has ended the containers.

mod calls;
mod check;
mod client;
mod cloud_answer;
mod cluster_id;
mod comparison;
mod connect;
mod container_job;
mod deaths;
mod defaults;
mod errors;
mod job;
mod limited_body;
mod local_clusters;
mod manifest;
mod names;
mod network_policy;
mod pods;
mod reach;
mod template;

use crate::check::CheckReports;
use crate::container_output;
use crate::{
    DispatchError, Dispatcher, JobRef, Launch, OnFailure, Platform, RemovalOutcome, Started,
    StopMode, TailStream, Target,
};
use async_trait::async_trait;
use calls::Calls;
use canyon_domain::commit::Commit;
use canyon_domain::deadline::Observation;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::ports::Clock as _;
use canyon_identity::federation::Federation;
use canyon_identity::system::System;
pub use connect::ClusterSource;
use connect::{AccessMethod, Connector};
pub use defaults::JobDefaults;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
pub use local_clusters::LocalClusters;
pub use manifest::manifest;
use pods::PodView;
use secrecy::ExposeSecret as _;
use std::sync::Arc;
use std::time::Duration;

/// How long `observe` waits for the end of a pod that can never run.
const END_WAIT: Duration = Duration::from_secs(5);
const END_POLL_PAUSE: Duration = Duration::from_millis(200);
/// The grace period of a kill: the minimum with which the node still confirms the end.
const KILL_GRACE_SECONDS: u32 = 1;

/// The platform of runners whose jobs are Kubernetes Jobs.
pub struct KubernetesPlatform {
    connector: Arc<Connector>,
    defaults: Arc<JobDefaults>,
}

impl KubernetesPlatform {
    /// Creates the platform, which signs in with tokens of `federation`. `image` is the runner
    /// image of jobs whose template names none.
    pub fn new(federation: Arc<Federation>, image: Option<String>, local: LocalClusters) -> Self {
        let defaults = JobDefaults { image, ..JobDefaults::default() };
        Self {
            connector: Arc::new(Connector::new(AccessMethod::Federation(federation), local)),
            defaults: Arc::new(defaults),
        }
    }

    /// Creates the platform of an agent, which launches for runners of type `kubernetes-agent`, in
    /// the cluster of `source`, which may be on its own machine. `defaults` fill in what a runner
    /// omits.
    pub fn for_agent(source: ClusterSource, defaults: JobDefaults) -> Self {
        let way = AccessMethod::InPlace(Box::new(source));
        Self {
            connector: Arc::new(Connector::new(way, LocalClusters::Allowed)),
            defaults: Arc::new(defaults),
        }
    }

    /// The Job that a start would create.
    ///
    /// # Errors
    ///
    /// If the runner's definition does not give a valid Job.
    pub fn job(&self, target: &Target, launch: &Launch) -> Result<Job, DispatchError> {
        job::job(target, &self.defaults, launch)
    }
}

impl Platform for Arc<KubernetesPlatform> {
    fn dispatcher(&self, target: &Arc<Target>) -> Arc<dyn Dispatcher> {
        Arc::new(KubernetesDispatcher {
            calls: Calls::new(self.connector.clone(), target.clone()),
            target: target.clone(),
            defaults: self.defaults.clone(),
        })
    }
}

/// The jobs of one runner.
pub struct KubernetesDispatcher {
    calls: Calls,
    target: Arc<Target>,
    defaults: Arc<JobDefaults>,
}

impl KubernetesDispatcher {
    async fn read(&self, job: &JobRef) -> Result<(Option<Job>, Vec<Pod>), DispatchError> {
        // In this order; see `pods::view`.
        let found = self.calls.job(job).await?;
        Ok((found, self.calls.pods(job).await?))
    }

    async fn view(&self, job: &JobRef) -> Result<PodView, DispatchError> {
        let (found, pods) = self.read(job).await?;
        Ok(pods::view(found.as_ref(), &pods, System.now()))
    }

    /// Compares the existing Job of this name with the one that the launch would create.
    async fn compare(&self, launch: &Launch, wanted: &Job) -> Result<Started, DispatchError> {
        let name = names::job_name(&launch.job);
        let Some(found) = self.calls.job(&launch.job).await? else {
            // Another call or a user deleted it in between.
            let message = format!("Job `{name}` was deleted during its start");
            return Err(DispatchError::unknown(FailureClass::Lost, message));
        };
        let identity = names::identity(&self.target, &launch.job);
        let Some(difference) = comparison::difference(wanted, &found, &identity) else {
            return Ok(Started::Already(None));
        };
        let message = format!(
            "Job `{name}` in namespace `{}` exists, but is not the one that Canyon creates for this \
            attempt: {difference}; delete it, and check that no admission webhook changes Canyon's Jobs",
            wanted.metadata.namespace.as_deref().unwrap_or_default()
        );
        Err(DispatchError::refused(FailureClass::Config, message))
    }

    /// The observation of a Job without a pod: its events may give the reason.
    async fn without_pod(&self, job: &JobRef, since: Option<Timestamp>) -> Observation {
        let waiting = |reason: &str| Observation::Waiting(reason.to_owned());
        let Some(message) = self.calls.failed_create(job).await else {
            return waiting("the cluster has not created the Job's pod yet");
        };
        let reason = format!("the cluster cannot create the Job's pod: {message}");
        let has_waited = since.is_some_and(|since| System.now() > since + pods::POD_START_GRACE);
        // Quota may become free.
        if !has_waited || message.contains("exceeded quota") {
            return waiting(&reason);
        }
        self.end_doomed(job, Failure::new(FailureClass::Config, reason)).await
    }

    /// Ends a job that will never run. The reason is written on the Job first, for the next
    /// observation, because the pod's own message is lost with the pod.
    async fn end_doomed(&self, job: &JobRef, failure: Failure) -> Observation {
        let ended = async {
            self.calls.suspend(job, Some(&failure)).await?;
            self.end_pods(job, StopMode::Kill).await
        };
        if let Err(error) = ended.await {
            let message = format!("{}; {error}", failure.message);
            return Observation::Waiting(message);
        }
        let mut left = END_WAIT;
        while !left.is_zero() {
            if let Ok(PodView::Seen(Observation::Gone(_))) = self.view(job).await {
                return Observation::Gone(Some(failure));
            }
            tokio::time::sleep(END_POLL_PAUSE).await;
            left = left.saturating_sub(END_POLL_PAUSE);
        }
        Observation::Waiting(failure.message)
    }

    async fn end_pods(&self, job: &JobRef, how: StopMode) -> Result<(), DispatchError> {
        for pod in self.calls.pods(job).await?.iter().filter(|pod| !pods::is_dead(pod)) {
            let is_ending = pod.metadata.deletion_timestamp.is_some();
            let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(i64::MAX);
            match how {
                // A pod that is being deleted has received its SIGTERM.
                StopMode::Graceful if is_ending => {}
                StopMode::Graceful => self.calls.delete_pod(pod, None).await?,
                StopMode::Kill if is_ending && grace <= i64::from(KILL_GRACE_SECONDS) => {}
                StopMode::Kill => self.calls.delete_pod(pod, Some(KILL_GRACE_SECONDS)).await?,
            }
        }
        Ok(())
    }

    /// The failure, with the runner's last message if the cluster gives no reason.
    async fn with_last_message(&self, job: &JobRef, mut failure: Failure) -> Failure {
        if failure.class == FailureClass::Lost
            && let Ok(output) = self.calls.last_output(job).await
            && let Some(words) = container_output::last_message(&output)
        {
            failure.message = format!("{}; its last message: {words}", failure.message);
        }
        failure
    }
}

#[async_trait]
impl Dispatcher for KubernetesDispatcher {
    async fn start(&self, launch: &Launch) -> Result<Started, DispatchError> {
        let wanted = job::job(&self.target, &self.defaults, launch)?;
        let settings = job::settings(&self.target)?;
        if settings.deny_metadata_access == Some(true) {
            self.calls.refuse_metadata(&settings.namespace).await?;
        }
        let created = self.calls.create(&wanted, calls::Run::Real).await;
        match created.map_err(|error| without_claim_code(error, launch))? {
            calls::Created::Now => Ok(Started::Now(None)),
            calls::Created::IsThere => self.compare(launch, &wanted).await,
        }
    }

    async fn observe(&self, job: &JobRef) -> Observation {
        match self.view(job).await {
            Ok(PodView::Seen(Observation::Gone(Some(failure)))) => {
                Observation::Gone(Some(self.with_last_message(job, failure).await))
            }
            Ok(PodView::Seen(observation)) => observation,
            Ok(PodView::NoPod { since }) => self.without_pod(job, since).await,
            Ok(PodView::Doomed(failure)) => self.end_doomed(job, failure).await,
            Err(error) => Observation::Unknown(error.to_string()),
        }
    }

    async fn stop(&self, job: &JobRef, how: StopMode) -> Result<(), DispatchError> {
        let found = self.calls.job(job).await?;
        let goes_on = found.as_ref().is_some_and(|job| {
            let is_suspended = job.spec.as_ref().and_then(|spec| spec.suspend) == Some(true);
            pods::end_of(job).is_none() && !is_suspended
        });
        if goes_on {
            self.calls.suspend(job, None).await?;
        }
        self.end_pods(job, how).await
    }

    async fn tail(
        &self,
        job: &JobRef,
        stream: TailStream,
        offset: u64,
    ) -> Result<Vec<u8>, DispatchError> {
        // Without its Job, the rest of the pod is being deleted.
        if self.calls.job(job).await?.is_none() {
            return Ok(Vec::new());
        }
        let output = self.calls.output(job).await?;
        Ok(container_output::part(&output, stream, offset))
    }

    async fn forget(&self, job: &JobRef) -> RemovalOutcome {
        let forgotten = async {
            let (found, pods) = self.read(job).await?;
            match pods::view(found.as_ref(), &pods, System.now()) {
                PodView::Seen(Observation::Gone(_)) => {}
                PodView::Seen(_) | PodView::NoPod { .. } | PodView::Doomed(_) => {
                    return Ok(RemovalOutcome::JobAlive);
                }
            }
            match found {
                Some(found) => {
                    self.calls.delete_job(&found).await.map(|()| RemovalOutcome::Removed)
                }
                None => Ok(RemovalOutcome::Removed),
            }
        };
        forgotten.await.unwrap_or_else(|error: DispatchError| {
            tracing::warn!(?job, %error, "cannot delete the Job");
            // A retry would be refused again.
            if error.on_failure == OnFailure::EndAttempt {
                RemovalOutcome::Removed
            } else {
                RemovalOutcome::JobAlive
            }
        })
    }

    async fn image_digest(&self, job: &JobRef) -> Option<Commit> {
        let pods = self.calls.pods(job).await.ok()?;
        pods.iter().find_map(pods::image_digest)
    }

    async fn jobs(&self) -> Result<Vec<JobRef>, DispatchError> {
        self.calls.all_jobs().await
    }

    async fn check(&self, reports: &CheckReports) {
        check::check(&self.calls, &self.target, &self.defaults, reports).await;
    }
}

/// An admission webhook of the cluster may quote the Job that it refuses.
fn without_claim_code(mut error: DispatchError, launch: &Launch) -> DispatchError {
    if let Some(code) = launch.environment.get("CANYON_CLAIM_CODE") {
        error.failure.message = error.failure.message.replace(code.expose_secret(), "(claim code)");
    }
    error
}
