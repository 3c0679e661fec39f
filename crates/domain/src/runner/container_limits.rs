//! What a runner's definition allows container jobs.

use super::RunnerDefinition;
use super::allowed_images::is_allowed;
use super::configuration::RunnerType;
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
}

fn types_for_containers() -> String {
    let types = RunnerType::ALL.iter().filter(|one| one.runs_containers());
    types.map(|one| format!("`{one}`")).collect::<Vec<_>>().join(", ")
}

fn listed(patterns: &[String]) -> String {
    if patterns.is_empty() { "nothing".to_owned() } else { patterns.join(", ") }
}

impl RunnerDefinition {
    /// Refuses a container job with `image` and `grace_seconds` on the runner `id`, which has this definition.
    ///
    /// # Errors
    ///
    /// [`ContainerRefusal`] if its type runs no container jobs or kills them earlier, or it does not allow the image.
    pub fn check_container(
        &self,
        id: &RunnerId,
        image: &str,
        grace_seconds: u32,
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
        match found.job_place().max_grace_seconds() {
            Some(allowed) if grace_seconds > allowed => {
                Err(ContainerRefusal::Grace { runner, found, wanted: grace_seconds, allowed })
            }
            Some(_) | None => Ok(()),
        }
    }
}
