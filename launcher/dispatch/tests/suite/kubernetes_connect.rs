//! How Canyon signs in to a cluster, and the errors if it cannot.

use crate::bed::{Bed, Facts, base64};
use crate::behaviour::{new_job, until};
use crate::forwarder::{Forwarder, issuer};
use crate::kubernetes::acting;
use canyon_dispatch::{CheckReports, DispatchError, OnFailure, Started, StopMode};
use canyon_domain::failure::FailureClass;
use canyon_domain::runner_check::{CheckStep, StepResult};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::io::Write as _;
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

/// The error of a start with this definition, which must come within seconds.
async fn error_of(bed: &Bed, configuration: Value) -> DispatchError {
    let began = Instant::now();
    let kind = bed.dispatcher(configuration);
    let error = kind.start(&acting(bed, new_job(), "writes")).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}: {error}", began.elapsed());
    assert!(!error.to_string().contains(&bed.token), "{error}");
    error
}

#[track_caller]
fn is_config(error: &DispatchError, words: &str) {
    assert_eq!(
        (error.failure.class, error.on_failure),
        (FailureClass::Config, OnFailure::EndAttempt),
        "{error}"
    );
    assert!(error.to_string().contains(words), "{error}");
}

fn at(bed: &Bed, server: &str) -> Value {
    let mut configuration = bed.configuration();
    configuration["cluster"]["cluster_data"]["server"] = json!(server);
    configuration
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_thing_is_named() {
    let bed = Bed::new().await;
    let mut elsewhere = bed.configuration();
    elsewhere["job"]["namespace"] = json!("nowhere");
    // Without permissions there, the API server does not say whether the namespace exists.
    is_config(&error_of(&bed, elsewhere).await, "in the namespace \"nowhere\"");
    let mut invalid = bed.configuration();
    invalid["cluster"]["auth"]["service_account_token"] = json!("of-no-account");
    is_config(&error_of(&bed, invalid).await, "401 Unauthorized");
    bed.api::<Role>().delete("canyon", &DeleteParams::default()).await.unwrap();
    let user = format!("system:serviceaccount:{}:canyon", bed.namespace);
    let words = format!(r#"User "{user}" cannot create resource "jobs" in API group "batch""#);
    until("the permission is gone", async || {
        let kind = bed.dispatcher(bed.configuration());
        match kind.start(&acting(&bed, new_job(), "writes")).await {
            Err(error) => {
                is_config(&error, &words);
                let account =
                    format!("to service account `canyon` of namespace `{}`", bed.namespace);
                is_config(&error, &account);
                true
            }
            Ok(_) => false,
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_of_an_admission_webhook_is_quoted_without_the_claim_code() {
    let bed = Bed::new().await;
    let mut configuration = bed.configuration();
    configuration["job"]["pod_template"] = json!({
        "spec": { "priorityClassName": "none-of-that-name", "tolerations": [{ "key": "a b" }] },
    });
    let error = error_of(&bed, configuration).await;
    is_config(&error, "tolerations");
    assert!(!error.to_string().contains(crate::kubernetes::CODE), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_authority_and_another_name_have_different_errors() {
    let bed = Bed::new().await;
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args([
            "-nodes",
            "-days",
            "1",
            "-subj",
            "/CN=canyon-cluster",
            "-keyout",
            "key",
            "-out",
            "ca",
        ])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let mut configuration = bed.configuration();
    let other = base64(&std::fs::read(folder.path().join("ca")).unwrap());
    configuration["cluster"]["cluster_data"]["certificate_authority_data"] = json!(other);
    is_config(&error_of(&bed, configuration).await, "not signed by the certificate authority");

    let forwarder = Forwarder::at("127.0.0.3", Facts::of_cluster().get("SERVER"));
    let configuration = at(&bed, &format!("https://{}", forwarder.address));
    is_config(&error_of(&bed, configuration).await, "certificate is for another name");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_cluster_needs_an_agent() {
    let bed = Bed::new().await;
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = error_of(&bed, at(&bed, &format!("https://{closed}"))).await;
    assert!(matches!(error.on_failure, OnFailure::RetryAfter(_)), "{error:?}");
    assert!(error.to_string().contains("needs an agent"), "{error}");
    // A resolver may fail temporarily.
    let unknown = at(&bed, "https://api.cluster.invalid");
    let is_final =
        async || error_of(&bed, unknown.clone()).await.on_failure == OnFailure::EndAttempt;
    until("the name is known not to exist", is_final).await;
    is_config(&error_of(&bed, unknown.clone()).await, "needs an agent");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("https://{}", silent.local_addr().unwrap());
    is_config(&error_of(&bed, at(&bed, &silent)).await, "needs an agent");
    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = plain.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut client in plain.incoming().map_while(Result::ok) {
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    is_config(&error_of(&bed, at(&bed, &format!("https://{address}"))).await, "not speak TLS");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_connects_to_no_address_of_its_own_machine() {
    let bed = Bed::new().await;
    for server in
        ["https://127.0.0.1:1", "https://[::1]:1", "https://localhost:1", "https://169.254.169.254"]
    {
        let kind = bed.dispatcher_of_service(at(&bed, server));
        let error = kind.start(&acting(&bed, new_job(), "writes")).await.unwrap_err();
        is_config(&error, &format!("Canyon does not call `{server}`"));
    }
    // A laptop does not connect to a metadata service either.
    is_config(&error_of(&bed, at(&bed, "https://169.254.169.254")).await, "is link-local");
    bed.dispatcher_of_service(bed.configuration()).jobs().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_whose_answer_was_lost_is_found() {
    let bed = Bed::new().await;
    let forwarder = Forwarder::at("127.0.0.1", Facts::of_cluster().get("SERVER"));
    let kind = bed.dispatcher(at(&bed, &format!("https://{}", forwarder.address)));
    let launch = acting(&bed, new_job(), "until-asked");
    // Open a connection first.
    kind.jobs().await.unwrap();
    forwarder.cut(true);
    let error = kind.start(&launch).await.unwrap_err();
    assert_eq!(error.on_failure, OnFailure::Observe, "{error}");
    forwarder.cut(false);
    assert_eq!(kind.start(&launch).await.unwrap(), Started::Already(None));
    kind.stop(&launch.job, StopMode::Kill).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn canyons_own_token_suffices_if_the_cluster_trusts_its_issuer() {
    let bed = Bed::new().await;
    let facts = Facts::of_cluster();
    let _issuer = issuer(facts).await;
    let mut configuration = bed.configuration();
    configuration["cluster"]["auth"] =
        json!({ "oidc": { "audience": facts.get("OIDC_AUDIENCE") } });
    let subject = format!("org:{}:runner:{}", bed.target(configuration.clone()).org, bed.runner);
    let user = format!("{}{subject}", facts.get("OIDC_USERNAME_PREFIX"));
    let kind = bed.dispatcher(configuration.clone());
    let refusal = async || kind.jobs().await.unwrap_err();
    // The API server may just have begun to read the issuer's keys. Its message contains ids, which may contain
    // the number 401.
    until("the token is accepted", async || {
        !refusal().await.to_string().contains("401 Unauthorized")
    })
    .await;
    is_config(&refusal().await, &format!("User \"{user}\" cannot list"));
    bind(&bed, &user).await;
    until("the permission is there", async || kind.jobs().await.is_ok()).await;
    let other = json!({ "oidc": { "audience": "another" } });
    configuration["cluster"]["auth"] = other;
    let error = error_of(&bed, configuration).await;
    is_config(&error, "401 Unauthorized");
    for shown in [facts.get("ISSUER_URL"), "audience `another`", &subject] {
        is_config(&error, shown);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_certificate_suffices_and_a_proxy_is_used() {
    let bed = Bed::new().await;
    let facts = Facts::of_cluster();
    let folder = tempfile::tempdir().unwrap();
    let user = format!("canyon-of-{}", bed.namespace);
    let script = r#"
        set -eu
        openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj "/CN=$1" -keyout key -out csr
        echo extendedKeyUsage=clientAuth >extensions
        openssl x509 -req -in csr -CA "$2" -CAkey "$3" -CAcreateserial -CAserial serial -days 1 \
            -extfile extensions -out pem
    "#;
    let made = Command::new("sh")
        .args(["-c", script, "sh", &user, facts.get("CA_FILE"), facts.get("CA_KEY_FILE")])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let read = |name: &str| base64(&std::fs::read(folder.path().join(name)).unwrap());
    let mut configuration = bed.configuration();
    configuration["cluster"]["auth"] =
        json!({ "client_certificate_data": read("pem"), "client_key_data": read("key") });
    bind(&bed, &user).await;
    let kind = bed.dispatcher(configuration.clone());
    until("the permission is there", async || kind.jobs().await.is_ok()).await;

    let proxy = Forwarder::proxy("127.0.0.1");
    configuration["cluster"]["cluster_data"]["proxy_url"] =
        json!(format!("http://{}", proxy.address));
    bed.dispatcher(configuration).jobs().await.unwrap();
    assert_eq!(proxy.connections(), 1);
}

/// Gives `user` the permissions of Canyon's account.
pub(crate) async fn bind(bed: &Bed, user: &str) {
    let subject = json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user });
    let change = Patch::Merge(json!({ "subjects": [subject] }));
    bed.api::<RoleBinding>().patch("canyon", &PatchParams::default(), &change).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_names_the_failed_step_and_what_is_missing() {
    let bed = Bed::new().await;
    let steps = async |configuration: Value| {
        let (sender, mut reports) = tokio::sync::mpsc::unbounded_channel();
        bed.dispatcher(configuration).check(&CheckReports::new(sender)).await;
        let mut all = vec![];
        while let Ok(report) = reports.try_recv() {
            all.push((report.step, report.result, report.message));
        }
        all
    };
    let words = |steps: &[(CheckStep, StepResult, String)]| {
        steps.iter().map(|(step, result, _)| (*step, *result)).collect::<Vec<_>>()
    };
    let good = steps(bed.configuration()).await;
    let all = [CheckStep::Connect, CheckStep::Permissions, CheckStep::DryRun];
    assert_eq!(words(&good), all.map(|step| (step, StepResult::Ok)), "{good:?}");
    // Nothing was created.
    let jobs = bed.api::<Job>().list(&ListParams::default()).await.unwrap().items;
    assert!(jobs.is_empty(), "{jobs:?}");

    let mut policy = bed.configuration();
    policy["job"]["pod_template"] = json!({ "spec": { "tolerations": [{ "key": "a b" }] } });
    let bad = steps(policy).await;
    assert_eq!(bad.last().unwrap().1, StepResult::Failed, "{bad:?}");
    assert!(bad.last().unwrap().2.contains("tolerations"), "{bad:?}");

    let role = json!({ "rules": [{ "apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get"] }] });
    let how = PatchParams::default();
    bed.api::<Role>().patch("canyon", &how, &Patch::Merge(role)).await.unwrap();
    let mut lacking = vec![];
    until("the permissions are reduced", async || {
        lacking = steps(bed.configuration()).await;
        lacking.len() == 2
    })
    .await;
    let (step, result, message) = &lacking[1];
    assert_eq!((*step, *result), (CheckStep::Permissions, StepResult::Failed));
    for right in ["delete jobs (batch)", "list pods (the core group)", "get pods/log"] {
        assert!(message.contains(right), "{message}");
    }
    assert!(!message.contains("create jobs"), "{message}");
    let account = format!("service account `canyon` of namespace `{}`", bed.namespace);
    assert!(message.contains(&account), "{message}");

    let mut invalid = bed.configuration();
    invalid["cluster"]["auth"]["service_account_token"] = json!("of-no-account");
    let refused = steps(invalid).await;
    assert_eq!(words(&refused), [(CheckStep::Connect, StepResult::Failed)], "{refused:?}");
}
