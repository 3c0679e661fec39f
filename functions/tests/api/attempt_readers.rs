//! The token by which a module reads Canyon: it has the rights of a viewer while its attempt runs.

use crate::access::operations;
use crate::harness::Api;
use crate::job::{claim, deploy, furnished, launch, lose};
use canyon_domain::lifecycle::TOKEN_LIFETIME;
use reqwest::Method;
use serde_json::json;

const CLAIMANT: &str = "claimant-of-the-test";

/// Deploys, launches and claims. Returns the deployment and the read token of its module.
async fn reader(api: &Api) -> (String, String) {
    let id = deploy(api).await;
    let token = read_token(api, &id, 1).await;
    (id, token)
}

async fn read_token(api: &Api, id: &str, number: u32) -> String {
    let code = launch(api, id).await;
    let (status, claimed) = claim(api, id, number, &code, CLAIMANT).await;
    assert_eq!(status, 200, "{claimed}");
    claimed["read_token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_module_reads_what_a_viewer_reads_and_calls_nothing_else() {
    let api = furnished().await;
    let (_, token) = reader(&api).await;
    let before = api.audit().await;
    let mut reads = 0;
    for (method, path, open) in operations() {
        if open {
            continue;
        }
        let of_module = api.send(method.clone(), &path, Some(&token), None).await;
        if method == Method::GET {
            let of_viewer = api.send(method, &path, Some(&api.ours.viewer), None).await;
            assert_eq!(of_module.0, of_viewer.0, "{path}: {}", of_module.1);
            reads += u32::from(of_module.0 == 200);
        } else {
            assert!(matches!(of_module.0, 401 | 403), "{method} {path}: {of_module:?}");
        }
    }
    assert!(reads > 5, "{reads}");
    assert_eq!(api.audit().await, before);
    let path = format!("/orgs/{}/runners", api.theirs.id);
    assert_eq!(api.send(Method::GET, &path, Some(&token), None).await.0, 404, "of others");
}

#[tokio::test]
async fn a_modules_token_ends_with_its_attempt() {
    let api = furnished().await;
    let (id, first) = reader(&api).await;
    let reads = async |token: &str| api.call_as(token, Method::GET, "/projects", None).await.0;
    assert_eq!(reads(&first).await, 200);
    let forged = format!("{}{}", &first[..first.len() - 4], "AAAA");
    assert_eq!(reads(&forged).await, 401);
    assert_eq!(reads(&first.replacen("cyr_", "cyj_", 1)).await, 401, "it is no runner's");
    lose(&api, &id).await;
    assert_eq!(reads(&first).await, 401, "its attempt is over");
    let second = read_token(&api, &id, 2).await;
    assert_eq!((reads(&first).await, reads(&second).await), (401, 200));
    api.clock.advance(TOKEN_LIFETIME);
    assert_eq!(reads(&second).await, 401, "its runner is silent");
}

#[tokio::test]
async fn what_is_not_claimed_yet_reads_nothing() {
    use canyon_identity::bearer::AttemptRef;
    use secrecy::ExposeSecret as _;
    let api = furnished().await;
    let id = deploy(&api).await;
    let code = launch(&api, &id).await;
    let deployment = crate::job::stored(&api, &id).await;
    let attempt = AttemptRef { org: api.ours.uuid, deployment: deployment.id, number: 1 };
    let fence = deployment.open_attempt().unwrap().fence;
    let token = api.app.master_keys.get().await.unwrap().read_token(attempt, fence);
    let read = api.call_as(token.expose_secret(), Method::GET, "/projects", None).await;
    assert_eq!(read.0, 401);
    assert_eq!(claim(&api, &id, 1, &code, CLAIMANT).await.0, 200);
    let read = api.call_as(token.expose_secret(), Method::GET, "/projects", None).await;
    assert_eq!(read.0, 200, "{}", json!(read.1));
}
