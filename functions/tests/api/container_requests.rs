//! Requests for container jobs: which are refused, and with which words.

use crate::container_world::{
    IMAGE, order_for, order_without_job, succeeds, with_engine, with_job_settings, with_runner,
};
use crate::harness::{Api, faults, message};
use crate::job::everything;
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn one_answer_names_every_fault_of_a_container_job_by_its_path_and_nothing_is_written() {
    let api = with_engine().await;
    let before = everything(&api).await;
    let mut body = order_for("S3#photos");
    body["container"] = json!({
        "image": "-x", "args": ["all"], "variables": { "ACTION": "x" }, "inputs": { "a": ["${context.hunter2}"] },
        "files": { "../x": "", "b": "${context.nope}" }, "timeout_seconds": 1, "service_account": "admin",
    });
    body["agent"] = json!("-");
    let refused = api.post("/deployments", body.clone()).await;
    let mut paths = faults(&refused);
    paths.sort_unstable();
    let expected = [
        "agent",
        "container.command",
        "container.files[\"../x\"]",
        "container.files[\"b\"]",
        "container.image",
        "container.inputs.a[0]",
        "container.service_account",
        "container.timeout_seconds",
        "container.variables.ACTION",
        "resource",
    ];
    assert_eq!((refused.0, paths), (400, expected.to_vec()), "{}", refused.1);
    let text = refused.1.to_string();
    assert!(text.contains("`${context.env.id}`"), "it names what there is: {text}");
    body["is_dry_run"] = json!(true);
    assert_eq!(api.post("/deployments", body).await, refused);
    assert_eq!(everything(&api).await, before);
}

#[tokio::test]
async fn what_a_container_job_does_not_have_is_refused_field_by_field() {
    let api = with_engine().await;
    let before = everything(&api).await;
    let module = json!({ "source": "inline", "source_code": "" });
    for (field, value) in [
        ("module", module),
        ("secret_inputs", json!({ "a": "b" })),
        ("accept_state", json!(true)),
        ("max_deletions", json!(0)),
        ("targets", json!(["a.b"])),
        ("replace", json!(["a.b"])),
        ("parallelism", json!(2)),
    ] {
        let mut body = order_for("s3#photos");
        body[field] = value;
        let refused = api.post("/deployments", body).await;
        assert!(refused.0 == 400 && faults(&refused).contains(&field), "{field}: {}", refused.1);
        assert!(refused.1.to_string().contains("container job"), "{field}: {}", refused.1);
    }
    for (mode, has_job, expected) in [
        ("rollback", true, "container"),
        ("rollback", false, "resource"),
        ("state", true, "container"),
        ("state", false, "resource"),
    ] {
        let mut body = order_for("s3#photos");
        body["mode"] = json!(mode);
        if !has_job {
            body.as_object_mut().unwrap().remove("container");
        }
        let refused = api.post("/deployments", body).await;
        assert!(
            refused.0 == 400 && faults(&refused).contains(&expected),
            "{mode}, {has_job}: {}",
            refused.1
        );
    }
    for (with_job, expected) in [(true, "without `container`"), (false, "needs `resource`")] {
        let mut body = order_for("s3#photos");
        body["params"] = json!({ "size": 1 });
        if !with_job {
            body.as_object_mut()
                .unwrap()
                .retain(|name, _| name != "container" && name != "resource");
        }
        let refused = api.post("/deployments", body).await;
        assert!(refused.0 == 400 && faults(&refused).contains(&"params"), "{}", refused.1);
        assert!(refused.1.to_string().contains(expected), "{}", refused.1);
    }
    let undefined = api.post("/deployments", order_without_job("deploy", "s3#photos")).await;
    assert_eq!(undefined.0, 409, "no definition says what runs: {}", undefined.1);
    assert_eq!(everything(&api).await, before);
}

#[tokio::test]
async fn a_runner_that_runs_no_containers_refuses_with_the_types_that_do() {
    let api = Api::start().await;
    with_runner(&api, json!({ "type": "local" })).await;
    let before = everything(&api).await;
    let refused = api.post("/deployments", order_for("s3#photos")).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
    let expected = "runner `engine` is of type `local`, which runs no container jobs";
    assert!(message(&refused).contains(expected), "{}", refused.1);
    for able in ["`docker`", "`docker-agent`", "`kubernetes`", "`serverless-ecs`", "`ecs-agent`"] {
        assert!(message(&refused).contains(able), "{able}: {}", refused.1);
    }
    assert_eq!(everything(&api).await, before);
}

