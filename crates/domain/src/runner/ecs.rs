//! `serverless-ecs`: a task on AWS Fargate.

use super::check_step::CheckStep;
use super::kind::{Facts, JobPlace, JobSettings, Kind, LaunchedBy};
use super::properties::properties;
use super::trust::{self, Grants, TrustSubject};
use super::{
    eks::{AwsAuth, check_partition},
    fargate_size,
    fields::Fields,
    patterns::{
        ALLOWED_IMAGE, ECS_CLUSTER, IMAGE, LOG_GROUP, MAX_ALLOWED_IMAGES, PLATFORM_VERSION, REGION,
        ROLE_ARN, SECRET_ARN, SECURITY_GROUP, SUBNET, TAG_KEY, TAG_VALUE, VALUE, VARIABLE,
    },
    string_enum::string_enum,
    timeouts::TimeoutSettings,
};
use crate::job_identity::JobIdentity;
use crate::state_storage::StateStorage;
use serde::Serialize;
use std::collections::BTreeMap;

/// ECS accepts 50 tags; Canyon adds its own.
const MAX_TAGS: usize = 40;

properties! {
    /// `serverless-ecs`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct ServerlessEcs, check {
        /// How Canyon authenticates.
        pub auth: AwsAuth = required_object(AwsAuth::read),
        /// What to run, and where.
        pub job: EcsJob = required_object(EcsJob::read_by_canyon),
    }
}

properties! {
    /// `job` of `serverless-ecs` and `ecs-agent`.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
    pub struct EcsJob, check {
        /// Region to run in. Empty: the agent's own.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub region: String = text_or_empty(&REGION),
        /// Name of the ECS cluster. Empty: the agent's own.
        #[serde(skip_serializing_if = "String::is_empty")]
        pub cluster: String = text_or_empty(&ECS_CLUSTER),
        /// Subnets that a task may be attached to, 1 to 16. Empty: the agent's own.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub subnets: Vec<String> = texts_or_empty(&(1..=16), &SUBNET),
        /// Role with which ECS pulls the image and reads secrets.
        pub execution_role_arn: String = required_text(&ROLE_ARN),
        /// Security groups of the task, at most 5.
        pub security_groups: Option<Vec<String>> = texts(&(0..=5), &SECURITY_GROUP),
        /// Whether the task gets a public address, which it needs without a NAT gateway.
        pub is_public_ip_enabled: Option<bool> = flag(),
        /// Image to run instead of Canyon's own.
        pub image: Option<String> = text(&IMAGE),
        /// The images that container jobs may run; `*` stands for any text without `/`, `**` for any text. Default: every
        /// image.
        pub allowed_images: Option<Vec<String>> = texts(&(0..=MAX_ALLOWED_IMAGES), &ALLOWED_IMAGE),
        /// Role of the module.
        pub task_role_arn: Option<String> = text(&ROLE_ARN),
        /// Further environment variables.
        pub environment: Option<BTreeMap<String, String>> = text_map(200, &VARIABLE, &VALUE),
        /// Environment variables read from Secrets Manager or Parameter Store, by ARN.
        pub secrets: Option<BTreeMap<String, String>> = text_map(200, &VARIABLE, &SECRET_ARN),
        /// CPU units; 1024 are one vCPU.
        pub cpu: Option<u32> = number(256..=16_384),
        /// Memory in MiB.
        pub memory: Option<u32> = number(512..=122_880),
        /// Disk in GiB, 21 to 200.
        pub ephemeral_storage_gib: Option<u32> = number(21..=200),
        /// Distribution of tasks over Fargate and Fargate Spot.
        pub capacity_provider_strategy: Option<Vec<CapacityProviderShare>> = objects(&(1..=2), CapacityProviderShare::read),
        /// Tags of the task.
        pub tags: Option<BTreeMap<String, String>> = text_map(MAX_TAGS, &TAG_KEY, &TAG_VALUE),
        /// Fargate platform version.
        pub platform_version: Option<String> = text(&PLATFORM_VERSION),
        /// Processor.
        pub architecture: Option<Architecture> = one_of(),
        /// `CloudWatch` log group that the container writes to.
        pub log_group: Option<String> = text(&LOG_GROUP),
        /// The job's identity at clouds.
        pub identity: Option<JobIdentity> = object(JobIdentity::read),
        /// Timeouts.
        pub timeouts: Option<TimeoutSettings> = object(TimeoutSettings::read),
        /// Only with `ecs-agent`: what tasks run on. Default: Fargate.
        pub launch_type: Option<LaunchType> = one_of(),
        /// Only with `ecs-agent`: acknowledges that tasks on EC2 may reach the credentials of their instance.
        pub acknowledge_shared_instance_credentials: Option<bool> = flag(),
    }
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
    #[derive(Default)]
    CapacityProvider {
        /// On demand.
        #[default]
        Fargate = "FARGATE",
        /// Spare capacity: cheaper, and reclaimed with two minutes' notice.
        FargateSpot = "FARGATE_SPOT",
    }
}

properties! {
    /// One entry of `capacity_provider_strategy`.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize)]
    pub struct CapacityProviderShare {
        /// The provider.
        pub capacity_provider: CapacityProvider = required_one_of(),
        /// Share among the entries.
        pub weight: Option<u32> = number(0..=1_000),
        /// Number of tasks that start here before shares count.
        pub base: Option<u32> = number(0..=100_000),
    }
}

impl ServerlessEcs {
    fn check(&self, fields: &mut Fields) {
        check_partition(fields, "auth.role_arn", &self.auth.role_arn, &self.job.region);
    }
}

impl EcsJob {
    /// Reads the job of `serverless-ecs`. An agent knows its own region, cluster and subnets; Canyon does not.
    fn read_by_canyon(fields: &mut Fields) -> Self {
        const OF_AGENTS: &[&str] = &["launch_type", "acknowledge_shared_instance_credentials"];
        fields.adapt(OF_AGENTS, &["region", "cluster", "subnets"]);
        Self::read(fields)
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
        if fields.is_faulty(name) {
            return;
        }
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

impl ServerlessEcs {
    pub(super) const FACTS: Facts = Facts { place: JobPlace::Ecs, launched_by: LaunchedBy::Canyon };
}

impl Kind for ServerlessEcs {
    fn job(&self) -> Option<JobSettings<'_>> {
        Some(JobSettings::Ecs(&self.job))
    }

    fn check_steps(&self) -> &'static [CheckStep] {
        use CheckStep as S;
        &[S::Assertion, S::Exchange, S::Cluster, S::Permissions, S::DryRun]
    }

    fn grants(&self, trusted: &TrustSubject, _: &StateStorage) -> Grants {
        let audience = Some(trust::aws::audience(&self.auth).to_owned());
        Grants { audience, documents: trust::aws::ecs_documents(trusted, self) }
    }
}
