//! `local`: a process on Canyon's own machine, or on an agent's.

use super::{
    agents::AgentSettings,
    fields::Fields,
    patterns::{VALUE, VARIABLE},
    string_enum::string_enum,
    timeouts::TimeoutSettings,
};
use crate::job_identity::JobIdentity;
use serde::Serialize;
use std::collections::BTreeMap;

/// `local`; only the type is required.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Local {
    /// Which agents launch; Canyon itself, unless a field here is set.
    #[serde(flatten)]
    pub settings: AgentSettings,
    /// What to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<LocalJob>,
}

/// `job` of `local`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LocalJob {
    /// The program that runs the module; by default OpenTofu if it is installed, else Terraform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executable: Option<Executable>,
    /// Further environment variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<BTreeMap<String, String>>,
    /// The job's identity at clouds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<JobIdentity>,
    /// Timeouts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<TimeoutSettings>,
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
    pub(crate) fn read(fields: &mut Fields) -> Self {
        Self {
            settings: AgentSettings::read(fields),
            job: fields.object("job", |job| LocalJob {
                executable: job.one_of("executable"),
                environment: job.text_map("environment", 200, &VARIABLE, &VALUE),
                identity: job.object("identity", JobIdentity::read),
                timeouts: job.object("timeouts", TimeoutSettings::read),
            }),
        }
    }
}