#[tokio::test]
async fn a_runner_on_ecs_refuses_the_images_it_does_not_allow_and_a_grace_that_ecs_does_not_give() {
    let api = Api::start().await;
    let ecs = json!({
        "type": "serverless-ecs", "auth": { "role_arn": "arn:aws:iam::123456789012:role/launch" },
        "job": {
            "region": "eu-central-1", "cluster": "canyon", "subnets": ["subnet-0a1b2c3d"],
            "execution_role_arn": "arn:aws:iam::123456789012:role/execution",
            "allowed_images": ["ghcr.io/acme/*"],
        },
    });
    with_runner(&api, ecs).await;
    let with = |name: &str, value: Value| {
        let mut body = order_for("s3#photos");
        body["container"][name] = value;
        body
    };
    let before = everything(&api).await;
    let image = api.post("/deployments", with("image", json!("ghcr.io/evil/x:1"))).await;
    assert_eq!((image.0, faults(&image)), (400, vec!["container.image"]));
    let grace = api.post("/deployments", with("grace_seconds", json!(111))).await;
    assert_eq!((grace.0, faults(&grace)), (400, vec!["container.grace_seconds"]));
    let expected = "allows `grace_seconds` of at most 110, not 111";
    assert!(grace.1.to_string().contains(expected), "{}", grace.1);
    assert_eq!(everything(&api).await, before);
    succeeds(&api, with("grace_seconds", json!(110))).await;
}

#[tokio::test]
async fn a_runner_limits_the_images_and_the_duration_of_container_jobs() {
    let job = json!({ "allowed_images": ["ghcr.io/acme/*"], "timeouts": { "run_seconds": 600 } });
    let api = with_job_settings(job).await;
    let with = |name: &str, value: Value| {
        let mut body = order_for("s3#photos");
        body["container"][name] = value;
        body["container"]["timeout_seconds"] =
            body["container"]["timeout_seconds"].as_u64().unwrap_or(600).into();
        body
    };
    let before = everything(&api).await;
    let image = api.post("/deployments", with("image", json!("ghcr.io/evil/x:1"))).await;
    assert_eq!((image.0, faults(&image)), (400, vec!["container.image"]));
    let expected =
        "does not allow the image `ghcr.io/evil/x:1`; its `job.allowed_images` has: ghcr.io/acme/*";
    assert!(image.1.to_string().contains(expected), "{}", image.1);
    let time = api.post("/deployments", with("timeout_seconds", json!(601))).await;
    assert_eq!((time.0, faults(&time)), (400, vec!["container.timeout_seconds"]));
    assert!(time.1.to_string().contains("has at most 600 s"), "{}", time.1);
    assert_eq!(everything(&api).await, before);
    succeeds(&api, with("image", json!(IMAGE))).await;
}

#[tokio::test]
async fn what_was_never_created_cannot_be_destroyed_and_the_answer_names_what_can() {
    let api = with_engine().await;
    let destroy = order_without_job("destroy", "s3#photos");
    let refused = api.post("/deployments", destroy.clone()).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
    assert!(message(&refused).contains("it has none at all"), "{}", refused.1);
    for other in ["s3#logs", "queue"] {
        succeeds(&api, order_for(other)).await;
    }
    let mut with_job = order_for("s3#photos");
    with_job["mode"] = json!("destroy");
    for body in [destroy, with_job] {
        let refused = api.post("/deployments", body).await;
        assert_eq!(refused.0, 409, "{}", refused.1);
        let expected = "has no resource `s3.default#photos`, so there is nothing to destroy; it has: `s3.default#logs`, \
                        `queue.default#main`";
        assert!(message(&refused).contains(expected), "{}", refused.1);
    }
}

