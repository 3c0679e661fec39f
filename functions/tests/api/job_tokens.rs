//! The tokens by which a job authenticates to clouds.

use crate::harness::{Answer, Api, message};
use crate::job::{Job, claim, deploy, launch, order, stored};
use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use canyon_domain::failure::Phase;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const GCP: &str =
    "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b";

/// An API whose runner gives its jobs an identity.
async fn with_identity() -> Api {
    let api = crate::job::furnished().await;
    let identity = json!({
        "aws": { "role_arn": "arn:aws:iam::123456789012:role/deploy" },
        "gcp": { "audience": GCP },
        "tokens": [{ "name": "vault", "audience": "https://vault.example.com" }],
    });
    let configuration = json!({ "type": "local", "job": { "identity": identity } });
    let changed = api.patch("/runners/shared", json!({ "runner_configuration": configuration }));
    assert_eq!(changed.await.0, 200);
    api
}

impl Job {
    async fn token(&self, api: &Api, audience: &str, phase: &str) -> Answer {
        let path = format!("/deployments/{}/attempts/{}/actions/issue-token", self.id, self.number);
        let body = json!({ "audience": audience, "phase": phase });
        api.call_as(&self.token, Method::POST, &path, Some(&body)).await
    }
}

/// The claims of a token, if a published key of the issuer for jobs has signed it. Tokens for runners fail this check,
/// because their keys are different.
async fn verified(api: &Api, token: &str) -> Value {
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let part = |n: usize| URL_SAFE_NO_PAD.decode(token.split('.').nth(n).unwrap()).unwrap();
    let header: Value = serde_json::from_slice(&part(0)).unwrap();
    let (_, keys) = api.send(Method::GET, "/jobs/.well-known/jwks", None, None).await;
    let key = keys["keys"].as_array().unwrap().iter().find(|key| key["kid"] == header["kid"]);
    let number = |name: &str| URL_SAFE_NO_PAD.decode(key.unwrap()[name].as_str().unwrap()).unwrap();
    RsaPublicKeyComponents { n: number("n"), e: number("e") }
        .verify(
            &RSA_PKCS1_2048_8192_SHA256,
            signed.as_bytes(),
            &URL_SAFE_NO_PAD.decode(signature).unwrap(),
        )
        .unwrap();
    serde_json::from_slice(&part(1)).unwrap()
}

