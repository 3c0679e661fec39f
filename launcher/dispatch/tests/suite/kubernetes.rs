//! The Kubernetes kinds, on a real cluster with real pods.

use crate::bed::Bed;
use crate::behaviour::{Act, Platform, behaves, launch, new_job, until, until_gone};
use canyon_dispatch::{Dispatcher, JobRef, Launch, OnFailure, RemovalOutcome, Started, StopMode};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use secrecy::SecretString;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const CODE: &str = "cyc_canary-of-a-claim-code";

pub(crate) fn name_of(job: &JobRef) -> String {
    format!("canyon-{}-{}", job.deployment.0.simple(), job.attempt)
}

pub(crate) fn acting(bed: &Bed, job: JobRef, act: &str) -> Launch {
    let environment: [(&str, String); 5] = [
        ("CANYON_ACT", act.to_owned()),
        ("CANYON_NOTES", bed.notes.address.to_string()),
        ("CANYON_NOTES_KEY", name_of(&job)),
        ("CANYON_API_URL", "https://canyon.example".to_owned()),
        ("CANYON_CLAIM_CODE", CODE.to_owned()),
    ];
    let environment: BTreeMap<String, SecretString> =
        environment.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    launch(job, environment)
}

struct Cluster(Bed);

impl Platform for Cluster {
    type Kind = dyn Dispatcher;

    fn dispatcher(&self) -> Arc<dyn Dispatcher> {
        let mut configuration = self.0.configuration();
        // A pod that was asked to stop keeps its grace period, also when it is killed.
        configuration["job"]["timeouts"] = json!({ "stop_seconds": 5 });
        self.0.dispatcher(configuration)
    }

    fn launch(&self, job: JobRef, act: Act) -> Launch {
        acting(&self.0, job, act.word())
    }

    fn noted(&self, job: &JobRef, what: &str) -> usize {
        self.0.notes.count(&name_of(job), what)
    }
}

behaves! { Cluster(Bed::new().await) }

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_the_same_name_is_compared_and_never_adopted_by_its_name_alone() {
    let bed = Bed::new().await;
    let kind = bed.dispatcher(bed.configuration());
    let launch = acting(&bed, new_job(), "until-asked");
    assert_eq!(kind.start(&launch).await.unwrap(), Started::Now(None));
    assert_eq!(kind.start(&launch).await.unwrap(), Started::Already(None));
    // The runner is changed in between; the launcher would not repeat the start then.
    let mut changed = bed.configuration();
    changed["job"]["timeouts"] = json!({ "run_seconds": 60 });
    let error = bed.dispatcher(changed).start(&launch).await.unwrap_err();
    assert_eq!(
        (error.failure.class, error.on_failure),
        (FailureClass::Config, OnFailure::EndAttempt)
    );
    assert!(error.to_string().contains(&name_of(&launch.job)), "{error}");
    let mut other_code = launch.clone();
    other_code.environment.insert("CANYON_CLAIM_CODE".into(), "cyc_another".to_owned().into());
    assert_eq!(kind.start(&other_code).await.unwrap_err().on_failure, OnFailure::EndAttempt);
    kind.stop(&launch.job, StopMode::Kill).await.unwrap();
    until_gone(&*kind, &launch.job).await;
}

