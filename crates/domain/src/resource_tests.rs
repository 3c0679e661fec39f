use super::*;
use crate::commit::Commit;
use crate::deployment::ResourceCounts;
use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

const ID: &str = "00000000-0000-7000-8000-000000000001";

/// A deployment for the resource `name` that was launched, whose program began, and that ended so.
fn deployment(number: u128, name: &str, mode: &str, status: &str, has_begun: bool) -> Deployment {
    let attempt = json!({
        "number": 1, "fence": 1, "launched_at": "2026-01-01T00:00:00Z",
        "limits": { "start": 300, "run": 3_600, "stop": 30 }, "claim_hash": "h",
        "phase": if has_begun { "apply" } else { "fetch" },
    });
    let container = json!({
        "resource": name, "image": "a", "timeout_seconds": 60, "grace_seconds": 60,
    });
    let value = json!({
        "id": Uuid::from_u128(number), "project": "shop", "env": "dev", "env_uuid": ID, "runner": "laptop",
        "mode": mode, "status": status, "container": container, "created_at": "2026-01-01T00:00:00Z",
        "created_by": ID, "attempts": [attempt], "version": 1,
    });
    serde_json::from_value(value).unwrap()
}

fn run(resources: &mut ResourceSet, deployment: &Deployment) {
    resources.record_launch(deployment);
    // A second attempt is launched too.
    resources.record_launch(deployment);
    resources.record_end(deployment);
}

#[test]
fn a_resource_is_what_its_last_deployment_left() {
    let mut resources = ResourceSet::default();
    let name: ResourceName = "s3#photos".parse().unwrap();
    for (number, mode, status, has_begun, expected) in [
        (1, "deploy", "failed", false, None),
        (2, "deploy", "failed", true, Some(("failed", Some(2)))),
        (3, "deploy", "cancelled", false, Some(("failed", Some(2)))),
        (4, "deploy", "succeeded", true, Some(("ready", Some(4)))),
        (5, "deploy", "failed", false, Some(("ready", Some(4)))),
        (6, "deploy", "failed", true, Some(("failed", Some(4)))),
        (7, "rollback", "succeeded", true, Some(("ready", Some(7)))),
        (8, "destroy", "failed", true, Some(("failed", Some(7)))),
        (9, "destroy", "failed", false, Some(("failed", Some(7)))),
        (10, "destroy", "succeeded", true, None),
        (11, "deploy", "succeeded", true, Some(("ready", Some(11)))),
    ] {
        let deployment = deployment(number, "s3#photos", mode, status, has_begun);
        run(&mut resources, &deployment);
        let found = resources.get(&name).map(|resource| {
            let to_destroy = resource.to_destroy().map(|id| id.0.as_u128());
            (resource.status.as_str(), to_destroy)
        });
        assert_eq!(found, expected, "after {number}");
    }
}

#[test]
fn while_a_deployment_runs_its_resource_says_what_it_does() {
    let mut resources = ResourceSet::default();
    let status = |resources: &ResourceSet| resources.iter().next().map(|one| one.status.as_str());
    for (number, mode, during, after) in [
        (1, "deploy", "creating", Some("ready")),
        (2, "deploy", "updating", Some("ready")),
        (3, "destroy", "destroying", None),
    ] {
        let deployment = deployment(number, "s3", mode, "succeeded", true);
        resources.record_launch(&deployment);
        assert_eq!(status(&resources), Some(during));
        resources.record_end(&deployment);
        assert_eq!(status(&resources), after);
    }
}

#[test]
fn a_deployment_that_was_never_launched_changes_no_resource() {
    let mut resources = ResourceSet::default();
    run(&mut resources, &deployment(1, "s3", "deploy", "succeeded", true));
    let before = resources.clone();
    let mut cancelled = deployment(2, "s3", "destroy", "cancelled", false);
    cancelled.attempts.clear();
    resources.record_end(&cancelled);
    assert_eq!(resources, before);
}

#[test]
fn a_check_says_whether_its_resource_differs_until_a_deployment_changes_that() {
    let mut resources = ResourceSet::default();
    run(&mut resources, &deployment(1, "s3", "deploy", "succeeded", true));
    for (number, status, changed, expected) in [
        (2, "succeeded", Some(0), CheckStatus::InSync),
        (3, "succeeded", Some(1), CheckStatus::Drifted),
        (4, "failed", None, CheckStatus::Unknown),
    ] {
        let counts = changed.map(|changed| ResourceCounts { changed, ..ResourceCounts::default() });
        let check = deployment(number, "s3", "deploy", status, false);
        run(&mut resources, &Deployment { plan_only: true, counts, ..check });
        let resource = resources.iter().next().unwrap();
        let found = resource.last_check.map(|check| (check.status, check.by.0.as_u128()));
        assert_eq!(found, Some((expected, number)));
        assert_eq!((resource.status, resource.before), (ResourceStatus::Ready, None));
        assert_eq!(resource.last_success.map(|id| id.0.as_u128()), Some(1));
    }
    run(&mut resources, &deployment(5, "s3", "deploy", "failed", false));
    assert!(resources.iter().next().unwrap().last_check.is_some(), "its program never began");
    run(&mut resources, &deployment(6, "s3", "deploy", "failed", true));
    assert_eq!(resources.iter().next().unwrap().last_check, None);
}

