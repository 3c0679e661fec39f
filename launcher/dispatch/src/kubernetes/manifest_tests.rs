use super::*;
use crate::JobRef;
use canyon_domain::ids::{DeploymentId, OrgUuid, RunnerUuid};
use canyon_domain::runner::RunnerDefinition;
use serde_json::{Value, json};
use uuid::Uuid;

fn target(job: &Value) -> Target {
    let definition = json!({
        "runner_configuration": { "type": "kubernetes-agent", "job": job },
        "state_storage_configuration": { "type": "kubernetes", "namespace": "states" },
    });
    Target {
        org: OrgUuid(Uuid::from_u128(1)),
        org_id: "acme".parse().unwrap(),
        runner: RunnerUuid(Uuid::from_u128(2)),
        runner_id: "far".parse().unwrap(),
        definition: RunnerDefinition::parse_stored(definition).unwrap(),
        agent: None,
    }
}

fn launch() -> Launch {
    let environment = [("CANYON_API_URL", "http://c"), ("CANYON_CLAIM_CODE", "cyc_secret")];
    Launch {
        job: JobRef { deployment: DeploymentId(Uuid::from_u128(3)), attempt: 1, handle: None },
        environment: environment.map(|(name, value)| (name.to_owned(), value.into())).into(),
        project: "shop".parse().unwrap(),
        env: "dev".parse().unwrap(),
        launched_at: "2026-01-01T00:00:00Z".parse().unwrap(),
        container: None,
    }
}

#[test]
fn a_manifest_is_the_job_that_canyon_creates_except_for_the_claim_code() {
    let target = target(&json!({ "namespace": "jobs", "service_account": "canyon" }));
    let image = Some("registry.test/runner:1");
    let made = manifest(&target, image, &launch()).unwrap();
    assert!(!made.job.to_string().contains("cyc_secret"), "the manifest is stored");
    let defaults = JobDefaults { image: image.map(str::to_owned), ..JobDefaults::default() };
    let mut own = serde_json::to_value(job::job(&target, &defaults, &launch()).unwrap()).unwrap();
    let annotations = own["metadata"]["annotations"].as_object_mut().unwrap();
    assert!(
        annotations.remove(names::LAUNCH).is_some() && annotations.remove(names::SPEC).is_some()
    );
    assert_eq!(
        (made.name.as_str(), made.namespace.as_str()),
        (&*names::job_name(&launch().job), "jobs")
    );
    assert_eq!(own["kind"], "Job");
    assert_eq!(made.with_claim_code("cyc_secret"), own);
}

#[test]
fn a_job_that_needs_another_object_has_no_manifest() {
    let image = Some("registry.test/runner:1");
    let guarded = json!({
        "namespace": "jobs", "service_account": "canyon", "deny_metadata_access": true,
    });
    let error = manifest(&target(&guarded), image, &launch()).unwrap_err();
    assert!(error.failure.message.contains("canyon-agent"), "{error}");
    let plain = target(&json!({ "namespace": "jobs", "service_account": "canyon" }));
    let error = manifest(&plain, None, &launch()).unwrap_err();
    assert!(error.failure.message.contains("no runner image is set"), "{error}");
}
