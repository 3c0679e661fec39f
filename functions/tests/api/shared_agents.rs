//! Agents that serve several organizations.

use crate::agent_world::{Key, far_away, opening, say, view};
use serde_json::{Value, json};

#[tokio::test]
async fn who_adopts_an_agent_sees_that_other_organizations_share_it() {
    let api = far_away().await;
    let key = Key::new();
    let mut body = opening("a");
    body["public_key"] = json!(key.pem());
    body["shared"] = json!(true);
    let ask = async |body: &Value| {
        say(&api, &key.token(&api, "berlin"), "berlin/sessions", body.clone()).await
    };
    assert_eq!(ask(&body).await.0, 202);
    assert_eq!(view(&api, "berlin").await["shared"], json!(true));
    assert_eq!(api.act("/agents/berlin/actions/adopt").await.1["shared"], json!(true));
    assert_eq!(ask(&body).await.0, 201);
    // It may serve this organization alone from now on, and to share it again is another question.
    body["instance"] = json!("b");
    body["shared"] = json!(false);
    assert_eq!(ask(&body).await.0, 201);
    assert_eq!(view(&api, "berlin").await["shared"], Value::Null);
    body["instance"] = json!("c");
    body["shared"] = json!(true);
    let (status, refused) = ask(&body).await;
    assert_eq!((status, &refused["details"]["code"]), (409, &json!("shared_since")));
    assert!(refused["message"].as_str().unwrap().contains("canyon forget agent berlin"));
}
