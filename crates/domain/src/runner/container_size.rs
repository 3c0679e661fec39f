//! How much CPU and memory a container job asks for, in the units of the platform that runs it.
//!
//! | platform | `cpu` | `memory` |
//! |---|---|---|
//! | Kubernetes | a quantity: `500m`, `2` | a quantity: `512Mi`, `2Gi` |
//! | ECS | CPU units: `1024` is one vCPU | MiB |
//! | Docker | processors: `0.5`, `2` | MiB |

use super::configuration::RunnerConfiguration;
use super::fargate_size;
use super::kind::{JobPlace, JobSettings};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// The CPU units that a task may have, and the memory in MiB (Amazon ECS developer guide, "Task size").
const ECS_CPU: RangeInclusive<u32> = 128..=196_608;
const ECS_MEMORY: RangeInclusive<u32> = 256..=1_048_576;
/// The memory of a container of a Docker engine, in MiB: as a runner's `memory_limit`.
const DOCKER_MEMORY: RangeInclusive<u32> = 64..=1_048_576;
/// What a job of a Docker engine may have if its runner has no `memory_limit`, in MiB.
const DEFAULT_LIMIT: u32 = 4_096;
/// Processors of a container of a Docker engine.
const DOCKER_CPU: RangeInclusive<f64> = 0.01..=1_024.0;

/// What a container job asks for; without an amount it gets that of its runner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContainerSize {
    /// CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

impl ContainerSize {
    /// Whether it is as its runner says.
    pub fn is_of_runner(&self) -> bool {
        self.cpu.is_none() && self.memory.is_none()
    }

    /// `cpu` as units of ECS.
    pub fn cpu_units(&self) -> Option<u32> {
        self.cpu.as_deref()?.parse().ok()
    }

    /// `cpu` as billionths of a processor.
    pub fn nano_cpus(&self) -> Option<i64> {
        let (whole, part) = decimal(self.cpu.as_deref()?)?;
        let nanos = format!("{part:0<9}").parse::<i64>().ok()?;
        whole.checked_mul(1_000_000_000)?.checked_add(nanos)
    }

    /// `memory` in MiB.
    pub fn mebibytes(&self) -> Option<u32> {
        self.memory.as_deref()?.parse().ok()
    }

    /// Checks it for a runner; else the faulty field and the reason.
    pub(super) fn check(&self, of: &RunnerConfiguration) -> Result<(), (&'static str, String)> {
        match of.job_settings() {
            Some(JobSettings::Cluster(_)) => self.check_quantities(),
            Some(JobSettings::Ecs(job)) => {
                within("cpu", self.cpu.as_deref(), &ECS_CPU, "CPU units")?;
                within("memory", self.memory.as_deref(), &ECS_MEMORY, "MiB")?;
                if job.is_on_ec2() || self.is_of_runner() {
                    return Ok(());
                }
                fargate_size::check(self.cpu_units().or(job.cpu), self.mebibytes().or(job.memory))
            }
            Some(JobSettings::Docker(job)) => self.check_docker(job.memory_limit),
            None if of.runner_type().job_place() == JobPlace::Docker => self.check_docker(None),
            Some(JobSettings::Machine(_)) | None => Ok(()),
        }
    }

    fn check_quantities(&self) -> Result<(), (&'static str, String)> {
        let is = |text: &str, units: &[&str]| {
            let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let is_number = number.parse::<f64>().is_ok_and(|amount| amount > 0.0);
            is_number && units.contains(&&text[number.len()..])
        };
        if self.cpu.as_deref().is_some_and(|cpu| !is(cpu, &["", "m"])) {
            return Err((
                "cpu",
                "must be a quantity of Kubernetes, such as `500m` or `2`".to_owned(),
            ));
        }
        let units = ["", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"];
        if self.memory.as_deref().is_some_and(|memory| !is(memory, &units)) {
            let rule = "must be a quantity of Kubernetes, such as `512Mi` or `2Gi`";
            return Err(("memory", rule.to_owned()));
        }
        Ok(())
    }

    fn check_docker(&self, limit: Option<u32>) -> Result<(), (&'static str, String)> {
        let is_cpu = |text: &str| {
            let is_plain = decimal(text).is_some();
            is_plain && text.parse::<f64>().is_ok_and(|amount| DOCKER_CPU.contains(&amount))
        };
        if self.cpu.as_deref().is_some_and(|cpu| !is_cpu(cpu)) {
            let (least, most) = (DOCKER_CPU.start(), DOCKER_CPU.end());
            return Err(("cpu", format!("must be a number of processors from {least} to {most}")));
        }
        within("memory", self.memory.as_deref(), &DOCKER_MEMORY, "MiB")?;
        match (self.mebibytes(), limit) {
            (Some(wanted), Some(most)) if wanted > most => Err((
                "memory",
                format!("is {wanted} MiB; its runner allows {most} (its `job.memory_limit`)"),
            )),
            (Some(wanted), None) if wanted > DEFAULT_LIMIT => Err((
                "memory",
                format!(
                    "is {wanted} MiB; its runner allows {DEFAULT_LIMIT}, unless its `job.memory_limit` allows more"
                ),
            )),
            _ => Ok(()),
        }
    }
}

/// The digits before and after the point, at most nine.
fn decimal(text: &str) -> Option<(i64, &str)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
    let is_number = !whole.is_empty() && is_digits(whole) && is_digits(part) && part.len() <= 9;
    Some((whole.parse().ok().filter(|_| is_number)?, part))
}

