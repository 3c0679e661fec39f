//! `serverless-ecs`: a task on AWS Fargate.

use super::{
    eks::{AwsAuth, check_partition},
    fargate_size,
    fields::Fields,
    patterns::{
        ECS_CLUSTER, IMAGE, LOG_GROUP, PLATFORM_VERSION, REGION, ROLE_ARN, SECRET_ARN,
        SECURITY_GROUP, SUBNET, TAG_KEY, TAG_VALUE, VALUE, VARIABLE,
    },
    string_enum::string_enum,
    timeouts::TimeoutSettings,
};
use crate::job_identity::JobIdentity;
use serde::Serialize;
use std::collections::BTreeMap;

/// `serverless-ecs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServerlessEcs {
    /// How Canyon authenticates.
    pub auth: AwsAuth,
    /// What to run, and where.
    pub job: EcsJob,
}

/// `job` of `serverless-ecs` and `ecs-agent`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EcsJob {
    /// Region to run in. Empty: the agent's own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// Name of the ECS cluster. Empty: the agent's own.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// Subnets that a task may be attached to, 1 to 16. Empty: the agent's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<String>,
    /// Role with which ECS pulls the image and reads secrets.
    pub execution_role_arn: String,
    /// Security groups of the task, at most 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_groups: Option<Vec<String>>,
    /// Whether the task gets a public address, which it needs without a NAT gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_public_ip_enabled: Option<bool>,
    /// Image to run instead of Canyon's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Role of the module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_role_arn: Option<String>,
    /// Further environment variables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<BTreeMap<String, String>>,
    /// Environment variables read from Secrets Manager or Parameter Store, by ARN.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<BTreeMap<String, String>>,
    /// CPU units; 1024 are one vCPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Memory in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u32>,
    /// Disk in GiB, 21 to 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ephemeral_storage_gib: Option<u32>,
    /// Distribution of tasks over Fargate and Fargate Spot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_provider_strategy: Option<Vec<CapacityProviderShare>>,
    /// Tags of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tags: Option<BTreeMap<String, String>>,
    /// Fargate platform version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform_version: Option<String>,
    /// Processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<Architecture>,
    /// `CloudWatch` log group that the container writes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_group: Option<String>,
    /// The job's identity at clouds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<JobIdentity>,
    /// Timeouts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<TimeoutSettings>,
    /// Only with `ecs-agent`: what tasks run on. Default: Fargate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launch_type: Option<LaunchType>,
    /// Only with `ecs-agent`: acknowledges that tasks on EC2 may reach the credentials of their instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub acknowledge_shared_instance_credentials: Option<bool>,
}

string_enum! {
    /// What a task runs on.
    LaunchType {
        /// A machine of its own, managed by AWS.
        Fargate = "fargate",
        /// An instance of the cluster, beside other tasks.
        Ec2 = "ec2",
    }
}

string_enum! {
    /// Processor that a Fargate task runs on.
    Architecture {
        /// Intel or AMD.
        X86_64 = "X86_64",
        /// Graviton.
        Arm64 = "ARM64",
    }
}

string_enum! {
    /// Where Fargate takes capacity from.
    CapacityProvider {
        /// On demand.
        Fargate = "FARGATE",
        /// Spare capacity: cheaper, and reclaimed with two minutes' notice.
        FargateSpot = "FARGATE_SPOT",
    }
}

/// One entry of `capacity_provider_strategy`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CapacityProviderShare {
    /// The provider.
    pub capacity_provider: CapacityProvider,
    /// Share among the entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Number of tasks that start here before shares count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<u32>,
}

impl CapacityProviderShare {
    fn read(fields: &mut Fields) -> Option<Self> {
        let capacity_provider = fields.required_one_of("capacity_provider");
        let weight = fields.number("weight", 0..=1_000);
        let base = fields.number("base", 0..=100_000);
        Some(Self { capacity_provider: capacity_provider?, weight, base })
    }
}

impl ServerlessEcs {
    pub(crate) fn read(fields: &mut Fields) -> Self {
        let read = Self {
            auth: fields.required_object("auth", AwsAuth::read),
            job: fields.required_object("job", EcsJob::read),
        };
        check_partition(fields, "auth.role_arn", &read.auth.role_arn, &read.job.region);
        read
    }
}

impl EcsJob {
    pub(crate) fn read(fields: &mut Fields) -> Self {
        let region = fields.required_text("region", &REGION);
        let cluster = fields.required_text("cluster", &ECS_CLUSTER);
        let subnets = fields.required_texts("subnets", &(1..=16), &SUBNET);
        let job = Self { region, cluster, subnets, ..Self::read_rest(fields) };
        job.check(fields);
        job
    }

    /// Reads the job of `ecs-agent`: region, cluster and subnets are optional, since the agent knows its own.
    pub(crate) fn read_by_agent(fields: &mut Fields) -> Self {
        let region = fields.text("region", &REGION).unwrap_or_default();
        let cluster = fields.text("cluster", &ECS_CLUSTER).unwrap_or_default();
        let subnets = fields.texts("subnets", &(1..=16), &SUBNET).unwrap_or_default();
        let mut job = Self { region, cluster, subnets, ..Self::read_rest(fields) };
        job.launch_type = fields.one_of("launch_type");
        job.acknowledge_shared_instance_credentials =
            fields.flag("acknowledge_shared_instance_credentials");
        job.check(fields);
        job
    }

