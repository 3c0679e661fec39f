//! One agent that several organizations of an installation share: Canyon's functions, and a real Docker engine.

use crate::agent_chart::{made, namespaces, of_kind, variable};
use crate::agent_walled::{Agent, RUNNER, inventory};
use crate::harness::account::{Account, carried};
use crate::harness::deployments::{LIMIT, answered, assert_succeeded, end, request};
use crate::harness::functions::Server;
use crate::harness::helm::template;
use crate::harness::module::inline;
use canyon_api::client::Client;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A module that is busy for some seconds.
const SLOW: &str = r#"
resource "terraform_data" "pause" {
  triggers_replace = timestamp()
  provisioner "local-exec" { command = "sleep 8" }
}
"#;

/// What the organization sees of the agent, once that is as wanted.
async fn seen(client: &Client, wanted: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + LIMIT;
    loop {
        let found = client.get(&["agents", RUNNER]).await;
        if let Ok(found) = &found
            && wanted(found)
        {
            return found.clone();
        }
        assert!(Instant::now() < deadline, "the agent is not as wanted: {found:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

async fn accept(client: &Client, key: &str) -> String {
    let body = request("dev", Some(inline(SLOW)));
    answered(async || client.create_deployment(&body, key).await).await.id.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn organizations_that_adopt_one_agent_share_its_places_and_nothing_else() {
    let account = Account::start().await;
    let server = Server::start().await;
    let other = server.new_organization().await;
    let [id, token] = ["id", "admin_token"].map(|name| other[name].as_str().unwrap());
    let acme = server.client();
    let beta = Client::new(&server.url(), id, token.into()).unwrap();
    let variables = json!(account.bucket_variables());
    inventory(&acme, &account, &variables).await;
    inventory(&beta, &account, &variables).await;
    let path = format!("{}/{RUNNER},{id}/{RUNNER}", server.org());
    let _agent = Agent::start_with(
        &[],
        &[
            ("CANYON_API_URL", &server.url()),
            ("CANYON_RUNNER_PATH", &path),
            ("CANYON_AGENT_CONCURRENCY", "1"),
            ("CANYON_JOB_DISPATCHER_DATA_API_URL", &carried(&server.url()).await),
        ],
    );

    // Each organization decides for itself, and sees before that the agent is shared.
    for client in [&acme, &beta] {
        let pending = seen(client, |agent| agent["state"] == "pending").await;
        assert_eq!(pending["shared"], json!(true), "{pending:#}");
    }
    acme.act(&["agents", RUNNER, "actions", "adopt"], &[]).await.unwrap();
    seen(&acme, |agent| agent["availability"] == "idle").await;
    assert_eq!(seen(&beta, |_| true).await["state"], "pending");
    beta.act(&["agents", RUNNER, "actions", "adopt"], &[]).await.unwrap();
    seen(&beta, |agent| agent["availability"] == "idle").await;

    // The only place is taken by the first organization: the second one waits for it.
    let first = accept(&acme, "first").await;
    seen(&beta, |agent| agent["session"]["running"] == json!(1)).await;
    let second = accept(&beta, "second").await;
    let busy = end(&acme, &first).await;
    assert_succeeded(&busy);
    let waited = end(&beta, &second).await;
    assert_succeeded(&waited);
    let [attempt] = &*waited.attempts else { panic!("{waited:#?}") };
    assert!(attempt.claimed_at > busy.completed_at, "{busy:#?}\n{waited:#?}");
    assert!(acme.deployment(&second).await.is_err(), "no organization sees the other's");

    // One organization rejects the agent; it goes on for the other.
    beta.act(&["agents", RUNNER, "actions", "reject"], &[]).await.unwrap();
    let third = accept(&acme, "third").await;
    assert_succeeded(&end(&acme, &third).await);
}

#[test]
fn an_agent_that_organizations_share_gets_a_path_and_an_account_of_each() {
    let namespaces = namespaces();
    let shared = r#"canyon.alsoServes=[{"orgId":"beta"},{"orgId":"gamma","runnerId":"far"}]"#;
    let objects = made(&namespaces, &[shared]);
    let deployment = of_kind(&objects, "Deployment")[0];
    let path = &variable(deployment, "CANYON_RUNNER_PATH").unwrap()["value"];
    assert_eq!(path, &json!("acme/private,beta,gamma/far"));
    let accounts = [
        r#"canyon.serviceAccountId="agents""#,
        r#"canyon.alsoServes=[{"orgId":"beta","serviceAccountId":"robots"}]"#,
    ];
    let objects = made(&namespaces, &accounts);
    let deployment = of_kind(&objects, "Deployment")[0];
    let path = &variable(deployment, "CANYON_SERVICE_ACCOUNT_PATH").unwrap()["value"];
    assert_eq!(path, &json!("acme/agents,beta/robots"));

    let agent = namespaces[0].0.as_str();
    let without = [accounts[0], r#"canyon.alsoServes=[{"orgId":"beta"}]"#];
    let said = template(agent, &without).refused();
    assert!(said.contains("each organization has a serviceAccountId"), "{said}");
    let token = [
        r#"canyon.existingSecret="proof""#,
        r#"canyon.existingSecretKey="token""#,
        r#"canyon.alsoServes=[{"orgId":"beta"}]"#,
    ];
    let said = template(agent, &token).refused();
    assert!(said.contains("a token is of one organization"), "{said}");
}
