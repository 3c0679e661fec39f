//! Container jobs on a real cluster: the runner's program starts in an image that has nothing but a
//! user.

use crate::bed::{ACT_IMAGE, ACT_WITHOUT_INJECT_IMAGE, Bed, Facts, ROOTS_IMAGE, USERS_IMAGE};
use crate::behaviour::{Act, Platform, behaves, new_job, until, until_gone};
use crate::kubernetes::{CODE, acting, name_of};
use crate::kubernetes_waits::end;
use canyon_dispatch::{Dispatcher, JobRef, Launch, OnFailure, Started, StopMode};
use canyon_domain::container::ContainerLaunch;
use canyon_domain::deadline::Observation;
use canyon_domain::failure::{Failure, FailureClass};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct UsersImage(Bed);

impl Platform for UsersImage {
    type Kind = dyn Dispatcher;

    fn dispatcher(&self) -> Arc<dyn Dispatcher> {
        dispatcher(&self.0, json!({}))
    }

    fn launch(&self, job: JobRef, act: Act) -> Launch {
        in_image(USERS_IMAGE, acting(&self.0, job, act.word()))
    }

    fn noted(&self, job: &JobRef, what: &str) -> usize {
        self.0.notes.count(&name_of(job), what)
    }
}

behaves! { UsersImage(Bed::new().await) }

pub(crate) fn in_image(image: &str, launch: Launch) -> Launch {
    let container =
        ContainerLaunch { image: image.to_owned(), stop_seconds: 5, ..ContainerLaunch::default() };
    Launch { container: Some(container), ..launch }
}

/// A dispatcher whose `canyon-runner` has the additional fields of `container`.
fn dispatcher(bed: &Bed, container: Value) -> Arc<dyn Dispatcher> {
    let mut container = container;
    container["name"] = json!("canyon-runner");
    let mut configuration = bed.configuration();
    configuration["job"]["pod_template"] = json!({ "spec": { "containers": [container] } });
    configuration["job"]["timeouts"] = json!({ "stop_seconds": 5 });
    bed.dispatcher(configuration)
}

/// The failure of a job in `image`, and whether it came before Canyon would give up waiting.
async fn failure(bed: &Bed, image: &str, act: &str, container: Value) -> (Failure, bool) {
    let kind = dispatcher(bed, container);
    let launch = in_image(image, acting(bed, new_job(), act));
    let began = Instant::now();
    kind.start(&launch).await.unwrap();
    let failure = end(&*kind, &launch.job).await.0.unwrap();
    (failure, began.elapsed() < Duration::from_secs(25))
}

