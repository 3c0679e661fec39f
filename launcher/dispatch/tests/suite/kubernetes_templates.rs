//! 20,000 random pod templates: each is refused, or harmless in the form that the real API server
//! stores.

use crate::bed::{ACCOUNT, Bed, USERS_IMAGE};
use crate::behaviour::new_job;
use crate::kubernetes::acting;
use crate::kubernetes_containers::in_image;
use crate::random_template::{Random, Schemas};
use canyon_domain::runner::RunnerDefinition;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use std::sync::Arc;

const TEMPLATES: u64 = 20_000;
const SEED: u64 = 0x5eed;
const WORKERS: u64 = 8;
/// Of the accepted templates, one in this many is created, read back and deleted.
const CREATED_OF: usize = 25;

#[derive(Debug, Default)]
struct Count {
    refused_by_canyon: usize,
    refused_by_the_server: usize,
    accepted: usize,
    of_containers: usize,
    created: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_random_template_is_refused_or_harmless_on_the_real_server() {
    let bed = Arc::new(Bed::new().await);
    let request = http::Request::get("/openapi/v3/apis/batch/v1").body(vec![]).unwrap();
    let schemas = Arc::new(Schemas::new(&bed.admin.request(request).await.unwrap()));
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (bed, schemas) = (bed.clone(), schemas.clone());
            tokio::spawn(async move {
                let mut count = Count::default();
                for n in 0..TEMPLATES / WORKERS {
                    let seed = SEED + n * WORKERS + worker;
                    let template = schemas.template(&mut Random(seed));
                    try_one(&bed, &template, seed, &mut count).await;
                }
                count
            })
        })
        .collect();
    let mut all = Count::default();
    for worker in workers {
        let count = worker.await.unwrap();
        all.refused_by_canyon += count.refused_by_canyon;
        all.refused_by_the_server += count.refused_by_the_server;
        all.accepted += count.accepted;
        all.of_containers += count.of_containers;
        all.created += count.created;
    }
    println!("{all:?}");
    // Otherwise the templates are too random for those that pass to prove anything.
    assert!(all.accepted > 1_000 && all.of_containers > 500 && all.created > 20, "{all:?}");
}

async fn try_one(bed: &Bed, template: &Value, seed: u64, count: &mut Count) {
    let mut configuration = bed.configuration();
    configuration["job"]["pod_template"] = template.clone();
    let definition = json!({
        "runner_configuration": configuration,
        "state_storage_configuration": { "type": "kubernetes", "namespace": bed.namespace },
    });
    if RunnerDefinition::parse(definition).is_err() {
        count.refused_by_canyon += 1;
        return;
    }
    let target = bed.target(configuration);
    // Every second one is a container job.
    let image = (!seed.is_multiple_of(2)).then_some(USERS_IMAGE);
    let launch = acting(bed, new_job(), "writes");
    let launch = image.map_or_else(|| launch.clone(), |image| in_image(image, launch.clone()));
    let Ok(mut job) = bed.platform().job(&target, &launch) else {
        count.refused_by_canyon += 1;
        return;
    };
    let jobs: Api<Job> = bed.api();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let Some(read) = accepted(jobs.create(&dry, &job).await) else {
        count.refused_by_the_server += 1;
        return;
    };
    count.accepted += 1;
    count.of_containers += usize::from(image.is_some());
    let found = escapes(&json!(read), image);
    assert!(found.is_empty(), "seed {seed}: {found:?} of {template}");
    passes_pod_security(bed, &read, seed, template).await;
    if count.accepted.is_multiple_of(CREATED_OF) {
        // Suspended: without pods, which this test does not examine.
        job.spec.as_mut().unwrap().suspend = Some(true);
        let name = job.metadata.name.clone().unwrap();
        jobs.create(&PostParams::default(), &job).await.unwrap();
        let found = escapes(&json!(jobs.get(&name).await.unwrap()), image);
        assert!(found.is_empty(), "seed {seed}: {found:?} of {template}");
        jobs.delete(&name, &DeleteParams::background()).await.unwrap();
        count.created += 1;
    }
}

