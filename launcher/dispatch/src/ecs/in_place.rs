//! What an agent finds out about its own AWS account.

use super::session::{CredentialSource, Session};
use super::{EcsPlatform, Settings};
use crate::{AmbientAws, DispatchError, RateLimiter, Target};
use canyon_domain::causes::Causes;
use canyon_domain::failure::FailureClass;
use canyon_domain::runner::ecs::{EcsJob, LaunchType};
use std::sync::Arc;
use std::time::Duration;

/// The pause before a failed request about the cluster is retried.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// The account owner's defaults for all jobs there. A runner's own settings override them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EcsDefaults {
    /// The only region of jobs.
    pub region: String,
    /// The name of the only cluster of jobs: a runner that names another is refused.
    pub cluster: String,
    /// Subnets of runners that name none.
    pub subnets: Vec<String>,
    /// Runner image of runners that name none.
    pub image: Option<String>,
    /// Where tasks run if the runner does not say it; Fargate by default.
    pub launch_type: Option<LaunchType>,
}

impl EcsDefaults {
    /// Fills in what a runner's settings omit.
    pub(super) fn filled_in(&self, target: &Target, job: &EcsJob) -> Result<EcsJob, DispatchError> {
        let mut job = job.clone();
        for (name, ours, theirs) in [
            ("region", &self.region, &mut job.region),
            ("cluster", &self.cluster, &mut job.cluster),
        ] {
            if theirs.is_empty() {
                theirs.clone_from(ours);
            } else if theirs != ours {
                let message = format!(
                    "runner `{}` names {name} `{theirs}`, but this agent launches only in {name} `{ours}`: \
                     change `job.{name}`, or the agent's setting",
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
                "neither runner `{}`, in `job.subnets`, nor this agent names subnets; set one of them",
                target.runner_id
            );
            return Err(DispatchError::refused(FailureClass::Config, message));
        }
        // A runner that sets a field of Fargate chooses Fargate.
        if job.launch_type.is_none() && job.fargate_only_fields().next().is_none() {
            job.launch_type = self.launch_type;
        }
        Ok(job)
    }
}

impl EcsPlatform {
    /// Creates the platform of an agent, which launches for runners of type `ecs-agent` with its
    /// own credentials. `defaults` fill in what a runner omits.
    pub fn for_agent(
        ambient: Arc<AmbientAws>,
        limiter: Arc<dyn RateLimiter>,
        defaults: EcsDefaults,
    ) -> Self {
        let (http, image) = (ambient.http(), defaults.image.clone());
        Self::with_credentials(CredentialSource::Ambient(ambient, defaults), http, limiter, image)
    }

    /// The ARN of the agent's cluster, which is unique over all accounts.
    ///
    /// # Errors
    ///
    /// If ECS does not answer, denies access, or has no such cluster.
    pub async fn platform_id(&self) -> Result<String, DispatchError> {
        let config = |message: String| DispatchError::refused(FailureClass::Config, message);
        let CredentialSource::Ambient(ambient, EcsDefaults { region, cluster, .. }) = &self.source
        else {
            return Err(config(
                "this platform has as many clusters as there are runners".to_owned(),
            ));
        };
        let clients = Session::in_place(ambient, region).clients().await;
        let clients = clients.map_err(|error| super::refusal::Refusals::no_credentials(&error))?;
        let answer = clients.ecs.describe_clusters().clusters(cluster).send().await;
        let answer = answer.map_err(|error| {
            let message = format!(
                "cannot describe ECS cluster `{cluster}` in {region} with the agent's own role; allow it \
                 `ecs:DescribeClusters`: {}",
                Causes(&error)
            );
            match &error {
                aws_sdk_ecs::error::SdkError::ServiceError(answer)
                    if answer.raw().status().as_u16() < 500 =>
                {
                    config(message)
                }
                _ => DispatchError::later(FailureClass::Lost, message, RETRY_PAUSE),
            }
        })?;
        let active = answer.clusters().iter().find(|found| found.status() == Some("ACTIVE"));
        let arn = active.and_then(|found| found.cluster_arn()).map(str::to_owned);
        arn.ok_or_else(|| config(format!("there is no active ECS cluster `{cluster}` in {region}")))
    }

    /// The settings of a runner of type `ecs-agent`, filled in with the agent's defaults.
    pub(super) fn settings_in_place(
        &self,
        target: &Target,
        job: &EcsJob,
    ) -> Result<Settings, DispatchError> {
        let job = match &self.source {
            CredentialSource::Ambient(_, defaults) => defaults.filled_in(target, job)?,
            // `Session::new` refuses this runner.
            CredentialSource::Roles(_) => job.clone(),
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
        let filled = defaults.filled_in(&target(), &EcsJob::default()).unwrap();
        assert_eq!((&*filled.region, &*filled.cluster), ("eu-west-1", "jobs"));
        assert_eq!(filled.subnets, ["subnet-0a"]);
        let own = EcsJob { subnets: vec![text("subnet-0b")], ..filled.clone() };
        assert_eq!(defaults.filled_in(&target(), &own).unwrap().subnets, ["subnet-0b"]);
        let elsewhere = EcsJob { cluster: text("other"), ..filled };
        let message = defaults.filled_in(&target(), &elsewhere).unwrap_err().to_string();
        assert!(message.contains("`other`") && message.contains("`job.cluster`"), "{message}");
        let bare = EcsDefaults { subnets: vec![], ..defaults };
        let message = bare.filled_in(&target(), &EcsJob::default()).unwrap_err().to_string();
        assert!(message.contains("`job.subnets`"), "{message}");
    }

    #[test]
    fn tasks_run_on_instances_if_the_agent_sets_it_and_the_runner_sets_nothing_of_fargate() {
        let defaults = EcsDefaults {
            subnets: vec!["subnet-0a".to_owned()],
            launch_type: Some(LaunchType::Ec2),
            ..EcsDefaults::default()
        };
        let is_on_ec2 = |job: EcsJob| defaults.filled_in(&target(), &job).unwrap().is_on_ec2();
        assert!(is_on_ec2(EcsJob::default()));
        let fargate = Some(LaunchType::Fargate);
        assert!(!is_on_ec2(EcsJob { launch_type: fargate, ..EcsJob::default() }));
        assert!(!is_on_ec2(EcsJob { ephemeral_storage_gib: Some(30), ..EcsJob::default() }));
        assert!(!is_on_ec2(EcsJob { is_public_ip_enabled: Some(true), ..EcsJob::default() }));
    }
}
