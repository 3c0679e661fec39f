//! The request that starts a task. It follows only from the attempt and the runner, so a repeat
//! sends the same bytes: ECS refuses the same token with other parameters.

use super::{CONTAINER, Settings};
use crate::{DispatchError, JobRef, Launch, Target};
use aws_sdk_ecs::Client;
use aws_sdk_ecs::operation::run_task::builders::RunTaskFluentBuilder;
use aws_sdk_ecs::types::{
    AssignPublicIp, AwsVpcConfiguration, CapacityProviderStrategyItem, ContainerOverride,
    KeyValuePair, LaunchType, NetworkConfiguration, PropagateTags, Tag, TaskOverride,
};
use aws_smithy_types::error::operation::BuildError;
use canyon_domain::failure::FailureClass;
use canyon_domain::ids::OrgUuid;
use canyon_domain::runner::ecs::{CapacityProvider, CapacityProviderShare, EcsJob};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::fmt::{Display, Formatter};

/// The maximum number of characters of overrides, including the JSON around them (API reference,
/// `RunTask`).
const MAX_OVERRIDES: usize = 8_192;

/// Where a runner's tasks run, for messages and for rate limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct EcsLocation<'a> {
    pub(super) account: &'a str,
    pub(super) region: &'a str,
    pub(super) cluster: &'a str,
    pub(super) role: Role<'a>,
}

/// The role of the calls to ECS.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role<'a> {
    /// The role that the runner names.
    Named(&'a str),
    /// The agent's own role.
    OfAgent,
}

impl Display for Role<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(arn) => write!(f, "role `{arn}`"),
            Self::OfAgent => f.write_str("the agent's own role"),
        }
    }
}

impl<'a> EcsLocation<'a> {
    pub(super) fn of(settings: &'a Settings) -> Self {
        let Settings { auth, job } = settings;
        let arn = auth.as_ref().map(|auth| auth.role_arn.as_str());
        Self {
            // Validated with the runner: `arn:partition:iam::account:role/...`. A task's roles belong to the
            // account that it runs in.
            account: arn.unwrap_or(&job.execution_role_arn).split(':').nth(4).unwrap_or_default(),
            region: &job.region,
            cluster: &job.cluster,
            role: arn.map_or(Role::OfAgent, Role::Named),
        }
    }
}

/// The client token of an attempt, of 64 characters: the maximum that ECS accepts.
pub(super) fn client_token(org: OrgUuid, job: &JobRef) -> String {
    let attempt = format!("{}/{}/{}", org.0, job.deployment, job.attempt);
    hex::encode(Sha256::digest(attempt))
}

/// A request to start a task, which may be sent repeatedly.
pub(super) struct Request<'a> {
    target: &'a Target,
    job: &'a EcsJob,
    launch: &'a Launch,
    name: String,
}

impl<'a> Request<'a> {
    /// Fails if the variables are longer than ECS accepts.
    pub(super) fn new(
        target: &'a Target,
        job: &'a EcsJob,
        launch: &'a Launch,
        name: String,
    ) -> Result<Self, DispatchError> {
        let length = overrides_length(launch);
        if length > MAX_OVERRIDES {
            let message = format!(
                "the variables of the task have {length} characters, but ECS accepts \
                 {MAX_OVERRIDES}; shorten the address of Canyon's API"
            );
            return Err(DispatchError::refused(FailureClass::Config, message));
        }
        Ok(Self { target, job, launch, name })
    }

    /// The call to send.
    pub(super) fn build(
        &self,
        client: &Client,
        family: &str,
    ) -> Result<RunTaskFluentBuilder, BuildError> {
        let Launch { job, .. } = self.launch;
        let mut call = client
            .run_task()
            .cluster(&self.job.cluster)
            .task_definition(family)
            .count(1)
            .client_token(client_token(self.target.org, job))
            .started_by(&self.name)
            .network_configuration(self.network()?)
            .overrides(self.overrides())
            .propagate_tags(PropagateTags::TaskDefinition)
            .enable_ecs_managed_tags(true)
            .set_platform_version(self.job.platform_version.clone())
            .set_tags(Some(self.tags()));
        match self.capacity() {
            None if self.job.is_on_ec2() => call = call.launch_type(LaunchType::Ec2),
            None => call = call.launch_type(LaunchType::Fargate),
            Some(shares) => {
                for share in shares {
                    call = call.capacity_provider_strategy(strategy_item(&share)?);
                }
            }
        }
        Ok(call)
    }

    fn network(&self) -> Result<NetworkConfiguration, BuildError> {
        let public = match self.job.is_public_ip_enabled {
            Some(true) => AssignPublicIp::Enabled,
            Some(false) | None => AssignPublicIp::Disabled,
        };
        let vpc = AwsVpcConfiguration::builder()
            .set_subnets(Some(subnets(&self.job.subnets, self.launch.job.attempt)))
            .set_security_groups(self.job.security_groups.clone())
            .assign_public_ip(public)
            .build()?;
        Ok(NetworkConfiguration::builder().awsvpc_configuration(vpc).build())
    }

