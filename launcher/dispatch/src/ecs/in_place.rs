//! What an agent knows of its account by itself.

use super::session::{Entry, Session};
use super::{EcsPlatform, Settings};
use crate::{AmbientAws, DispatchError, Pace, Target};
use canyon_domain::causes::Causes;
use canyon_domain::failure::FailureClass;
use canyon_domain::runner::ecs::{EcsJob, LaunchType};
use std::sync::Arc;
use std::time::Duration;

/// After a cluster could not be asked about.
const AGAIN: Duration = Duration::from_secs(5);

/// What the owner of an account says about all jobs there. It lies under what each runner says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EcsDefaults {
    /// The one region of jobs.
    pub region: String,
    /// The one cluster of jobs, by its name: a runner that names another is refused.
    pub cluster: String,
    /// Subnets of runners that name none.
    pub subnets: Vec<String>,
    /// Runner image of runners that name none.
    pub image: Option<String>,
    /// What tasks of runners run on that do not say it; Fargate, unless set.
    pub launch_type: Option<LaunchType>,
}

impl EcsDefaults {
    /// A runner's settings with these under them.
    pub(super) fn under(&self, target: &Target, job: &EcsJob) -> Result<EcsJob, DispatchError> {
        let mut job = job.clone();
        for (name, ours, theirs) in [
            ("region", &self.region, &mut job.region),
            ("cluster", &self.cluster, &mut job.cluster),
        ] {
            if theirs.is_empty() {
                theirs.clone_from(ours);
            } else if theirs != ours {
                let message = format!(
                    "runner `{}` has its jobs in {name} `{theirs}`, and this agent launches in {name} `{ours}` \
                     alone: change `job.{name}`, or the agent's setting",
                    target.runner_id
                );
                return Err(DispatchError::refused(FailureClass::Config, message));
            }
        }
        if job.subnets.is_empty() {
            job.subnets.clone_from(&self.subnets);
        }
        if job.subnets.is_empty() {
            let message = format!(
                "neither runner `{}` names subnets, in `job.subnets`, nor does this agent",
                target.runner_id
            );
            return Err(DispatchError::refused(FailureClass::Config, message));
        }
        // Who sets a field of Fargate's has said it with that.
        if job.launch_type.is_none() && job.of_fargate_alone().next().is_none() {
            job.launch_type = self.launch_type;
        }
        Ok(job)
    }
}

impl EcsPlatform {
    /// For an agent: it launches for runners of type `ecs-agent`, as what it is itself. `defaults` lie under
    /// what each runner says.
    pub fn in_place(ambient: Arc<AmbientAws>, pace: Arc<dyn Pace>, defaults: EcsDefaults) -> Self {
        let (http, image) = (ambient.http(), defaults.image.clone());
        Self::entered_by(Entry::Ambient(ambient, defaults), http, pace, image)
    }

    /// The agent's cluster, by its ARN. No other cluster of any account has it.
    ///
    /// # Errors
    ///
    /// If ECS could not be asked, does not let the agent in, or has no such cluster.
    pub async fn place(&self) -> Result<String, DispatchError> {
        let config = |message: String| DispatchError::refused(FailureClass::Config, message);
        let Entry::Ambient(ambient, EcsDefaults { region, cluster, .. }) = &self.entry else {
            return Err(config(
                "this platform has as many clusters as there are runners".to_owned(),
            ));
        };
        let clients = Session::in_place(ambient, region).clients().await;
        let clients = clients.map_err(|error| super::refusal::Refusals::not_let_in(&error))?;
        let answer = clients.ecs.describe_clusters().clusters(cluster).send().await;
        let answer = answer.map_err(|error| {
            let message = format!(
                "cannot describe ECS cluster `{cluster}` in {region} as the agent's own role, which needs \
                 `ecs:DescribeClusters` for it: {}",
                Causes(&error)
            );
            match &error {
                aws_sdk_ecs::error::SdkError::ServiceError(said)
                    if said.raw().status().as_u16() < 500 =>
                {
                    config(message)
                }
                _ => DispatchError::later(FailureClass::Lost, message, AGAIN),
            }
        })?;
        let active = answer.clusters().iter().find(|one| one.status() == Some("ACTIVE"));
        let arn = active.and_then(|one| one.cluster_arn()).map(str::to_owned);
        arn.ok_or_else(|| config(format!("there is no active ECS cluster `{cluster}` in {region}")))
    }

    /// What a runner of type `ecs-agent` says, with the agent's settings under it.
    pub(super) fn settings_in_place(
        &self,
        target: &Target,
        job: &EcsJob,
    ) -> Result<Settings, DispatchError> {
        let job = match &self.entry {
            Entry::Ambient(_, defaults) => defaults.under(target, job)?,
            // The session refuses it.
            Entry::Roles(_) => job.clone(),
        };
        Ok(Settings { auth: None, job })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use canyon_domain::ids::{OrgUuid, RunnerUuid};
    use canyon_domain::runner::RunnerDefinition;
    use serde_json::json;
    use uuid::Uuid;

    fn target() -> Target {
        let definition = json!({
            "runner_configuration": { "type": "local" },
            "state_storage_configuration": { "type": "local", "path": "/var/tmp/states" },
        });
        Target {
            org: OrgUuid(Uuid::nil()),
            org_id: "acme".parse().unwrap(),
            agent: None,
            runner: RunnerUuid(Uuid::nil()),
            runner_id: "far".parse().unwrap(),
            definition: RunnerDefinition::parse(definition).unwrap(),
        }
    }

    #[test]
    fn an_agent_fills_in_what_a_runner_leaves_out_and_launches_nowhere_else() {
        let text = str::to_owned;
        let defaults = EcsDefaults {
            region: text("eu-west-1"),
            cluster: text("jobs"),
            subnets: vec![text("subnet-0a")],
            ..EcsDefaults::default()
        };
        let filled = defaults.under(&target(), &EcsJob::default()).unwrap();
        assert_eq!((&*filled.region, &*filled.cluster), ("eu-west-1", "jobs"));
        assert_eq!(filled.subnets, ["subnet-0a"]);
        let own = EcsJob { subnets: vec![text("subnet-0b")], ..filled.clone() };
        assert_eq!(defaults.under(&target(), &own).unwrap().subnets, ["subnet-0b"]);
        let elsewhere = EcsJob { cluster: text("other"), ..filled };
        let said = defaults.under(&target(), &elsewhere).unwrap_err().to_string();
        assert!(said.contains("`other`") && said.contains("`job.cluster`"), "{said}");
        let bare = EcsDefaults { subnets: vec![], ..defaults };
        let said = bare.under(&target(), &EcsJob::default()).unwrap_err().to_string();
        assert!(said.contains("`job.subnets`"), "{said}");
    }

    #[test]
    fn tasks_run_on_instances_where_the_agent_says_so_and_the_runner_nothing_else() {
        let defaults = EcsDefaults {
            subnets: vec!["subnet-0a".to_owned()],
            launch_type: Some(LaunchType::Ec2),
            ..EcsDefaults::default()
        };
        let is_on_ec2 = |job: EcsJob| defaults.under(&target(), &job).unwrap().is_on_ec2();
        assert!(is_on_ec2(EcsJob::default()));
        let fargate = Some(LaunchType::Fargate);
        assert!(!is_on_ec2(EcsJob { launch_type: fargate, ..EcsJob::default() }));
        assert!(!is_on_ec2(EcsJob { ephemeral_storage_gib: Some(30), ..EcsJob::default() }));
        assert!(!is_on_ec2(EcsJob { is_public_ip_enabled: Some(true), ..EcsJob::default() }));
    }
}