fn within(
    field: &'static str,
    given: Option<&str>,
    range: &RangeInclusive<u32>,
    unit: &str,
) -> Result<(), (&'static str, String)> {
    let Some(text) = given else { return Ok(()) };
    if text.parse().is_ok_and(|amount: u32| range.contains(&amount)) {
        return Ok(());
    }
    let (least, most) = (range.start(), range.end());
    Err((field, format!("must be a whole number of {unit} from {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::RunnerDefinition;
    use serde_json::{Value, json};

    fn refusal(configuration: &Value, size: Value) -> Option<String> {
        let runner = json!({
            "runner_configuration": configuration,
            "state_storage_configuration": { "type": "s3", "bucket": "states" },
        });
        let runner = RunnerDefinition::parse_stored(runner).unwrap();
        let size: ContainerSize = serde_json::from_value(size).unwrap();
        let checked = size.check(&runner.configuration);
        checked.err().map(|(field, reason)| format!("{field}: {reason}"))
    }

    #[test]
    fn each_platform_takes_amounts_in_its_own_units() {
        let cluster = json!({ "type": "kubernetes-agent", "job": { "namespace": "a", "service_account": "b" } });
        let docker = json!({ "type": "docker", "job": { "memory_limit": 1024 } });
        let task = json!({
            "type": "serverless-ecs", "auth": { "role_arn": "arn:aws:iam::123456789012:role/canyon" },
            "job": {
                "region": "eu-central-1", "cluster": "jobs", "subnets": ["subnet-0a1b2c3d"],
                "execution_role_arn": "arn:aws:iam::123456789012:role/execution", "cpu": 256, "memory": 512,
            },
        });
        for (runner, cpu, memory) in [
            (&cluster, "500m", "1Gi"),
            (&cluster, "2", "512Mi"),
            (&docker, "0.5", "1024"),
            (&docker, "2", "64"),
            (&task, "1024", "2048"),
        ] {
            let size = json!({ "cpu": cpu, "memory": memory });
            assert_eq!(refusal(runner, size), None, "{cpu} {memory}");
        }
        let unlimited = json!({ "type": "docker" });
        assert_eq!(refusal(&unlimited, json!({ "memory": "4096" })), None);
        let more = refusal(&unlimited, json!({ "memory": "4097" })).unwrap();
        assert!(more.contains("its runner allows 4096, unless its `job.memory_limit`"), "{more}");
        let refused: Vec<_> = [
            (&cluster, json!({ "cpu": "0.5 CPU" })),
            (&cluster, json!({ "memory": "2GB" })),
            (&cluster, json!({ "memory": "0" })),
            (&docker, json!({ "cpu": "500m" })),
            (&docker, json!({ "memory": "1Gi" })),
            (&docker, json!({ "memory": "2048" })),
            (&task, json!({ "cpu": "0.5" })),
            (&task, json!({ "memory": "4096" })),
        ]
        .into_iter()
        .filter_map(|(runner, size)| refusal(runner, size))
        .collect();
        insta::assert_snapshot!(refused.join("\n"), @"
        cpu: must be a quantity of Kubernetes, such as `500m` or `2`
        memory: must be a quantity of Kubernetes, such as `512Mi` or `2Gi`
        memory: must be a quantity of Kubernetes, such as `512Mi` or `2Gi`
        cpu: must be a number of processors from 0.01 to 1024
        memory: must be a whole number of MiB from 64 to 1048576
        memory: is 2048 MiB; its runner allows 1024 (its `job.memory_limit`)
        cpu: must be a whole number of CPU units from 128 to 196608
        memory: must be 512, or 1024 to 2048 in steps of 1024 when `cpu` is 256
        ");
    }

    #[test]
    fn processors_are_counted_in_billionths() {
        let nanos =
            |cpu: &str| ContainerSize { cpu: Some(cpu.to_owned()), memory: None }.nano_cpus();
        assert_eq!(nanos("0.5"), Some(500_000_000));
        assert_eq!(nanos("2"), Some(2_000_000_000));
        assert_eq!(nanos("1.000000001"), Some(1_000_000_001));
        assert_eq!(nanos("1.0000000001"), None);
    }
}