    fn overrides(&self) -> TaskOverride {
        let mut container = ContainerOverride::builder().name(CONTAINER);
        for (name, value) in self.launch.container_environment() {
            let pair = KeyValuePair::builder().name(name).value(value);
            container = container.environment(pair.build());
        }
        TaskOverride::builder().container_overrides(container.build()).build()
    }

    /// The task's own tags. ECS adds those of the task definition.
    fn tags(&self) -> Vec<Tag> {
        let Launch { job, project, env, .. } = self.launch;
        [
            ("canyon:deployment", job.deployment.to_string()),
            ("canyon:attempt", job.attempt.to_string()),
            ("canyon:project", project.to_string()),
            ("canyon:environment", env.to_string()),
        ]
        .map(|(key, value)| Tag::builder().key(key).value(value).build())
        .into()
    }

    fn capacity(&self) -> Option<Vec<CapacityProviderShare>> {
        let shares = self.job.capacity_provider_strategy.as_deref()?;
        Some(capacity(shares, self.launch.job.attempt))
    }
}

fn strategy_item(
    share: &CapacityProviderShare,
) -> Result<CapacityProviderStrategyItem, BuildError> {
    let number = |given: Option<u32>| given.and_then(|given| i32::try_from(given).ok());
    CapacityProviderStrategyItem::builder()
        .capacity_provider(share.capacity_provider.as_str())
        .set_weight(number(share.weight))
        .set_base(number(share.base))
        .build()
}

/// The subnets that an attempt may use: all at first. A capacity failure does not say which subnet
/// was full, so each later attempt tries another half, beginning with another subnet.
fn subnets(all: &[String], attempt: u32) -> Vec<String> {
    let turns = usize::try_from(attempt).unwrap_or(1).saturating_sub(1);
    if turns == 0 || all.len() < 2 {
        return all.to_vec();
    }
    let mut order = all.to_vec();
    order.rotate_left(turns % all.len());
    order.truncate(all.len().div_ceil(2));
    order
}

/// The capacity providers of an attempt: later attempts use on-demand capacity alone, if the runner
/// allows that, because the first one may have failed on Spot.
fn capacity(shares: &[CapacityProviderShare], attempt: u32) -> Vec<CapacityProviderShare> {
    let on_demand = CapacityProvider::Fargate;
    if attempt > 1 && shares.iter().any(|share| share.capacity_provider == on_demand) {
        let alone =
            CapacityProviderShare { capacity_provider: on_demand, weight: Some(1), base: None };
        return vec![alone];
    }
    shares.to_vec()
}

/// The length of the overrides as ECS counts it, with the JSON around them.
fn overrides_length(launch: &Launch) -> usize {
    let variables: Vec<_> = launch
        .container_environment()
        .map(|(name, value)| json!({ "name": name, "value": value }))
        .collect();
    let overrides =
        json!({ "containerOverrides": [{ "name": CONTAINER, "environment": variables }] });
    overrides.to_string().chars().count()
}

#[cfg(test)]
#[path = "properties_tests.rs"]
mod properties_tests;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_later_attempt_begins_with_another_subnet_and_tries_each_in_turn() {
        let all = names("a b c");
        let tried: Vec<_> = (1..=5).map(|attempt| subnets(&all, attempt).join(" ")).collect();
        assert_eq!(tried, ["a b c", "b c", "c a", "a b", "b c"]);
        assert_eq!(subnets(&names("a b"), 2), ["b"]);
        assert_eq!(subnets(&names("a b"), 3), ["a"]);
        assert_eq!(subnets(&names("a"), 4), ["a"]);
    }

    #[test]
    fn a_later_attempt_leaves_spot_if_the_runner_names_capacity_on_demand() {
        let share = |provider| CapacityProviderShare {
            capacity_provider: provider,
            weight: Some(4),
            base: None,
        };
        let (spot, on_demand) =
            (share(CapacityProvider::FargateSpot), share(CapacityProvider::Fargate));
        let both = [spot.clone(), on_demand];
        assert_eq!(capacity(&both, 1), both);
        let later = capacity(&both, 2);
        assert!(
            matches!(&later[..], [only] if only.capacity_provider == CapacityProvider::Fargate)
        );
        assert_eq!(capacity(std::slice::from_ref(&spot), 3), [spot]);
    }

    #[test]
    fn a_token_names_one_attempt_of_one_organization() {
        use canyon_domain::ids::DeploymentId;
        use uuid::Uuid;
        let job = |attempt| JobRef { deployment: DeploymentId(Uuid::nil()), attempt, handle: None };
        let org = |n| OrgUuid(Uuid::from_u128(n));
        let token = client_token(org(1), &job(1));
        assert_eq!(token.len(), 64);
        let with_handle = JobRef { handle: Some("arn".to_owned()), ..job(1) };
        assert_eq!(client_token(org(1), &with_handle), token);
        assert_ne!(client_token(org(1), &job(2)), token);
        assert_ne!(client_token(org(2), &job(1)), token);
    }
}