#[tokio::test]
async fn a_check_needs_a_program_for_it_and_a_resource() {
    let api = with_engine().await;
    let before = everything(&api).await;
    let check = |has_check: bool| {
        let mut body = order_for("s3#photos");
        body["mode"] = json!("plan_only");
        if has_check {
            body["container"]["check"] = json!({ "command": ["/opt/bucket", "check"] });
        }
        body
    };
    let refused = api.post("/deployments", check(false)).await;
    assert_eq!((refused.0, faults(&refused)), (400, vec!["container.check"]), "{}", refused.1);
    let refused = api.post("/deployments", check(true)).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
    assert!(message(&refused).contains("so there is nothing to check"), "{}", refused.1);
    let mut of_destroy = order_for("s3#photos");
    of_destroy["mode"] = json!("destroy");
    of_destroy["plan_only"] = json!(true);
    let refused = api.post("/deployments", of_destroy).await;
    assert_eq!((refused.0, faults(&refused)), (400, vec!["plan_only"]), "{}", refused.1);
    assert_eq!(everything(&api).await, before);

    succeeds(&api, order_for("s3#photos")).await;
    let refused = api.post("/deployments", order_without_job("plan_only", "s3#photos")).await;
    assert_eq!(refused.0, 409, "{}", refused.1);
    assert!(message(&refused).contains("has no `check`"), "{}", refused.1);
    assert_eq!(api.post("/deployments", check(true)).await.0, 201);
}

#[tokio::test]
async fn amounts_of_cpu_and_memory_are_judged_by_the_rules_of_the_platform() {
    let api = with_job_settings(json!({ "memory_limit": 512 })).await;
    let with = |field: &str, value: Value| {
        let mut body = order_for("s3#photos");
        body["container"][field] = value;
        body
    };
    for (field, value, reason) in [
        ("memory", json!("1Gi"), "must be a whole number of MiB"),
        ("memory", json!(1024), "its runner allows 512"),
        ("cpu", json!("500m"), "must be a number of processors"),
        ("cpu", json!(-1), "must be an amount"),
        ("memory", json!({}), "must be an amount"),
        ("keep_seconds", json!(3601), "must be a whole number from 0 to 3600"),
    ] {
        let refused = api.post("/deployments", with(field, value)).await;
        let expected = format!("container.{field}");
        assert_eq!((refused.0, faults(&refused)), (400, vec![expected.as_str()]), "{}", refused.1);
        assert!(refused.1.to_string().contains(reason), "{}", refused.1);
    }
    assert_eq!(api.post("/deployments", with("memory", json!(256))).await.0, 201);
    assert_eq!(api.post("/deployments", with("cpu", json!(0.5))).await.0, 201);
}

#[tokio::test]
async fn only_an_administrator_lets_a_container_stay() {
    let api = with_engine().await;
    let mut body = order_for("s3#photos");
    body["container"]["keep_seconds"] = json!(60);
    let refused = api.call_as(&api.ours.deployer, Method::POST, "/deployments", Some(&body)).await;
    assert_eq!(refused.0, 403, "{}", refused.1);
    assert!(message(&refused).contains("`container.keep_seconds`"), "{}", refused.1);
    assert_eq!(api.post("/deployments", body).await.0, 201);
}

#[tokio::test]
async fn a_list_shows_the_deployments_for_one_resource() {
    let api = with_engine().await;
    for resource in ["s3#photos", "s3#videos", "s3#photos"] {
        succeeds(&api, order_for(resource)).await;
    }
    let of = "/deployments?project_id=shop&env_id=main&resource=";
    for (resource, count) in [("s3%23photos", 2), ("s3.default%23videos", 1), ("dns", 0)] {
        let (status, listed) = api.get(&format!("{of}{resource}")).await;
        assert_eq!((status, listed["items"].as_array().unwrap().len()), (200, count), "{listed}");
    }
    let (_, first) = api.get(&format!("{of}s3%23photos&per_page=1")).await;
    let cursor = first["next_page_token"].as_str().unwrap();
    let of_another = api.get(&format!("{of}s3%23videos&page={cursor}")).await;
    assert_eq!(of_another.0, 400, "{}", of_another.1);
    for (query, field) in [
        ("resource=s3&project_id=shop", "resource"),
        ("resource=S3&project_id=shop&env_id=main", "resource"),
    ] {
        let refused = api.get(&format!("/deployments?{query}")).await;
        assert_eq!((refused.0, faults(&refused)), (400, vec![field]), "{}", refused.1);
    }
}