/// The object that the server accepted; `None` if the server refused it as invalid.
fn accepted<T>(answer: Result<T, kube::Error>) -> Option<T> {
    match answer {
        Ok(read) => Some(read),
        Err(kube::Error::Api(status)) if [400, 403, 422].contains(&status.code) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Pod Security validates pods, not Jobs: so this creates the Job's pod, as a dry run.
async fn passes_pod_security(bed: &Bed, job: &Job, seed: u64, template: &Value) {
    let inner = job.spec.as_ref().unwrap().template.clone();
    let mut pod = Pod { metadata: inner.metadata.unwrap(), spec: inner.spec, status: None };
    pod.metadata.name = job.metadata.name.clone();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    if let Err(kube::Error::Api(status)) = bed.api::<Pod>().create(&dry, &pod).await {
        let message = &status.message;
        assert!(!message.contains("PodSecurity"), "seed {seed}: {message} of {template}");
    }
}

/// The rules for every Job that Canyon creates, checked on the server's JSON: returns the names of
/// those that are broken. Independent of how Canyon enforces them. `image` is that of a container job.
#[expect(clippy::too_many_lines, reason = "one entry for each rule; a split would hide gaps")]
fn escapes(job: &Value, image: Option<&str>) -> Vec<&'static str> {
    let template = &job["spec"]["template"];
    let spec = &template["spec"];
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let runners = list(&spec["containers"]);
    let containers: Vec<_> = runners.iter().cloned().chain(list(&spec["initContainers"])).collect();
    let volumes = list(&spec["volumes"]);
    let is_true = |value: &Value| *value == true;
    let of_each = |holds: &dyn Fn(&Value) -> bool| containers.iter().all(holds);
    let context = |container: &Value| container["securityContext"].clone();
    let runner = &runners[0];
    let checks: [(&'static str, bool); 18] = [
        ("shares a namespace of the node", {
            ["hostNetwork", "hostPID", "hostIPC"].iter().all(|name| !is_true(&spec[name]))
        }),
        ("sees its other containers", !is_true(&spec["shareProcessNamespace"])),
        ("privileged", of_each(&|one| !is_true(&context(one)["privileged"]))),
        ("may gain privileges", of_each(&|one| context(one)["allowPrivilegeEscalation"] == false)),
        (
            "capabilities",
            of_each(&|one| context(one)["capabilities"] == json!({ "drop": ["ALL"] })),
        ),
        (
            "root",
            of_each(&|one| context(one)["runAsNonRoot"] == true && context(one)["runAsUser"] != 0)
                && spec["securityContext"]["runAsUser"] != 0,
        ),
        (
            "without seccomp",
            of_each(&|one| context(one)["seccompProfile"] == json!({ "type": "RuntimeDefault" })),
        ),
        (
            "loosens the kernel's guards",
            of_each(&|one| {
                let context = context(one);
                let app_armor = &context["appArmorProfile"]["type"];
                ["procMount", "seLinuxOptions", "windowsOptions"]
                    .iter()
                    .all(|name| context[name].is_null() || context[name] == "Default")
                    && (app_armor.is_null() || app_armor == "RuntimeDefault")
            }) && spec["securityContext"]["sysctls"].is_null(),
        ),
        ("another identity", {
            spec["serviceAccountName"] == ACCOUNT && spec["automountServiceAccountToken"] == false
        }),
        (
            "a volume of the node or of a driver",
            volumes.iter().all(|volume| {
                let allowed = [
                    "name",
                    "configMap",
                    "secret",
                    "emptyDir",
                    "projected",
                    "downwardAPI",
                    "persistentVolumeClaim",
                ];
                volume.as_object().unwrap().keys().all(|kind| allowed.contains(&kind.as_str()))
            }),
        ),
        ("the API token for another container", {
            list(&spec["initContainers"]).iter().all(|one| {
                let is_inject = image.is_some() && one["name"] == "canyon-inject";
                list(&one["volumeMounts"]).iter().all(|mount| {
                    let is_ours = mount["name"].as_str().unwrap().starts_with("canyon-");
                    !is_ours || (is_inject && mount["name"] == "canyon-work")
                })
            })
        }),
        ("chooses its node", spec["nodeName"].is_null() && spec["schedulingGates"].is_null()),
        ("another program", {
            let is_alone = runners.len() == 1 && runner["name"] == "canyon-runner";
            let is_started = match image {
                None => runner["command"].is_null() && runner["workingDir"] == "/canyon",
                Some(image) => {
                    runner["image"] == image
                        && runner["command"] == json!(["/canyon/bin/canyon-runner"])
                        && runner["workingDir"] == "/canyon/run"
                }
            };
            is_alone && is_started && runner["args"].is_null()
        }),
        ("a secret for the program's image", {
            let inits = list(&spec["initContainers"]);
            let injects = inits.iter().filter(|one| one["name"] == "canyon-inject");
            let injects: Vec<_> = injects.collect();
            injects.len() == usize::from(image.is_some())
                && injects.iter().all(|one| {
                    one["env"].is_null()
                        && one["envFrom"].is_null()
                        && one["command"].is_null()
                        && one["args"] == json!(["inject", "/canyon/volume"])
                        && one["image"] != USERS_IMAGE
                })
        }),
        ("another environment", {
            let ours: Vec<_> = list(&runner["env"])
                .into_iter()
                .filter(|one| one["name"].as_str().unwrap().to_uppercase().starts_with("CANYON_"))
                .collect();
            let names: Vec<_> = ours.iter().map(|one| one["name"].as_str().unwrap()).collect();
            let mut wanted =
                vec!["ACT", "API_URL", "CLAIM_CODE", "LOG_TO_STDOUT", "NOTES", "NOTES_KEY"];
            wanted.extend(image.map(|_| "JOB_IMAGE"));
            names.len() == wanted.len()
                && wanted.iter().all(|name| names.contains(&format!("CANYON_{name}").as_str()))
        }),
        ("mounts over Canyon's or the system's folders", {
            list(&runner["volumeMounts"]).iter().all(|mount| {
                let path = mount["mountPath"].as_str().unwrap();
                let is_ours = mount["name"].as_str().unwrap().starts_with("canyon-");
                let kept = ["/canyon", "/var/run/secrets", "/run/secrets", "/proc", "/sys", "/dev"];
                is_ours
                    || !kept
                        .iter()
                        .any(|kept| *kept == path || path.starts_with(&format!("{kept}/")))
            })
        }),
        ("restarts, hooks, probes or ports of the node", {
            job["spec"]["backoffLimit"] == 0
                && spec["restartPolicy"] == "Never"
                && of_each(&|one| {
                    ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"]
                        .iter()
                        .all(|name| one[name].is_null())
                        && !one.to_string().contains("hostPort")
                })
        }),
        ("names that are Canyon's or the runtime's", {
            let annotations = template["metadata"]["annotations"].as_object();
            let labels = &template["metadata"]["labels"];
            let is_theirs = |key: &String| {
                !key.contains("canyon") && !key.contains("apparmor") && !key.starts_with("io.")
            };
            let ours = job["metadata"]["labels"].as_object().unwrap();
            annotations.is_none_or(|annotations| annotations.keys().all(is_theirs))
                && ours.iter().all(|(key, value)| labels[key] == *value)
        }),
    ];
    checks.into_iter().filter(|(_, holds)| !holds).map(|(what, _)| what).collect()
}
