//! The name of an attempt's job on its platform. It contains the attempt, so that a retry finds the
//! existing job, and an event about a job finds its deployment.
//!
//! `canyon-<organization>-<deployment>-<attempt>`, the first two as 32 hexadecimal digits. That
//! fits ECS's `startedBy` (at most 128 letters, digits, hyphens and underscores; ECS API reference,
//! `RunTask`). It is not secret and proves nothing.

use crate::bearer::AttemptRef;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use uuid::Uuid;

/// Prefix of every name.
pub const PREFIX: &str = "canyon-";

/// The name of an attempt's job.
pub fn job_name(of: AttemptRef) -> String {
    let AttemptRef { org, deployment, number } = of;
    format!("{PREFIX}{}-{}-{number}", org.0.simple(), deployment.0.simple())
}

/// The attempt in a job's name; `None` if the name does not have this form.
pub fn parse_job_name(name: &str) -> Option<AttemptRef> {
    let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '-');
    let mut uuid = || parts.next().filter(|text| text.len() == 32)?.parse::<Uuid>().ok();
    let (org, deployment) = (OrgUuid(uuid()?), DeploymentId(uuid()?));
    let number = parts.next()?.parse().ok()?;
    let attempt = AttemptRef { org, deployment, number };
    // Each attempt has exactly one name.
    (job_name(attempt) == name).then_some(attempt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_of_canyon_reads_back() {
        let (org, deployment) = (OrgUuid(Uuid::now_v7()), DeploymentId(Uuid::now_v7()));
        let attempt = AttemptRef { org, deployment, number: u32::MAX };
        let name = job_name(attempt);
        assert_eq!(parse_job_name(&name), Some(attempt));
        assert!(name.len() <= 128, "{name}");
        let upper = name.to_uppercase().replace("CANYON", "canyon");
        for wrong in ["", "canyon-", "ecs-svc/123", &name[1..], &format!("{name}0"), &upper] {
            assert_eq!(parse_job_name(wrong), None, "{wrong}");
        }
        assert_eq!(parse_job_name(&name.replace("-4294967295", "-+1")), None);
    }
}