#[tokio::test]
async fn a_jobs_token_has_claims_for_the_environment_and_the_phase() {
    let api = with_identity().await;
    let job = Job::start(&api).await;
    let (status, answer) = job.token(&api, "sts.amazonaws.com", "plan").await;
    assert_eq!(status, 200, "{answer}");
    let says = verified(&api, answer["token"].as_str().unwrap()).await;
    let deployment = stored(&api, &job.id).await;
    let expected = json!({
        "iss": format!("{}/jobs", api.url), "aud": "sts.amazonaws.com",
        "sub": "org:our-org:project:shop:env_type:dev:env:main:phase:plan",
        "org": "our-org", "org_uuid": api.ours.uuid, "project": "shop", "env_type": "dev",
        "env": "main", "env_uuid": deployment.env_uuid, "runner": "shared", "phase": "plan",
        "deployment": job.id, "attempt": 1, "mode": "deploy", "kind": "tofu", "role": "plan",
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(says[name], *value, "{name}");
    }
    assert_eq!(says["exp"].as_i64().unwrap() - says["iat"].as_i64().unwrap(), 600);
    let end: jiff::Timestamp = answer["expires_at"].as_str().unwrap().parse().unwrap();
    assert_eq!(end.as_second(), says["exp"].as_i64().unwrap());
    for audience in [GCP, "https://vault.example.com"] {
        let (_, answer) = job.token(&api, audience, "plan").await;
        assert_eq!(verified(&api, answer["token"].as_str().unwrap()).await["aud"], audience);
    }

    // A request at half of its lifetime gets a new token.
    assert_eq!(job.token(&api, "sts.amazonaws.com", "plan").await.1, answer, "one is remembered");
    api.clock.advance(Duration::from_mins(5));
    let (_, later) = job.token(&api, "sts.amazonaws.com", "plan").await;
    assert_ne!(later["token"], answer["token"]);
}

#[tokio::test]
async fn a_token_of_an_apply_is_for_an_apply_that_is_recorded() {
    let api = with_identity().await;
    let job = Job::start(&api).await;
    for phase in ["init", "plan"] {
        job.report(&api, phase, json!([])).await;
        let refused = job.token(&api, "sts.amazonaws.com", "apply").await;
        assert_eq!(refused.0, 409);
        assert!(message(&refused).contains("has not begun to apply"), "{refused:?}");
    }
    job.report(&api, "apply", json!([])).await;
    assert_eq!(stored(&api, &job.id).await.open_attempt().unwrap().phase, Phase::Apply);
    let (status, answer) = job.token(&api, "sts.amazonaws.com", "apply").await;
    let says = verified(&api, answer["token"].as_str().unwrap()).await;
    assert_eq!((status, &says["phase"], &says["role"]), (200, &json!("apply"), &json!("apply")));
    assert!(says["sub"].as_str().unwrap().ends_with(":env:main:phase:apply"), "{says}");

    // A deployment that only plans gets no token, whatever phase it reports.
    let api = with_identity().await;
    let mut only = order();
    only["plan_only"] = json!(true);
    let id = api.make("/deployments", only).await["id"].as_str().unwrap().to_owned();
    let code = launch(&api, &id).await;
    let (_, claimed) = claim(&api, &id, 1, &code, "claimant-number-one").await;
    let job = Job { id, number: 1, token: claimed["token"].as_str().unwrap().to_owned() };
    job.report(&api, "apply", json!([])).await;
    let refused = job.token(&api, "sts.amazonaws.com", "apply").await;
    assert_eq!(refused.0, 403);
    assert!(message(&refused).contains("only plans"), "{refused:?}");
    assert_eq!(job.token(&api, "sts.amazonaws.com", "plan").await.0, 200);
}

#[tokio::test]
async fn a_destroy_has_its_own_role_and_the_subject_that_clouds_trust_already() {
    let role = |name: &str| format!("arn:aws:iam::123456789012:role/{name}");
    let identity = json!({
        "aws": { "role_arn": role("all") },
        "job_roles": {
            "plan": { "aws_role_arn": role("plan") }, "destroy": { "aws_role_arn": role("destroy") },
        },
    });
    let configuration = json!({ "type": "local", "job": { "identity": identity } });
    let patch = json!({ "runner_configuration": configuration });
    for (mode, role_of_apply, class) in
        [("deploy", "all", "apply"), ("destroy", "destroy", "destroy")]
    {
        let api = crate::job::furnished().await;
        assert_eq!(api.patch("/runners/shared", patch.clone()).await.0, 200);
        let mut body = order();
        body["mode"] = json!(mode);
        let id = api.make("/deployments", body).await["id"].as_str().unwrap().to_owned();
        let code = launch(&api, &id).await;
        let (status, claimed) = claim(&api, &id, 1, &code, "claimant-number-one").await;
        assert_eq!(status, 200, "{claimed}");
        // Any program of the runner understands it: no `job_roles`.
        let aws = json!({ "role_arn": role(role_of_apply), "plan_role_arn": role("plan") });
        assert_eq!(claimed["job"]["identity"], json!({ "aws": aws }));
        let job = Job { id, number: 1, token: claimed["token"].as_str().unwrap().to_owned() };
        for (phase, role) in [("plan", "plan"), ("apply", class)] {
            job.report(&api, phase, json!([])).await;
            let (_, answer) = job.token(&api, "sts.amazonaws.com", phase).await;
            let says = verified(&api, answer["token"].as_str().unwrap()).await;
            assert_eq!(says["role"], role, "{says}");
            let subject = format!("org:our-org:project:shop:env_type:dev:env:main:phase:{phase}");
            assert_eq!(says["sub"], json!(subject));
        }
    }

    let twice = json!({ "aws": { "role_arn": role("a"), "plan_role_arn": role("b") },
        "job_roles": { "plan": { "aws_role_arn": role("c") }, "action": {} } });
    let configuration = json!({ "type": "local", "job": { "identity": twice } });
    let patch = json!({ "runner_configuration": configuration });
    let api = crate::job::furnished().await;
    let refused = api.patch("/runners/shared", patch).await;
    assert_eq!(refused.0, 400);
    let text = refused.1.to_string();
    for path in ["job_roles.plan.aws_role_arn", "job_roles.action"] {
        assert!(text.contains(&format!("runner_configuration.job.identity.{path}")), "{text}");
    }
}

#[tokio::test]
async fn only_the_job_gets_a_token_and_none_is_for_another_audience() {
    let api = with_identity().await;
    let job = Job::start(&api).await;
    for audience in ["", "api://AzureADTokenExchange", "https://vault.example.com/", "x\ny"] {
        let refused = job.token(&api, audience, "plan").await;
        assert_eq!(refused.0, 403, "{audience}");
        assert!(message(&refused).contains("of runner `shared` names no audience"), "{refused:?}");
    }
    assert_eq!(job.token(&api, "sts.amazonaws.com", "destroy").await.0, 400);
    for token in [&api.ours.admin, &api.theirs.admin] {
        let foreign = Job { id: job.id.clone(), number: 1, token: token.clone() };
        assert_eq!(foreign.token(&api, "sts.amazonaws.com", "plan").await.0, 401);
    }
    let other = deploy(&api).await;
    let elsewhere = Job { id: other, number: 1, token: job.token.clone() };
    assert_eq!(elsewhere.token(&api, "sts.amazonaws.com", "plan").await.0, 404);

    // An audience that the definition no longer names is refused at once; the same holds after the end of the attempt.
    let configuration = json!({ "type": "local", "job": { "identity": null } });
    api.patch("/runners/shared", json!({ "runner_configuration": configuration })).await;
    assert_eq!(job.token(&api, "sts.amazonaws.com", "plan").await.0, 403);
    crate::job::lose(&api, &job.id).await;
    assert_eq!(job.token(&api, "sts.amazonaws.com", "plan").await.0, 409);
}

#[tokio::test]
async fn a_secret_store_of_the_organization_gets_tokens_of_the_plan_alone() {
    let api = with_identity().await;
    let job = Job::start(&api).await;
    let audience = "https://vault.of-the-team.example.com";
    assert_eq!(job.token(&api, audience, "plan").await.0, 403);
    let store = json!({ "id": "team-vault", "store_configuration": {
        "type": "vault", "url": audience, "role": "shop",
    }});
    // A store of another organization changes nothing.
    let path = "/orgs/their-org/secret-stores";
    let theirs =
        api.send(Method::POST, path, Some(&api.theirs.admin), Some(store.to_string().into())).await;
    assert_eq!(theirs.0, 201, "{theirs:?}");
    assert_eq!(job.token(&api, audience, "plan").await.0, 403);
    api.make("/secret-stores", store).await;
    let (_, answer) = job.token(&api, audience, "plan").await;
    assert_eq!(verified(&api, answer["token"].as_str().unwrap()).await["aud"], audience);
    job.report(&api, "apply", json!([])).await;
    assert_eq!(job.token(&api, audience, "apply").await.0, 403);
}
