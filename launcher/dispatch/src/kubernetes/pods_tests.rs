use super::*;
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T12:00:00Z";

fn job(condition: Option<Value>, suspend: bool) -> Job {
    let conditions: Vec<Value> = condition.into_iter().collect();
    serde_json::from_value(json!({
        "metadata": {},
        "spec": { "suspend": suspend, "template": {} },
        "status": { "conditions": conditions },
    }))
    .unwrap()
}

fn failed(reason: &str) -> Job {
    job(
        Some(json!({ "type": "Failed", "status": "True", "reason": reason, "message": "said" })),
        false,
    )
}

/// A pod on a node, with this status and metadata.
fn pod(status: &Value, metadata: &Value) -> Pod {
    let spec = json!({ "nodeName": "node-1", "containers": [] });
    serde_json::from_value(json!({ "metadata": metadata, "spec": spec, "status": status })).unwrap()
}

fn in_phase(phase: &str) -> Pod {
    pod(&json!({ "phase": phase }), &json!({}))
}

fn disrupted(phase: &str, reason: &str) -> Pod {
    let condition = json!({ "type": "DisruptionTarget", "status": "True", "reason": reason });
    pod(&json!({ "phase": phase, "conditions": [condition] }), &json!({}))
}

fn running(name: &str) -> Value {
    json!({
        "name": name, "image": "a", "imageID": "", "ready": true, "restartCount": 0,
        "state": { "running": {} },
    })
}

fn seen(job: Option<&Job>, pods: &[Pod]) -> PodView {
    view(job, pods, NOW.parse().unwrap())
}

fn class_of(job: &Job, pods: &[Pod]) -> FailureClass {
    match seen(Some(job), pods) {
        PodView::Seen(Observation::Gone(Some(failure))) => failure.class,
        other => panic!("{other:?}"),
    }
}

fn is_gone(view: &PodView) -> bool {
    matches!(view, PodView::Seen(Observation::Gone(_)))
}

#[test]
fn a_job_that_may_still_run_is_not_gone() {
    let over = failed("BackoffLimitExceeded");
    let still_running = pod(
        &json!({ "phase": "Failed", "containerStatuses": [running("canyon-runner")] }),
        &json!({}),
    );
    let deleted = json!({ "deletionTimestamp": NOW });
    let living = [
        in_phase("Running"),
        in_phase("Pending"),
        in_phase("Unknown"),
        still_running,
        pod(&json!({ "phase": "Running" }), &deleted),
        pod(&json!({ "phase": "Pending" }), &deleted),
        disrupted("Running", "EvictionByEvictionAPI"),
    ];
    for pod in living {
        for job in [None, Some(&over), Some(&job(None, true))] {
            // A pod that has ended proves nothing about another.
            let view = seen(job, &[in_phase("Failed"), pod.clone()]);
            assert!(!is_gone(&view), "{view:?} of {pod:?}");
        }
    }
}

#[test]
fn a_job_is_gone_only_when_no_pod_will_come() {
    assert_eq!(seen(None, &[]), PodView::Seen(Observation::Gone(None)));
    assert_eq!(seen(Some(&job(None, false)), &[]), PodView::NoPod { since: None });
    // The controller has not seen the suspension, and may be creating a pod.
    assert_eq!(seen(Some(&job(None, true)), &[]), PodView::NoPod { since: None });
    let confirmed = json!({ "type": "Suspended", "status": "True" });
    assert!(is_gone(&seen(Some(&job(Some(confirmed.clone()), true)), &[])));
    assert!(!is_gone(&seen(Some(&job(Some(confirmed), false)), &[])));
    assert!(!is_gone(&seen(Some(&job(None, false)), &[in_phase("Failed")])));
    let unfinished = job(Some(json!({ "type": "FailureTarget", "status": "True" })), false);
    assert!(!is_gone(&seen(Some(&unfinished), &[])));
}

#[test]
fn a_pod_that_was_deleted_before_it_had_a_node_never_runs() {
    let mut unplaced = pod(&json!({ "phase": "Pending" }), &json!({ "deletionTimestamp": NOW }));
    unplaced.spec.as_mut().unwrap().node_name = None;
    assert!(is_gone(&seen(Some(&failed("x")), &[unplaced.clone()])));
    unplaced.metadata.deletion_timestamp = None;
    assert!(!is_gone(&seen(Some(&failed("x")), &[unplaced])));
}