    fn read_rest(fields: &mut Fields) -> Self {
        Self {
            execution_role_arn: fields.required_text("execution_role_arn", &ROLE_ARN),
            security_groups: fields.texts("security_groups", &(0..=5), &SECURITY_GROUP),
            is_public_ip_enabled: fields.flag("is_public_ip_enabled"),
            image: fields.text("image", &IMAGE),
            task_role_arn: fields.text("task_role_arn", &ROLE_ARN),
            environment: fields.text_map("environment", 200, &VARIABLE, &VALUE),
            secrets: fields.text_map("secrets", 200, &VARIABLE, &SECRET_ARN),
            cpu: fields.number("cpu", 256..=16_384),
            memory: fields.number("memory", 512..=122_880),
            ephemeral_storage_gib: fields.number("ephemeral_storage_gib", 21..=200),
            capacity_provider_strategy: fields
                .objects("capacity_provider_strategy", &(1..=2), CapacityProviderShare::read)
                .map(|shares| shares.into_iter().flatten().collect()),
            // ECS accepts 50 tags; Canyon adds its own.
            tags: fields.text_map("tags", 40, &TAG_KEY, &TAG_VALUE),
            platform_version: fields.text("platform_version", &PLATFORM_VERSION),
            architecture: fields.one_of("architecture"),
            log_group: fields.text("log_group", &LOG_GROUP),
            identity: fields.object("identity", JobIdentity::read),
            timeouts: fields.object("timeouts", TimeoutSettings::read),
            ..Self::default()
        }
    }

    /// Whether tasks run on instances of the cluster.
    pub fn is_on_ec2(&self) -> bool {
        self.launch_type == Some(LaunchType::Ec2)
    }

    /// The given fields that have a meaning on Fargate only.
    pub fn fargate_only_fields(&self) -> impl Iterator<Item = &'static str> {
        let fields = [
            ("ephemeral_storage_gib", self.ephemeral_storage_gib.is_some()),
            ("capacity_provider_strategy", self.capacity_provider_strategy.is_some()),
            ("platform_version", self.platform_version.is_some()),
            ("is_public_ip_enabled", self.is_public_ip_enabled == Some(true)),
        ];
        fields.into_iter().filter_map(|(name, is_given)| is_given.then_some(name))
    }

    /// Checks across fields.
    fn check(&self, fields: &mut Fields) {
        if self.is_on_ec2() {
            self.check_ec2(fields);
        } else if let Err((name, reason)) = fargate_size::check(self.cpu, self.memory) {
            fields.fault(name, reason);
        }
        let empty = BTreeMap::new();
        let secrets = self.secrets.as_ref().unwrap_or(&empty);
        for name in self.environment.iter().flatten().map(|(name, _)| name) {
            if secrets.contains_key(name) {
                fields.warn(&format!("secrets.{name}"), "is also in `environment`");
            }
        }
        for (name, arn) in secrets {
            check_partition(fields, &format!("secrets.{name}"), arn, &self.region);
        }
        check_partition(fields, "execution_role_arn", &self.execution_role_arn, &self.region);
        if let Some(role) = &self.task_role_arn {
            check_partition(fields, "task_role_arn", role, &self.region);
        }
        self.check_shares(fields);
    }

    /// Source: Amazon ECS developer guide, "Task definition parameters" and "Task networking with the
    /// awsvpc network mode"; "Amazon ECS task role" on what tasks of an instance reach.
    fn check_ec2(&self, fields: &mut Fields) {
        if self.acknowledge_shared_instance_credentials != Some(true) {
            let reason = "is `ec2`, which puts jobs on instances whose own credentials a task may reach; use \
                          `fargate`, or set `acknowledge_shared_instance_credentials: true` beside it, once the \
                          instances have ECS_AWSVPC_BLOCK_IMDS=true or credentials without permissions";
            fields.fault("launch_type", reason);
        }
        for name in self.fargate_only_fields() {
            fields.fault(name, "works only on Fargate, and `launch_type` is `ec2`");
        }
    }

    /// Rules of ECS: each provider once, at most one base, and not all weights zero.
    fn check_shares(&self, fields: &mut Fields) {
        let Some(shares) = &self.capacity_provider_strategy else { return };
        let name = "capacity_provider_strategy";
        if let [first, second] = shares.as_slice() {
            if first.capacity_provider == second.capacity_provider {
                fields.fault(name, "names the same capacity provider twice");
            }
            if first.base.unwrap_or(0) > 0 && second.base.unwrap_or(0) > 0 {
                fields.fault(name, "must have a `base` in one entry at most");
            }
        }
        if shares.len() > 1 && shares.iter().all(|share| share.weight.unwrap_or(0) == 0) {
            fields.fault(name, "must have an entry with a `weight` above 0");
        }
    }
}
