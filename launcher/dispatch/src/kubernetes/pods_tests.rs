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