#[test]
fn a_pod_on_a_silent_node_is_unknown_until_the_node_is_gone() {
    let over = failed("BackoffLimitExceeded");
    let late = json!({ "deletionTimestamp": "2026-01-01T11:59:00Z" });
    let silent = [
        pod(&json!({ "phase": "Running" }), &late),
        pod(&json!({ "phase": "Running", "reason": "NodeLost" }), &json!({})),
        disrupted("Running", "DeletionByTaintManager"),
    ];
    for pod in silent {
        let view = seen(Some(&over), &[pod]);
        let PodView::Seen(Observation::Unknown(reason)) = &view else { panic!("{view:?}") };
        assert!(reason.contains("`node-1`"), "{reason}");
    }
    let mut collected = disrupted("Failed", "DeletionByPodGC");
    let statuses = json!([running("canyon-runner")]);
    collected.status.as_mut().unwrap().container_statuses =
        serde_json::from_value(statuses).unwrap();
    assert_eq!(class_of(&over, &[collected]), FailureClass::Evicted);
}

#[test]
fn a_death_has_its_failure_class() {
    use FailureClass as C;
    let over = failed("BackoffLimitExceeded");
    let ended = |reason: &str, code: i32, limit: bool| {
        let terminated = json!({ "reason": reason, "exitCode": code });
        let status = json!({ "phase": "Failed", "containerStatuses": [{
            "name": "canyon-runner", "image": "a", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": terminated },
        }] });
        let mut pod = pod(&status, &json!({}));
        if limit {
            let container = json!([{
                "name": "canyon-runner", "resources": { "limits": { "memory": "1Gi" } },
            }]);
            pod.spec.as_mut().unwrap().containers = serde_json::from_value(container).unwrap();
        }
        pod
    };
    let by_node = |reason: &str| pod(&json!({ "phase": "Failed", "reason": reason }), &json!({}));
    let cases = vec![
        (ended("OOMKilled", 137, false), C::Oom),
        (ended("Error", 137, true), C::Oom),
        (ended("Error", 137, false), C::Lost),
        (ended("Error", 1, true), C::Lost),
        (ended("StartError", 128, false), C::Config),
        (by_node("Evicted"), C::Evicted),
        (by_node("Shutdown"), C::Spot),
        (by_node("Terminated"), C::Spot),
        (by_node("Preempting"), C::Spot),
        (by_node("OutOfcpu"), C::Capacity),
        (disrupted("Failed", "PreemptionByScheduler"), C::Spot),
        (disrupted("Failed", "EvictionByEvictionAPI"), C::Evicted),
    ];
    for (pod, class) in cases {
        assert_eq!(class_of(&over, std::slice::from_ref(&pod)), class, "{pod:?}");
    }
    assert_eq!(class_of(&failed("DeadlineExceeded"), &[ended("Error", 137, true)]), C::Timeout);
    assert_eq!(class_of(&failed("PodFailurePolicy"), &[]), C::Evicted);
    assert_eq!(class_of(&over, &[]), C::Lost);
}

/// A pod of a container job, whose two containers have these states.
fn of_container_job(phase: &str, inject: &Value, main: &Value) -> Pod {
    let status = |name: &str, image: &str, state: &Value| {
        json!({
            "name": name, "image": image, "imageID": "", "ready": false, "restartCount": 0,
            "state": state,
        })
    };
    let limits = json!({ "limits": { "memory": "1Gi" } });
    let mut pod = pod(
        &json!({
            "phase": phase, "startTime": "2026-01-01T11:59:00Z",
            "initContainerStatuses": [status("canyon-inject", "canyon-runner:1", inject)],
            "containerStatuses": [status("canyon-runner", "shop/job:2", main)],
        }),
        &json!({}),
    );
    let init = json!([{ "name": "canyon-inject", "resources": limits }]);
    let spec = pod.spec.as_mut().unwrap();
    spec.init_containers = Some(serde_json::from_value(init).unwrap());
    pod
}

fn waiting(reason: &str, message: &str) -> Value {
    json!({ "waiting": { "reason": reason, "message": message } })
}

