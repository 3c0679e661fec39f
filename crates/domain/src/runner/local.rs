//! `local`: a process on Canyon's own machine, or on an agent's.

use super::check_step::CheckStep;
use super::kind::{Facts, JobPlace, JobSettings, Kind, LaunchedBy};
use super::properties::properties;
use super::{
    agents::AgentSettings,
    patterns::{VALUE, VARIABLE},
    string_enum::string_enum,
    timeouts::TimeoutSettings,
};
use crate::job_identity::JobIdentity;
use serde::Serialize;
use std::collections::BTreeMap;

properties! {
    /// `local`; only the type is required.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct Local {
        /// What to run.
        pub job: Option<LocalJob> = object(LocalJob::read),
        /// Which agents launch; Canyon itself, unless a field here is set.
        pub settings: AgentSettings = flatten,
    }
}

properties! {
    /// `job` of `local`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct LocalJob {
        /// The program that runs the module; by default OpenTofu if it is installed, else Terraform.
        pub executable: Option<Executable> = one_of(),
        /// Further environment variables.
        pub environment: Option<BTreeMap<String, String>> = text_map(200, &VARIABLE, &VALUE),
        /// The job's identity at clouds.
        pub identity: Option<JobIdentity> = object(JobIdentity::read),
        /// Timeouts.
        pub timeouts: Option<TimeoutSettings> = object(TimeoutSettings::read),
    }
}

string_enum! {
    /// A program that runs modules.
    Executable {
        /// OpenTofu.
        Tofu = "tofu",
        /// Terraform.
        Terraform = "terraform",
    }
}

impl Local {
    pub(super) const FACTS: Facts =
        Facts { place: JobPlace::Machine, launched_by: LaunchedBy::CanyonOrAgent };
}

impl Kind for Local {
    fn job(&self) -> Option<JobSettings<'_>> {
        self.job.as_ref().map(JobSettings::Machine)
    }

    fn check_steps(&self) -> &'static [CheckStep] {
        &[]
    }

    fn agent_settings(&self) -> Option<&AgentSettings> {
        Some(&self.settings).filter(|settings| **settings != AgentSettings::default())
    }
}
