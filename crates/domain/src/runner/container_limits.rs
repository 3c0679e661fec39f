//! What a runner's definition allows container jobs.

use super::RunnerDefinition;
use super::allowed_images::is_allowed;
use super::configuration::RunnerType;
use super::container_size::ContainerSize;
use crate::ids::RunnerId;

/// Why a runner does not run a container job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContainerRefusal {
    /// Its type runs none.
    #[error(
        "runner `{runner}` is of type `{found}`, which runs no container jobs; runners of these types do: {}",
        types_for_containers()
    )]
    Type {
        /// The runner.
        runner: RunnerId,
        /// Its type.
        found: RunnerType,
    },
    /// It does not allow the image.
    #[error(
        "runner `{runner}` does not allow the image `{image}`; its `job.allowed_images` has: {}",
        listed(allowed)
    )]
    Image {
        /// The runner.
        runner: RunnerId,
        /// The image.
        image: String,
        /// What it allows.
        allowed: Vec<String>,
    },
    /// Its platform kills a job earlier than the job asks for.
    #[error(
        "runner `{runner}` is of type `{found}`, which allows `grace_seconds` of at most {allowed}, not {wanted}: its \
         platform kills a job 120 s after telling it to stop"
    )]
    Grace {
        /// The runner.
        runner: RunnerId,
        /// Its type.
        found: RunnerType,
        /// The job's `grace_seconds`.
        wanted: u32,
        /// The most that the platform allows.
        allowed: u32,
    },
    /// Its platform has no such size, or the runner does not allow it.
    #[error("runner `{runner}` does not run it: its `{field}` {reason}")]
    Size {
        /// The runner.
        runner: RunnerId,
        /// The faulty field.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

fn types_for_containers() -> String {
    let types = RunnerType::ALL.iter().filter(|one| one.runs_containers());
    types.map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ")
}

fn listed(patterns: &[String]) -> String {
    if patterns.is_empty() { "nothing".to_owned() } else { patterns.join(", ") }
}

impl RunnerDefinition {
    /// Whether people can look into the containers of its jobs.
    pub fn opens_containers(&self) -> bool {
        self.runner_type().job_place().opens_containers()
    }

    /// Refuses a container job with `image`, `grace_seconds` and `size` on the runner `id`, which has this definition.
    ///
    /// # Errors
    ///
    /// [`ContainerRefusal`] if its type runs no container jobs, kills them earlier or has no such size, or it does not allow
    /// the image.
    pub fn check_container(
        &self,
        id: &RunnerId,
        image: &str,
        grace_seconds: u32,
        size: &ContainerSize,
    ) -> Result<(), ContainerRefusal> {
        let (runner, found) = (id.clone(), self.runner_type());
        if !found.runs_containers() {
            return Err(ContainerRefusal::Type { runner, found });
        }
        if let Some(allowed) = self.configuration.allowed_images()
            && !is_allowed(image, allowed)
        {
            let (image, allowed) = (image.to_owned(), allowed.to_vec());
            return Err(ContainerRefusal::Image { runner, image, allowed });
        }
        if let Some(allowed) = found.job_place().max_grace_seconds()
            && grace_seconds > allowed
        {
            return Err(ContainerRefusal::Grace { runner, found, wanted: grace_seconds, allowed });
        }
        let checked = size.check(&self.configuration);
        checked.map_err(|(field, reason)| ContainerRefusal::Size { runner, field, reason })
    }
}