fn ended(code: i32, reason: &str) -> Value {
    json!({ "terminated": {
        "exitCode": code, "reason": reason, "message": "said", "finishedAt": "2026-01-01T11:59:50Z",
    } })
}

#[test]
fn a_container_job_runs_once_the_users_container_does() {
    let (running, next) = (json!({ "running": {} }), waiting("PodInitializing", ""));
    let injecting = of_container_job("Pending", &running, &next);
    let injected = of_container_job("Pending", &ended(0, "Completed"), &next);
    for pod in [injecting, injected] {
        let view = seen(Some(&job(None, false)), &[pod]);
        assert!(matches!(view, PodView::Seen(Observation::Waiting(_))), "{view:?}");
    }
    let runs = of_container_job("Running", &ended(0, "Completed"), &running);
    assert_eq!(seen(Some(&job(None, false)), &[runs]), PodView::Seen(Observation::Alive));
}

#[test]
fn the_image_of_a_container_job_that_cannot_be_pulled_is_named() {
    let next = waiting("PodInitializing", "");
    let of_runner =
        of_container_job("Pending", &waiting("ErrImageNeverPull", "not on the node"), &next);
    let of_user =
        of_container_job("Pending", &ended(0, "Completed"), &waiting("InvalidImageName", "bad"));
    let cases = [
        (of_runner, "image `canyon-runner:1` of container `canyon-inject` cannot be pulled: not"),
        (of_user, "image `shop/job:2` of container `canyon-runner` cannot be pulled: bad"),
    ];
    for (pod, words) in cases {
        let view = seen(Some(&job(None, false)), &[pod]);
        let PodView::Doomed(failure) = &view else { panic!("{view:?}") };
        assert_eq!(failure.class, FailureClass::ImagePull);
        assert!(failure.message.starts_with(words), "{failure:?}");
    }
    // The pod began a minute ago, but only ten seconds ago was it the turn of this image.
    let pull = waiting("ErrImagePull", "no route");
    let view = seen(None, &[of_container_job("Pending", &ended(0, "Completed"), &pull.clone())]);
    assert!(matches!(view, PodView::Seen(Observation::Waiting(_))), "{view:?}");
    let view = seen(None, &[of_container_job("Pending", &pull, &next)]);
    assert!(matches!(view, PodView::Doomed(_)), "{view:?}");
}

#[test]
fn an_image_that_names_no_user_is_refused_at_once_and_another_fault_is_not() {
    let refused = |message: &str| {
        let wrong = waiting("CreateContainerConfigError", message);
        let mut pod = of_container_job("Pending", &ended(0, "Completed"), &wrong);
        pod.status.as_mut().unwrap().start_time = None;
        seen(Some(&job(None, false)), &[pod])
    };
    let root = refused("container has runAsNonRoot and image will run as root (pod: \"x\")");
    let PodView::Doomed(failure) = &root else { panic!("{root:?}") };
    assert_eq!(failure.class, FailureClass::Config);
    assert!(failure.message.contains("`shop/job:2`"), "{failure:?}");
    assert!(failure.message.contains("securityContext.runAsUser"), "{failure:?}");
    let other = refused("secret \"x\" not found");
    assert!(matches!(other, PodView::Seen(Observation::Waiting(_))), "{other:?}");
}

#[test]
fn the_end_of_the_init_container_has_its_own_words() {
    let over = failed("BackoffLimitExceeded");
    let failure = |inject: &Value| {
        let pod = of_container_job("Failed", inject, &waiting("PodInitializing", ""));
        match seen(Some(&over), &[pod]) {
            PodView::Seen(Observation::Gone(Some(failure))) => failure,
            other => panic!("{other:?}"),
        }
    };
    let full = failure(&ended(73, "Error"));
    assert_eq!(full.class, FailureClass::Config);
    assert!(full.message.contains("`canyon-inject` ended with exit code 73"), "{full:?}");
    assert!(full.message.ends_with(": said"), "{full:?}");
    assert_eq!(failure(&ended(143, "Error")).class, FailureClass::Lost);
    for starved in [ended(137, "OOMKilled"), ended(137, "Error")] {
        assert_eq!(failure(&starved).class, FailureClass::Oom);
    }
    assert_eq!(failure(&ended(128, "StartError")).class, FailureClass::Config);
}