#[test]
fn a_set_has_room_for_what_it_has_and_for_one_more_below_its_limit() {
    let mut resources = ResourceSet::default();
    let check = |resources: &ResourceSet, name: &str| {
        resources.check(&name.parse().unwrap(), Kind::Container)
    };
    for number in 0..MAX_RESOURCES {
        let name = format!("s3#r{number}");
        assert_eq!(check(&resources, &name), Ok(()));
        run(&mut resources, &deployment(1, &name, "deploy", "succeeded", true));
    }
    assert_eq!(check(&resources, "s3#more"), Err(ResourceRefusal::Full));
    assert_eq!(check(&resources, "s3#r7"), Ok(()));
    let other = resources.check(&"s3#r7".parse().unwrap(), Kind::Tofu).unwrap_err();
    assert!(
        other
            .to_string()
            .contains("was made by a container job, and would now be made by an OpenTofu module")
    );
}

/// The same for a module.
fn module(number: u128, status: &str, has_begun: bool) -> Deployment {
    let resource = Some(Box::new("s3".parse().unwrap()));
    Deployment {
        container: None,
        resource,
        ..deployment(number, "s3", "deploy", status, has_begun)
    }
}

/// As [`run`], as an environment does it for a module.
fn run_module(resources: &mut ResourceSet, deployment: &Deployment) {
    resources.record_launch(deployment);
    let resource = resources.get_mut(deployment.resource().unwrap());
    let module = resource.and_then(|resource| resource.module.as_mut());
    module.unwrap().record_end(deployment, 0);
    resources.record_end(deployment);
}

#[test]
fn a_module_that_fails_before_its_apply_leaves_no_resource() {
    let mut resources = ResourceSet::default();
    run_module(&mut resources, &module(1, "failed", false));
    assert!(resources.is_empty());
    run_module(&mut resources, &module(2, "failed", true));
    assert_eq!(resources.iter().next().unwrap().status, ResourceStatus::Failed);
    let plan = Deployment { plan_only: true, ..module(3, "succeeded", false) };
    run_module(&mut resources, &plan);
    assert_eq!(resources.iter().next().unwrap().last_check, None, "a plan is no check");
}

proptest! {
    /// Whatever ends in whatever order, nothing that a program may have created is forgotten without a destroy that succeeded.
    #[test]
    fn what_a_program_may_have_left_stays_listed(
        steps in prop::collection::vec((0_u8..3, prop::sample::select(vec!["deploy", "rollback", "destroy"]),
            prop::sample::select(vec!["succeeded", "failed", "cancelled"]), any::<bool>()), 1..30)
    ) {
        let mut resources = ResourceSet::default();
        let mut may_exist = [false; 3];
        for (number, (which, mode, status, has_begun)) in steps.into_iter().enumerate() {
            let name = format!("s3#r{which}");
            let parsed: ResourceName = name.parse().unwrap();
            let exists = &mut may_exist[usize::from(which)];
            if mode == "destroy" && !*exists {
                continue;
            }
            let has_begun = has_begun || status == "succeeded";
            run(&mut resources, &deployment(number as u128 + 1, &name, mode, status, has_begun));
            *exists = match (mode, status) {
                ("destroy", "succeeded") => false,
                ("destroy", _) => true,
                _ => *exists || has_begun,
            };
            let found = resources.get(&parsed);
            prop_assert_eq!(found.is_some(), *exists);
            if let Some(found) = found {
                prop_assert!(found.to_destroy().is_some());
                let is_settled = matches!(found.status, ResourceStatus::Ready | ResourceStatus::Failed);
                prop_assert!(is_settled && found.before.is_none());
            }
        }
    }
}

#[test]
fn the_image_of_an_attempt_is_recorded_once_also_after_its_end() {
    let (first, later) = ("ab".repeat(32).parse().unwrap(), "cd".repeat(32).parse().unwrap());
    let digest = |run: &Deployment| run.fetched().and_then(|fetched| fetched.commit.clone());
    let mut ended = deployment(1, "s3#photos", "deploy", "succeeded", true);
    assert!(!ended.record_image_digest(2, Commit::clone(&first)), "of another attempt");
    assert!(ended.record_image_digest(1, first.clone()));
    assert!(!ended.record_image_digest(1, Commit::clone(&later)));
    assert_eq!(digest(&ended), Some(first.clone()));
    let mut by_digest = deployment(2, "s3#photos", "deploy", "succeeded", true);
    by_digest.container.as_mut().unwrap().digest = Some(first);
    assert!(!by_digest.record_image_digest(1, later), "it names that image itself");
    assert_eq!(digest(&by_digest), None);
}
