//! Fingerprints: equal for equal launches or values, different otherwise.

use crate::Launch;
use canyon_domain::to_json::to_json_text;
use secrecy::ExposeSecret as _;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// The fingerprint of a launch. It reveals nothing of the claim code.
pub(crate) fn of_launch(launch: &Launch) -> String {
    let environment: BTreeMap<&str, &str> = launch
        .environment
        .iter()
        .map(|(name, value)| (name.as_str(), value.expose_secret()))
        .collect();
    let (project, env) = (launch.project.to_string(), launch.env.to_string());
    match &launch.container {
        None => of(&(environment, project, env)),
        Some(container) => of(&(environment, project, env, container)),
    }
}

/// A hash of the value's JSON. Maps in Kubernetes types are sorted, so equal values have equal
/// JSON.
pub(crate) fn of(value: &impl Serialize) -> String {
    hex::encode(Sha256::digest(to_json_text(value)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobRef;
    use canyon_domain::container::ContainerLaunch;
    use canyon_domain::ids::DeploymentId;
    use jiff::Timestamp;

    fn launch(code: &str) -> Launch {
        Launch {
            job: JobRef { deployment: DeploymentId(uuid::Uuid::nil()), attempt: 1, handle: None },
            environment: [("CANYON_CLAIM_CODE".to_owned(), code.to_owned().into())].into(),
            project: "shop".parse().unwrap(),
            env: "dev".parse().unwrap(),
            launched_at: Timestamp::UNIX_EPOCH,
            container: None,
        }
    }

    #[test]
    fn a_launch_has_the_same_fingerprint_whenever_it_is_made() {
        let one = launch("cyc_1");
        let again = Launch { launched_at: Timestamp::MAX, ..one.clone() };
        assert_eq!(of_launch(&one), of_launch(&again));
        assert_ne!(of_launch(&one), of_launch(&launch("cyc_2")));
        let elsewhere = Launch { env: "other".parse().unwrap(), ..one.clone() };
        assert_ne!(of_launch(&one), of_launch(&elsewhere));
        let container = ContainerLaunch {
            image: "a".to_owned(),
            stop_seconds: 70,
            ..ContainerLaunch::default()
        };
        let in_image = Launch { container: Some(container), ..one.clone() };
        assert_ne!(of_launch(&one), of_launch(&in_image));
        assert!(!of_launch(&one).contains("cyc_1"));
        // Jobs that run now have fingerprints of an older version, so the form must not change.
        assert_eq!(of(&("a", [1])), hex::encode(Sha256::digest(br#"["a",[1]]"#)));
    }
}
