//! What a platform calls the job of an attempt: a name that says which attempt it is, so that a repeat
//! finds what is there and an event about a job finds its deployment.
//!
//! `canyon-<organization>-<deployment>-<attempt>`, the first two as 32 hexadecimal digits. That fits
//! ECS's `startedBy` (at most 128 letters, digits, hyphens and underscores; ECS API reference,
//! `RunTask`). It is no secret and proves nothing.

use crate::bearer::AttemptRef;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use uuid::Uuid;

/// How each name begins.
pub const PREFIX: &str = "canyon-";

/// The name of an attempt's job.
pub fn job_name(of: AttemptRef) -> String {
    let AttemptRef { org, deployment, number } = of;
    format!("{PREFIX}{}-{}-{number}", org.0.simple(), deployment.0.simple())
}

/// The attempt that a job's name says, or `None` for a name that is not ours.
pub fn parse_job_name(name: &str) -> Option<AttemptRef> {
    let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '-');
    let mut uuid = || parts.next().filter(|text| text.len() == 32)?.parse::<Uuid>().ok();
    let (org, deployment) = (OrgUuid(uuid()?), DeploymentId(uuid()?));
    let number = parts.next()?.parse().ok()?;
    let attempt = AttemptRef { org, deployment, number };
    // One attempt has one name.
    (job_name(attempt) == name).then_some(attempt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_reads_back_and_no_other_does() {
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
