//! `local`: a process on the machine that Canyon runs on, or on that of an agent.

use super::{
    agents::AgentSettings,
    fields::Fields,
    patterns::{VALUE, VARIABLE},
    timeouts::TimeoutSettings,
    word::word_enum,
};
use crate::job_identity::JobIdentity;
use serde::Serialize;
use std::collections::BTreeMap;

/// `local`; nothing but the type needs to be given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Local {
    /// Who launches; Canyon itself, unless something here is set.
    #[serde(flatten)]
    pub settings: AgentSettings,
    /// What to run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<LocalJob>,
}

/// `job` of `local`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LocalJob {
    /// Which program runs the module; whichever is found, OpenTofu first, unless set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executable: Option<Executable>,
    /// Further environment variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<BTreeMap<String, String>>,
    /// Whom the job is at the clouds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<JobIdentity>,
    /// Limits of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<TimeoutSettings>,
}

word_enum! {
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
                executable: job.word("executable"),
                environment: job.text_map("environment", 200, &VARIABLE, &VALUE),
                identity: job.object("identity", JobIdentity::read),
                timeouts: job.object("timeouts", TimeoutSettings::read),
            }),
        }
    }
}