/// A change that another user made to a pod.
type Change = fn(&mut serde_json::Value);

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_another_user_created_beforehand_is_refused_whatever_its_annotations() {
    let bed = Bed::new().await;
    // With many fields that the API server rewrites.
    let mut configuration = bed.configuration();
    configuration["job"]["pod_template"] = json!({ "spec": {
        "containers": [{
            "name": "canyon-runner",
            "env": [{ "name": "NODE", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }],
            "resources": { "limits": { "cpu": "1000m", "memory": "1024Mi" } },
            "securityContext": { "readOnlyRootFilesystem": true },
        }],
        "volumes": [{ "name": "big", "emptyDir": { "sizeLimit": "1024Mi" } }],
    } });
    let kind = bed.dispatcher(configuration);
    let launch = acting(&bed, new_job(), "writes");
    kind.start(&launch).await.unwrap();
    assert_eq!(kind.start(&launch).await.unwrap(), Started::Already(None));
    let jobs = bed.api::<Job>();
    let name = name_of(&launch.job);
    let ours = jobs.get(&name).await.unwrap();
    let changes: [(Change, &str); 5] = [
        (|pod| pod["containers"][0]["image"] = json!("other/image:1"), "`image`"),
        (|pod| pod["containers"][0]["command"] = json!(["sh"]), "`command`"),
        (
            |pod| pod["containers"][0]["securityContext"]["runAsUser"] = json!(7),
            "`securityContext`",
        ),
        (|pod| pod["containers"][0]["env"][0]["value"] = json!("elsewhere"), "`env`"),
        (|pod| pod["serviceAccountName"] = json!("canyon"), "`serviceAccountName`"),
    ];
    for (change, field) in changes {
        let mut made = json!(ours);
        let metadata = made["metadata"].clone();
        made["metadata"] = json!({
            "name": name, "labels": metadata["labels"], "annotations": metadata["annotations"],
        });
        made["spec"].as_object_mut().unwrap().remove("selector");
        made["spec"]["suspend"] = json!(true);
        made["spec"]["template"]["metadata"]["labels"] = json!({});
        change(&mut made["spec"]["template"]["spec"]);
        jobs.delete(&name, &DeleteParams::background()).await.unwrap();
        until("the Job is gone", async || jobs.get_opt(&name).await.unwrap().is_none()).await;
        bed.create::<Job>(made).await;
        let error = kind.start(&launch).await.unwrap_err();
        assert_eq!(
            (error.failure.class, error.on_failure),
            (FailureClass::Config, OnFailure::EndAttempt),
            "{error}"
        );
        assert!(error.to_string().contains(field), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_is_stopped_before_it_has_a_pod_never_gets_one() {
    let bed = Bed::new().await;
    let kind = bed.dispatcher(bed.configuration());
    for how in [StopMode::Graceful, StopMode::Kill] {
        let launch = acting(&bed, new_job(), "until-asked");
        kind.start(&launch).await.unwrap();
        kind.stop(&launch.job, how).await.unwrap();
        until_gone(&*kind, &launch.job).await;
        let Observation::Gone(_) = kind.observe(&launch.job).await else { panic!() };
        assert_eq!(kind.forget(&launch.job).await, RemovalOutcome::Removed);
        until("the pods are gone", async || {
            bed.api::<Pod>().list(&ListParams::default()).await.unwrap().items.is_empty()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_user_deleted_lives_as_long_as_its_pod() {
    let bed = Bed::new().await;
    let mut configuration = bed.configuration();
    configuration["job"]["timeouts"] = json!({ "stop_seconds": 5 });
    let kind = bed.dispatcher(configuration);
    let launch = acting(&bed, new_job(), "stubborn");
    kind.start(&launch).await.unwrap();
    until("it runs", async || kind.observe(&launch.job).await == Observation::Alive).await;
    let name = name_of(&launch.job);
    bed.api::<Job>().delete(&name, &DeleteParams::background()).await.unwrap();
    until("the Job is gone", async || bed.api::<Job>().get_opt(&name).await.unwrap().is_none())
        .await;
    assert_eq!(kind.observe(&launch.job).await, Observation::Alive);
    assert_eq!(kind.forget(&launch.job).await, RemovalOutcome::JobAlive);
    until_gone(&*kind, &launch.job).await;
    assert_eq!(bed.notes.count(&name, "asked"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_fails_is_quoted() {
    let bed = Bed::new().await;
    let kind = bed.dispatcher(bed.configuration());
    let launch = acting(&bed, new_job(), "fails");
    kind.start(&launch).await.unwrap();
    until_gone(&*kind, &launch.job).await;
    let Observation::Gone(Some(failure)) = kind.observe(&launch.job).await else { panic!() };
    assert_eq!(failure.class, FailureClass::Lost);
    assert_eq!(
        failure.message,
        "the runner ended without a result (exit code 3); its last message: the API refused the claim"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pod_has_only_the_claim_code_and_no_token_but_its_own() {
    let bed = Bed::new().await;
    let kind = bed.dispatcher(bed.configuration());
    let launch = acting(&bed, new_job(), "until-asked");
    kind.start(&launch).await.unwrap();
    until("it runs", async || kind.observe(&launch.job).await == Observation::Alive).await;
    let job = bed.api::<Job>().get(&name_of(&launch.job)).await.unwrap();
    let pods = bed.api::<Pod>().list(&ListParams::default()).await.unwrap().items;
    let texts = [serde_json::to_string(&job).unwrap(), serde_json::to_string(&pods[0]).unwrap()];
    for text in &texts {
        assert!(!text.contains(&bed.token), "Canyon's own token is in {text}");
        assert_eq!(text.matches(CODE).count(), 1, "{text}");
    }
    let spec = json!(pods[0].spec);
    assert_eq!(spec["automountServiceAccountToken"], false);
    let sources = spec["volumes"].as_array().unwrap().iter().filter_map(|volume| {
        let token = &volume["projected"]["sources"][0]["serviceAccountToken"];
        (!token.is_null()).then(|| (volume["name"].as_str().unwrap(), token["audience"].as_str()))
    });
    let sources: Vec<_> = sources.collect();
    // State in the cluster needs a token for the API server.
    assert_eq!(sources, [("canyon-api-token", None)]);
    kind.stop(&launch.job, StopMode::Kill).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_jobs_of_a_runner_are_found_and_no_others() {
    let bed = Bed::new().await;
    let kind = bed.dispatcher(bed.configuration());
    assert_eq!(kind.jobs().await.unwrap(), []);
    let mut started: Vec<_> = vec![];
    for _ in 0..2 {
        let launch = acting(&bed, new_job(), "writes");
        kind.start(&launch).await.unwrap();
        started.push(launch.job);
    }
    // A Job of another runner, in the same namespace.
    let jobs = bed.api::<Job>();
    let mut other = jobs.get(&name_of(&started[0])).await.unwrap();
    let mut launch = acting(&bed, new_job(), "writes");
    launch.job.attempt = 2;
    other.metadata = serde_json::from_value(json!({
        "name": name_of(&launch.job),
        "labels": { "canyon.dev/runner": "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000" },
    }))
    .unwrap();
    let spec = other.spec.as_mut().unwrap();
    (spec.selector, spec.template.metadata, other.status) = (None, None, None);
    jobs.create(&kube::api::PostParams::default(), &other).await.unwrap();
    let mut found = kind.jobs().await.unwrap();
    found.sort_by_key(|job| job.deployment);
    assert_eq!(found, started);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_against_metadata_services_is_created_once_and_restored() {
    let bed = Bed::new().await;
    let mut configuration = bed.configuration();
    configuration["job"]["deny_metadata_access"] = json!(true);
    let kind = bed.dispatcher(configuration);
    let policies = bed.api::<NetworkPolicy>();
    let read = async || policies.get("canyon-jobs-without-metadata").await.unwrap();
    kind.start(&acting(&bed, new_job(), "writes")).await.unwrap();
    let made = read().await;
    let egress = json!(made.spec)["egress"].to_string();
    for address in ["169.254.0.0/16", "fd00:ec2::254/128", "168.63.129.16/32"] {
        assert!(egress.contains(address), "{egress}");
    }
    kind.start(&acting(&bed, new_job(), "writes")).await.unwrap();
    assert_eq!(read().await.metadata.resource_version, made.metadata.resource_version);
    let open = Patch::Merge(json!({ "spec": { "egress": [{}] } }));
    policies.patch("canyon-jobs-without-metadata", &PatchParams::default(), &open).await.unwrap();
    kind.start(&acting(&bed, new_job(), "writes")).await.unwrap();
    assert_eq!(read().await.spec, made.spec);
}