fn missing_image() -> String {
    format!("{}/team/has-not-pushed:1", Facts::of_cluster().get("REGISTRY"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_users_container_gets_the_templates_settings_and_only_it_the_claim_code() {
    let bed = Bed::new().await;
    let container = json!({
        "name": "main", "image": ACT_IMAGE, "imagePullPolicy": "IfNotPresent",
        "env": [{ "name": "TEAM", "value": "shop" }],
        "resources": { "limits": { "cpu": "500m", "memory": "64Mi" } },
        "securityContext": { "runAsUser": 20_002 },
        "volumeMounts": [
            { "name": "own", "mountPath": "/own" }, { "name": "own", "mountPath": "/etc/ssl/certs" },
        ],
    });
    let mut configuration = bed.configuration();
    configuration["job"]["pod_template"] = json!({ "spec": {
        "containers": [container],
        "volumes": [{ "name": "own", "emptyDir": {} }],
    } });
    let kind = bed.dispatcher(configuration);
    let launch = in_image(USERS_IMAGE, acting(&bed, new_job(), "until-asked"));
    assert_eq!(kind.start(&launch).await.unwrap(), Started::Now(None));
    assert_eq!(kind.start(&launch).await.unwrap(), Started::Already(None));
    let elsewhere = in_image(ROOTS_IMAGE, launch.clone());
    let error = kind.start(&elsewhere).await.unwrap_err();
    assert_eq!(error.on_failure, OnFailure::EndAttempt, "{error}");
    until("it runs", async || kind.observe(&launch.job).await == Observation::Alive).await;
    until("it has noted it", async || bed.notes.count(&name_of(&launch.job), "started") == 1).await;

    let job = bed.api::<Job>().get(&name_of(&launch.job)).await.unwrap();
    assert_eq!(serde_json::to_string(&job).unwrap().matches(CODE).count(), 1);
    let pods = bed.api::<Pod>().list(&ListParams::default()).await.unwrap().items;
    let spec = json!(pods[0].spec);
    let (main, inject) = (&spec["containers"][0], &spec["initContainers"][0]);
    assert_eq!((&main["image"], &inject["image"]), (&json!(USERS_IMAGE), &json!(ACT_IMAGE)));
    let variables: Vec<_> = main["env"].as_array().unwrap().iter().collect();
    for (name, value) in [("CANYON_JOB_IMAGE", USERS_IMAGE), ("TEAM", "shop")] {
        assert!(variables.contains(&&json!({ "name": name, "value": value })), "{variables:?}");
    }
    for container in [main, inject] {
        assert_eq!(container["resources"]["limits"], json!({ "cpu": "500m", "memory": "64Mi" }));
        assert_eq!(container["securityContext"]["runAsUser"], 20_002);
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    }
    let paths = |container: &Value| -> Vec<String> {
        let mounts = container["volumeMounts"].as_array().unwrap().iter();
        mounts.map(|mount| mount["mountPath"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(paths(main), ["/own", "/etc/ssl/certs", "/canyon", "/tmp"]);
    assert_eq!(paths(inject), ["/etc/ssl/certs", "/canyon/volume"]);
    // The state of modules is in this cluster, but a container job gets no token for its API.
    assert!(!spec.to_string().contains("canyon-api-token"), "{spec}");
    kind.stop(&launch.job, StopMode::Kill).await.unwrap();
    until_gone(&*kind, &launch.job).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_missing_is_named_whether_it_is_the_users_or_the_runners() {
    let bed = Bed::new().await;
    let missing = missing_image();
    let of_user = failure(&bed, &missing, "writes", json!({}));
    let of_runner = failure(&bed, USERS_IMAGE, "writes", json!({ "image": missing }));
    let ((of_user, _), (of_runner, _)) = tokio::join!(of_user, of_runner);
    for (failure, container) in [(of_user, "canyon-runner"), (of_runner, "canyon-inject")] {
        assert_eq!(failure.class, FailureClass::ImagePull, "{failure:?}");
        let words = format!("image `{missing}` of container `{container}` cannot be pulled: ");
        assert!(failure.message.starts_with(&words), "{failure:?}");
        assert!(failure.message.contains("not found"), "{failure:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_can_never_be_pulled_ends_the_job_at_once() {
    let bed = Bed::new().await;
    let never = json!({ "image": missing_image(), "imagePullPolicy": "Never" });
    let cases = [
        ("UPPER/CASE", json!({}), "image `UPPER/CASE` of container `canyon-runner`".to_owned()),
        (
            USERS_IMAGE,
            json!({ "image": "UPPER/CASE" }),
            "image `UPPER/CASE` of container `canyon-inject`".to_owned(),
        ),
        (USERS_IMAGE, never, format!("image `{}` of container `canyon-inject`", missing_image())),
    ];
    for (image, container, words) in cases {
        let (failure, soon) = failure(&bed, image, "writes", container).await;
        assert_eq!(failure.class, FailureClass::ImagePull, "{failure:?}");
        assert!(failure.message.starts_with(&words), "{failure:?}");
        assert!(soon, "{failure:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_for_root_is_refused_at_once_with_the_remedy_which_helps() {
    let bed = Bed::new().await;
    let (failure, soon) = failure(&bed, ROOTS_IMAGE, "writes", json!({})).await;
    assert_eq!(failure.class, FailureClass::Config, "{failure:?}");
    for words in [ROOTS_IMAGE, "numeric `USER`", "`securityContext.runAsUser`"] {
        assert!(failure.message.contains(words), "{failure:?}");
    }
    assert!(soon, "{failure:?}");
    let kind = dispatcher(&bed, json!({ "securityContext": { "runAsUser": 10_001 } }));
    let launch = in_image(ROOTS_IMAGE, acting(&bed, new_job(), "writes"));
    kind.start(&launch).await.unwrap();
    until_gone(&*kind, &launch.job).await;
    assert_eq!(bed.notes.count(&name_of(&launch.job), "started"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_image_that_cannot_inject_is_quoted() {
    let bed = Bed::new().await;
    let old = json!({ "image": ACT_WITHOUT_INJECT_IMAGE });
    let (failure, _) = failure(&bed, USERS_IMAGE, "writes", old).await;
    assert_eq!(failure.class, FailureClass::Config);
    assert_eq!(
        failure.message.trim_end(),
        "the runner's image could not bring the runner into the container: init container `canyon-inject` ended with \
         exit code 64; the image must be of this version of Canyon: canyon-runner: CANYON_API_URL is not set"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_needs_too_much_memory_ends_as_oom() {
    let bed = Bed::new().await;
    let small = json!({ "resources": { "limits": { "memory": "16Mi" } } });
    let (failure, _) = failure(&bed, USERS_IMAGE, "memory", small).await;
    assert_eq!(failure.class, FailureClass::Oom, "{failure:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_that_fails_in_the_users_image_is_quoted() {
    let bed = Bed::new().await;
    let (failure, _) = failure(&bed, USERS_IMAGE, "fails", json!({})).await;
    assert_eq!(failure.class, FailureClass::Lost);
    assert_eq!(
        failure.message,
        "the runner ended without a result (exit code 3); its last message: the API refused the claim"
    );
}
