//! What a deployment records of its container job: what Canyon must know without the job itself.

use super::ContainerJob;
use crate::commit::Commit;
use crate::fetched_module::FetchedModule;
use crate::resource_name::ResourceName;
use crate::runner::container_size::ContainerSize;
use serde::{Deserialize, Serialize};

/// The container job of a deployment as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerTask {
    /// The resource that it creates, updates or destroys.
    pub resource: ResourceName,
    /// What it runs.
    pub job: ContainerJob,
    /// The digest of the image that the repeated deployment ran: its tag may have moved since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Commit>,
    /// Whether the runner tries what the program will need before it starts that, and reports each step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checks: bool,
}

impl ContainerTask {
    /// Runs `job` for `resource`.
    pub fn new(resource: ResourceName, job: ContainerJob) -> Self {
        Self { resource, job, digest: None, checks: false }
    }

    /// Repeats the image that a former run has reported.
    pub fn repeat_image_of(&mut self, former: Option<&FetchedModule>) {
        let run = former.and_then(|fetched| fetched.commit.clone());
        self.digest = run.or(self.digest.take());
    }
}

/// What is recorded of a deployment's container job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerRun {
    /// The resource that it creates, updates or destroys.
    pub resource: ResourceName,
    /// Its image, as in the request.
    pub image: String,
    /// See [`ContainerTask::digest`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Commit>,
    /// Maximum duration of the program, in seconds.
    pub timeout_seconds: u32,
    /// Seconds from the request to stop until the kill.
    pub grace_seconds: u32,
    /// Whether the program may run again after its job was lost.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idempotent: bool,
    /// Whether the job has a source.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_source: bool,
    /// Its shared directory, if the platform must provide that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_directory: Option<String>,
    /// How much of its platform it asks for.
    #[serde(default, skip_serializing_if = "ContainerSize::is_of_runner")]
    pub size: ContainerSize,
    /// Seconds for which its container stays after a failure.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub keep_seconds: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(seconds: &u32) -> bool {
    *seconds == 0
}

/// What a platform must know of a container job to start it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerLaunch {
    /// Its image.
    pub image: String,
    /// Seconds from the request to stop until the kill.
    pub stop_seconds: u32,
    /// Whether its container needs git, to fetch a source.
    #[serde(default)]
    pub needs_git: bool,
    /// A folder that the container gets, empty and writable for each user, in place of what the image has there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_directory: Option<String>,
    /// How much of the platform it asks for.
    #[serde(default, skip_serializing_if = "ContainerSize::is_of_runner")]
    pub size: ContainerSize,
    /// Seconds for which the container stays after a failure.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub keep_seconds: u32,
}

impl ContainerRun {
    /// Seconds in which the runner program ends what the program has left, and delivers the result.
    const DELIVERY: u32 = 10;
    /// Seconds before the program, for the files and the source.
    const PREPARATION: u32 = 60;

    /// What its platform must know.
    pub fn launch(&self) -> ContainerLaunch {
        let image = match &self.digest {
            Some(digest) if !self.image.contains('@') => format!("{}@sha256:{digest}", self.image),
            Some(_) | None => self.image.clone(),
        };
        ContainerLaunch {
            image,
            stop_seconds: self.stop_seconds(),
            needs_git: self.has_source,
            shared_directory: self.shared_directory.clone(),
            size: self.size.clone(),
            keep_seconds: self.keep_seconds,
        }
    }

    /// Seconds from the request to stop until the kill of the job.
    pub fn stop_seconds(&self) -> u32 {
        self.grace_seconds + Self::DELIVERY
    }

    /// Seconds from the claim until the result.
    pub fn run_seconds(&self) -> u32 {
        Self::PREPARATION + self.timeout_seconds + self.stop_seconds()
    }
}

impl From<&ContainerTask> for ContainerRun {
    fn from(task: &ContainerTask) -> Self {
        let ContainerTask { resource, job, digest, checks: _ } = task;
        Self {
            resource: resource.clone(),
            image: job.image.clone(),
            digest: digest.clone(),
            timeout_seconds: job.timeout_seconds(),
            grace_seconds: job.grace_seconds(),
            idempotent: job.idempotent == Some(true),
            has_source: job.source.is_some(),
            shared_directory: job.provided_directory().map(str::to_owned),
            size: job.size(),
            keep_seconds: job.keep_seconds(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_repeated_job_runs_the_image_that_its_former_run_has_reported() {
        let digest = "ab".repeat(32);
        let fetched = FetchedModule::new(Some(digest.parse().unwrap()), None);
        let launched = |image: &str, former: Option<&FetchedModule>| {
            let job = ContainerJob::parse(json!({ "image": image, "command": ["/x"] })).unwrap();
            let resource = "s3".parse().unwrap();
            let mut task = ContainerTask::new(resource, job);
            task.repeat_image_of(former);
            ContainerRun::from(&task).launch().image
        };
        assert_eq!(launched("a:1", None), "a:1");
        assert_eq!(launched("a:1", Some(&fetched)), format!("a:1@sha256:{digest}"));
        assert_eq!(launched("a@sha256:cd", Some(&fetched)), "a@sha256:cd");
    }
}
