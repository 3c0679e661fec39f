//! `docker`: a container of the Docker engine of Canyon's own machine.

pub use super::patterns::is_extra_host;

use super::check_step::CheckStep;
use super::kind::{Facts, JobPlace, JobSettings, Kind, LaunchedBy};
use super::properties::properties;
use super::{
    patterns::{ALLOWED_IMAGE, EXTRA_HOST, IMAGE, MAX_ALLOWED_IMAGES, VALUE, VARIABLE},
    timeouts::TimeoutSettings,
};
use crate::job_identity::JobIdentity;
use serde::Serialize;
use std::collections::BTreeMap;

properties! {
    /// `docker`; only the type is required.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct Docker {
        /// What to run.
        pub job: Option<DockerJob> = object(DockerJob::read),
    }
}

properties! {
    /// `job` of `docker` and `docker-agent`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct DockerJob {
        /// Image to run instead of Canyon's own.
        pub image: Option<String> = text(&IMAGE),
        /// Further environment variables.
        pub environment: Option<BTreeMap<String, String>> = text_map(200, &VARIABLE, &VALUE),
        /// Further entries of `/etc/hosts`: `NAME:ADDRESS`.
        pub extra_hosts: Option<Vec<String>> = texts(&(0..=64), &EXTRA_HOST),
        /// The images that container jobs may run; `*` stands for any text without `/`, `**` for any text. Default: every
        /// image.
        pub allowed_images: Option<Vec<String>> = texts(&(0..=MAX_ALLOWED_IMAGES), &ALLOWED_IMAGE),
        /// Memory limit, in MiB.
        pub memory_limit: Option<u32> = number(64..=1_048_576),
        /// The job's identity at clouds.
        pub identity: Option<JobIdentity> = object(JobIdentity::read),
        /// Timeouts.
        pub timeouts: Option<TimeoutSettings> = object(TimeoutSettings::read),
    }
}

impl Docker {
    pub(super) const FACTS: Facts =
        Facts { place: JobPlace::Docker, launched_by: LaunchedBy::Canyon };
}

impl Kind for Docker {
    fn job(&self) -> Option<JobSettings<'_>> {
        self.job.as_ref().map(JobSettings::Docker)
    }

    fn check_steps(&self) -> &'static [CheckStep] {
        &[CheckStep::Connect, CheckStep::Image, CheckStep::DryRun, CheckStep::Metadata]
    }
}
