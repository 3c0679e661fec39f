//! A plan is made, read and applied: exactly that plan, by the command line alone.

use crate::harness::deployments::{assert_succeeded, counts, failure, request};
use crate::harness::module::inline;
use crate::harness::site::{ENV, PROJECT, Site};
use canyon_api::deployment::{Deployment, DeploymentCreateBody, RequestedMode};
use canyon_api::plan::PlannedAction;
use canyon_domain::failure::FailureClass;
use serde_json::{Value, json};

fn module(size: &str) -> String {
    format!(
        "resource \"terraform_data\" \"disk\" {{ input = \"{size}\" }}\n\
         output \"size\" {{ value = terraform_data.disk.output }}\n"
    )
}

fn a_plan(code: &str) -> DeploymentCreateBody {
    DeploymentCreateBody { plan_only: Some(true), ..request(ENV, Some(inline(code))) }
}

fn an_apply(of: &Deployment) -> DeploymentCreateBody {
    DeploymentCreateBody {
        plan_deployment_id: Some(of.id),
        ..DeploymentCreateBody::new(RequestedMode::Apply, PROJECT, ENV)
    }
}

async fn size(site: &Site, of: &Deployment) -> Value {
    let outputs = site.client.outputs(&of.id.to_string()).await.unwrap();
    serde_json::to_value(&outputs["size"].value).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_kept_and_applied_as_it_was_made() {
    let site = Site::new().await;
    let first = site.run(&a_plan(&module("small"))).await;
    assert_succeeded(&first);
    let kept = first.plan.clone().unwrap();
    assert_eq!((kept.summary.add, kept.summary.change), (1, 0));
    let plan = site.client.plan(&first.id.to_string(), 0).await.unwrap();
    assert_eq!(plan.plan_digest, kept.digest);
    assert_eq!(plan.resources[0].address, "terraform_data.disk");
    assert_eq!(plan.resources[0].action, PlannedAction::Create);

    let applied = site.run(&an_apply(&first)).await;
    assert_succeeded(&applied);
    assert_eq!((counts(&applied), applied.mode.as_str()), ((1, 0, 0), "deploy"));
    assert_eq!(applied.plan_deployment_id, Some(first.id));
    assert_eq!(size(&site, &applied).await, "small");
    // The plan of an apply is the one that it applies.
    let of_apply = site.client.plan(&applied.id.to_string(), 0).await.unwrap();
    assert_eq!(of_apply, plan);

    // It is applied once: the second time, its state has changed.
    let again = site.run(&an_apply(&first)).await;
    let (class, message) = failure(&again);
    assert_eq!(class, FailureClass::User, "{message}");
    assert!(message.contains("STALE_PLAN"), "{message}");
    // What failed before it changed anything leaves no doubt about the state.
    let shown = site.shown().await;
    assert_ne!(shown["state"]["uncertain"], true, "{shown}");

    // A plan that destroys is applied as a destroy run, and one of a rollback repeats it.
    let destroy = DeploymentCreateBody {
        plan_only: Some(true),
        ..DeploymentCreateBody::new(RequestedMode::Destroy, PROJECT, ENV)
    };
    let destroy = site.run(&destroy).await;
    assert_succeeded(&destroy);
    let destroyed = site.run(&an_apply(&destroy)).await;
    assert_succeeded(&destroyed);
    assert_eq!((counts(&destroyed), destroyed.mode.as_str()), ((0, 0, 1), "destroy"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_reviewed_and_applied_from_the_command_line() {
    let site = Site::new().await;
    let server = &site.server;
    let folder = server.path("module");
    std::fs::create_dir(&folder).unwrap();
    let write = |code: &str| std::fs::write(folder.join("main.tf"), code).unwrap();
    let path = folder.to_str().unwrap().to_owned();
    write(&module("small"));
    server.canyon(&["deploy", PROJECT, ENV, "--module", &path]).done();

    write(&module("large"));
    let planned = server.canyon(&["plan", PROJECT, ENV, "--module", &path]);
    let said = planned.done().to_owned();
    assert!(said.contains("1 to change"), "{said}");
    let id =
        said.lines().find_map(|line| line.strip_prefix("deployment")).unwrap().trim().to_owned();
    // Whatever the folder has by then.
    write(&module("huge"));
    let shown = server.canyon(&["show", "plan", &id]).done().to_owned();
    for part in ["1 to change", "  ~ terraform_data.disk", "input: \"small\" -> \"large\""] {
        assert!(shown.contains(part), "no `{part}` in: {shown}");
    }
    let parsed: Value =
        serde_json::from_str(server.canyon(&["show", "plan", &id, "--out", "json"]).done())
            .unwrap();
    assert_eq!(parsed["summary"]["change"], 1, "{parsed}");
    let applied = server.canyon(&["apply", &id]).done().to_owned();
    assert!(applied.contains("size = large"), "{applied}");

    write("# nothing\n");
    let id = server
        .canyon(&["plan", PROJECT, ENV, "--module", &path, "--no-wait"])
        .done()
        .trim()
        .to_owned();
    server.canyon(&["wait", &id]).done();
    let refused = server.canyon(&["apply", &id]);
    assert_ne!(
        refused.code, 0,
        "it destroys a resource, and the command has no terminal to ask on"
    );
    assert!(refused.stderr.contains("--yes"), "{}", refused.stderr);
    server.canyon(&["apply", &id, "--yes"]).done();
    assert_eq!(site.state(ENV).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_applied_is_refused_before_anything_is_written() {
    let site = Site::new().await;
    let deployed = site.run(&request(ENV, Some(inline(module("small"))))).await;
    let nothing = site.run(&a_plan(&module("small"))).await;
    let failed = site.run(&a_plan("no module\n")).await;
    let planned = site.run(&a_plan(&module("large"))).await;
    site.environment("other").await;
    let refusal = async |body: DeploymentCreateBody| {
        let error = site.client.create_deployment(&body, &uuid::Uuid::new_v4().to_string()).await;
        let error = error.unwrap_err();
        (error.status().unwrap(), error.to_string())
    };
    for (of, part) in
        [(&deployed, "is not a plan"), (&nothing, "changes nothing"), (&failed, "it is failed")]
    {
        let (status, message) = refusal(an_apply(of)).await;
        assert!(status == 409 && message.contains(part), "{status} {message}");
    }
    let elsewhere = DeploymentCreateBody { env_id: "other".to_owned(), ..an_apply(&planned) };
    let (status, message) = refusal(elsewhere).await;
    assert!(status == 400 && message.contains("plan_deployment_id"), "{status} {message}");
    let with_module = DeploymentCreateBody {
        module: Some(inline("")),
        replace: vec!["a.b".to_owned()],
        ..an_apply(&planned)
    };
    let (status, message) = refusal(with_module).await;
    assert!(status == 400, "{message}");
    for field in ["module", "replace"] {
        assert!(message.contains(field), "{field}: {message}");
    }
    let (status, message) =
        refusal(DeploymentCreateBody { plan_deployment_id: None, ..an_apply(&planned) }).await;
    assert!(status == 400 && message.contains("plan_deployment_id"), "{status} {message}");
    let deploy = DeploymentCreateBody {
        plan_deployment_id: Some(planned.id),
        ..request(ENV, Some(inline(module("small"))))
    };
    assert_eq!(refusal(deploy).await.0, 400);

    // On another runner the state may be elsewhere.
    let runner = json!({
        "id": "second", "runner_configuration": { "type": "local" },
        "state_storage_configuration": { "type": "local", "path": site.server.path("elsewhere") },
    });
    site.make(&["runners"], &runner).await;
    site.make(&["runner-rules"], &json!({ "runner_id": "second", "project_id": PROJECT })).await;
    site.server.canyon(&["refresh-runner", PROJECT, ENV, "--migrate"]).done();
    let (status, message) = refusal(an_apply(&planned)).await;
    assert!(status == 409 && message.contains("was made on runner"), "{status} {message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_for_the_recipients_of_its_log_is_read_with_their_key_alone() {
    let site = Site::new().await;
    let key = site.server.path("key.txt");
    let identity = age::x25519::Identity::generate();
    let secret = identity.to_string();
    std::fs::write(&key, secrecy::ExposeSecret::expose_secret(&secret)).unwrap();
    let body = DeploymentCreateBody {
        encrypted_logs_recipient: Some(identity.to_public().to_string()),
        ..a_plan(&module("small"))
    };
    let planned = site.run(&body).await;
    assert_succeeded(&planned);
    let id = planned.id.to_string();
    let page = site.client.plan(&id, 0).await.unwrap();
    assert!(page.resources.is_empty() && page.encrypted.is_some(), "{page:?}");
    let refused = site.server.canyon(&["show", "plan", &id]);
    assert!(refused.stderr.contains("--identity"), "{}", refused.stderr);
    let shown = site.server.canyon(&["show", "plan", &id, "--identity", key.to_str().unwrap()]);
    assert!(shown.done().contains("+ terraform_data.disk"), "{}", shown.done());
    assert_succeeded(&site.run(&an_apply(&planned)).await);
}
