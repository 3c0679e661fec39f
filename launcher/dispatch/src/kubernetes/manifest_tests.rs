use super::*;
use crate::JobRef;
use canyon_domain::container::ContainerLaunch;
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

fn in_image(image: &str) -> Launch {
    let container =
        ContainerLaunch { image: image.to_owned(), stop_seconds: 75, ..ContainerLaunch::default() };
    Launch { container: Some(container), ..launch() }
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

/// The pod's specification in the manifest.
fn pod_of(job: &Value, launch: &Launch) -> Value {
    let made = manifest(&target(job), Some("registry.test/runner:1"), launch).unwrap();
    made.job["spec"]["template"]["spec"].clone()
}

#[test]
fn a_container_job_differs_from_a_modules_only_where_the_users_image_needs_it() {
    let settings = json!({
        "namespace": "jobs", "service_account": "canyon",
        "pod_template": { "spec": {
            "terminationGracePeriodSeconds": 20,
            "imagePullSecrets": [{ "name": "regcred" }],
            "initContainers": [{ "name": "authorities", "image": "shop/authorities:1" }],
            "containers": [{
                "name": "main", "image": "own/runner:2", "imagePullPolicy": "Always",
                "env": [{ "name": "TEAM", "value": "shop" }],
                "volumeMounts": [
                    { "name": "ca", "mountPath": "/etc/ssl/certs" },
                    { "name": "ca", "mountPath": "/etc/ssl/x", "subPathExpr": "$(TEAM)" },
                    { "name": "ca", "mountPath": "/etc/sslx" },
                ],
                "resources": { "limits": { "memory": "1Gi" } },
            }],
            "volumes": [{ "name": "ca", "emptyDir": {} }],
        } },
    });
    let of_module = pod_of(&settings, &launch());
    let image = "shop/job@sha256:$(CANYON_CLAIM_CODE)";
    let mut pod = pod_of(&settings, &in_image(image));

    let inject = pod["initContainers"].as_array_mut().unwrap().remove(1);
    let main = of_module["containers"][0].clone();
    let mut context = main["securityContext"].clone();
    context["readOnlyRootFilesystem"] = json!(true);
    let expected = json!({
        "name": "canyon-inject", "image": "own/runner:2", "imagePullPolicy": "Always",
        "args": ["inject", "/canyon/volume"], "resources": main["resources"],
        "securityContext": context, "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            { "name": "ca", "mountPath": "/etc/ssl/certs" },
            { "name": "canyon-work", "mountPath": "/canyon/volume", "readOnly": false },
        ],
    });
    assert_eq!(inject, expected);

    let container = &mut pod["containers"][0];
    assert_eq!(container["image"], image);
    assert_eq!(container["command"], json!(["/canyon/bin/canyon-runner"]));
    assert_eq!(container["workingDir"], "/canyon/run");
    assert_eq!(container["securityContext"], context, "its root file system is read-only");
    container["securityContext"] = main["securityContext"].clone();
    let variable = container["env"].as_array_mut().unwrap().remove(0);
    let escaped = "shop/job@sha256:$$(CANYON_CLAIM_CODE)";
    assert_eq!(variable, json!({ "name": "CANYON_JOB_IMAGE", "value": escaped }));
    // What remains is the pod of a module's job, but for the token of the state in the cluster.
    for field in ["image", "imagePullPolicy", "command", "workingDir"] {
        container[field] = main[field].clone();
    }
    let without_token = |list: &Value, key: &str| -> Vec<Value> {
        let list = list.as_array().unwrap().iter();
        list.filter(|entry| entry[key] != "canyon-api-token").cloned().collect()
    };
    let mut of_module = of_module;
    let mounts = without_token(&main["volumeMounts"], "name");
    of_module["containers"][0]["volumeMounts"] = json!(mounts);
    of_module["volumes"] = json!(without_token(&of_module["volumes"], "name"));
    let grace = pod.get_mut("terminationGracePeriodSeconds").unwrap().take();
    assert_eq!((grace, of_module["terminationGracePeriodSeconds"].take()), (json!(75), json!(20)));
    let volumes = pod["volumes"].as_array_mut().unwrap();
    let work = volumes.iter_mut().find(|volume| volume["name"] == "canyon-work").unwrap();
    assert_eq!(work["emptyDir"].as_object_mut().unwrap().remove("sizeLimit"), Some(json!("10Gi")));
    assert!(!pod.to_string().contains("canyon-api-token"), "{pod}");
    without_nulls(&mut pod);
    without_nulls(&mut of_module);
    assert_eq!(pod, of_module);
}

/// A field that was set to `null` counts as absent.
fn without_nulls(pod: &mut Value) {
    for container in pod["containers"].as_array_mut().unwrap() {
        container.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    }
}

#[test]
fn a_container_job_needs_the_runners_image_too() {
    let plain = target(&json!({ "namespace": "jobs", "service_account": "canyon" }));
    let error = manifest(&plain, None, &in_image("shop/job:1")).unwrap_err();
    assert!(error.failure.message.contains("no runner image is set"), "{error}");
}

#[test]
fn a_template_may_let_a_container_job_write_to_its_root_file_system() {
    let writable = json!({ "readOnlyRootFilesystem": false });
    let settings = json!({
        "namespace": "jobs", "service_account": "canyon",
        "pod_template": { "spec": { "containers": [
            { "name": "canyon-runner", "securityContext": writable },
        ] } },
    });
    let pod = pod_of(&settings, &in_image("shop/job:1"));
    let is_read_only = |list: &str| &pod[list][0]["securityContext"]["readOnlyRootFilesystem"];
    assert_eq!(is_read_only("containers"), false);
    assert_eq!(is_read_only("initContainers"), true);
}
