//! Secrets of stores: a job reads them with its own identity, and Canyon never has them.

use crate::harness::cli::CommandResult;
use crate::harness::clouds::Clouds;
use crate::harness::deployments::{assert_succeeded, failure, request};
use crate::harness::module::inline;
use crate::harness::searched::{files_without, until_no_job};
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, RUNNER, Site};
use canyon_cloud::parts::vault::Vault;
use canyon_domain::failure::FailureClass;
use http::Method;
use serde_json::json;
use std::fs;

const PASSWORD: &str = "pa55-of-the-vault/7";
/// The secrets of these tests, or parts of them.
const SECRETS: [&str; 3] = [PASSWORD, "cGE1NS1vZi10aGUtdmF1bHQ", "api-key-4711"];

/// Repeats its variables in the log.
const TELLING: &str = r#"
variable "db_password" {}
variable "db" { type = map(string) }
resource "terraform_data" "tells" {
  triggers_replace = timestamp()
  provisioner "local-exec" {
    command = "echo \"tells $API_KEY ${var.db_password} ${base64encode(var.db_password)} as ${var.db.user}\""
  }
}
output "digest" { value = nonsensitive(sha256("${var.db_password}${var.db.user}")) }
"#;

/// A Vault that trusts the jobs of a Canyon: role `shop` for the environments of the project shop.
async fn vault_trusting(server: &Server) -> Vault {
    let vault = Vault::start().await;
    let issuer = format!("{}/jobs", server.url());
    vault.call(Method::POST, "sys/auth/jwt", &json!({ "type": "jwt" })).await;
    let config = json!({ "oidc_discovery_url": issuer, "bound_issuer": issuer });
    vault.call(Method::POST, "auth/jwt/config", &config).await;
    let policy = json!({ "policy": "path \"secret/data/shop/*\" { capabilities = [\"read\"] }" });
    vault.call(Method::PUT, "sys/policies/acl/shop", &policy).await;
    let role = json!({
        "role_type": "jwt", "user_claim": "sub", "bound_audiences": [vault.url()],
        "bound_claims": { "org": server.org(), "project": "shop", "phase": "plan" },
        "token_policies": ["shop"], "token_ttl": "5m",
    });
    vault.call(Method::POST, "auth/jwt/role/shop", &role).await;
    for (path, data) in [
        ("shop/db", json!({ "user": "app-user", "password": "the-former-one" })),
        ("shop/db", json!({ "user": "app-user", "password": PASSWORD })),
        ("shop/api", json!({ "key": "api-key-4711" })),
        ("ops/db", json!({ "password": "not-for-shop" })),
    ] {
        vault.call(Method::POST, &format!("secret/data/{path}"), &json!({ "data": data })).await;
    }
    vault
}

/// What a command says that fails.
#[track_caller]
fn refused(result: &CommandResult) -> &str {
    assert_ne!(result.code, 0, "{result:?}");
    &result.stderr
}

fn refer(site: &Site, name: &str, more: &[&str]) {
    let set = ["set", "variable", "--project", PROJECT, "--store", "team-vault", name];
    site.server.canyon(&[&set[..], more].concat()).done();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_reads_its_secrets_from_vault_as_itself_and_they_are_found_nowhere_else() {
    let server = Server::start().await;
    let vault = vault_trusting(&server).await;
    let site = Site::on(server, &json!({})).await;
    let store = |arguments: &[&str]| {
        let url = format!("store_configuration.url={}", vault.url());
        let create = ["create", "secret-store", "team-vault", "--set", &url];
        let kind = ["--set", "store_configuration.type=vault"];
        site.server.canyon(&[&create[..], &kind, arguments].concat())
    };
    // A mistake is named by its path, and nothing is created.
    let faulty = store(&["--set", "store_configuration.rol=shop"]);
    assert!(refused(&faulty).contains("store_configuration.role"), "a role is required");
    let early = ["set", "variable", "--store", "team-vault", "--ref", "shop/db", "db"];
    let early = site.server.canyon(&early);
    assert!(refused(&early).contains("canyon create secret-store team-vault"));
    store(&["--set", "store_configuration.role=shop"]).done();

    refer(&site, "db_password", &["--ref", "shop/db#password"]);
    refer(&site, "db", &["--ref", "shop/db"]);
    let of_runner = ["set", "variable", "--runner", RUNNER, "--store", "team-vault", "API_KEY"];
    let api_key = ["--kind", "environment", "--ref", "shop/api#key"];
    site.server.canyon(&[&of_runner[..], &api_key].concat()).done();
    let explained = site.server.canyon(&["explain", "variables", PROJECT, ENV]);
    insta::assert_snapshot!(explained.done(), @r"
    KIND         NAME         VALUE                         FROM           OVERRIDES
    terraform    db           team-vault: shop/db           project:shop   -
    terraform    db_password  team-vault: shop/db#password  project:shop   -
    environment  API_KEY      team-vault: shop/api#key      runner:laptop  -
    ");
    let ended = site.run(&request(ENV, Some(inline(TELLING.to_owned())))).await;
    assert_succeeded(&ended);
    let log = site.log(&ended.id.to_string()).await;
    assert!(log.contains("tells ************ ") && log.contains(" as ********"), "{log}");
    let outputs = site.client.outputs(&ended.id.to_string()).await.unwrap();
    let digest = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(format!("{PASSWORD}app-user")));
    assert_eq!(outputs["digest"].value, Some(digest.into()));

    // The state has what the module puts there; no other file has a secret.
    until_no_job(&site.server.data());
    let searched = files_without(&SECRETS, &site.server.data());
    assert!(searched > 3, "{searched} files were searched");
    for text in [log, site.server.log()] {
        assert!(!contains_secret(text.as_bytes()), "{text}");
    }

    // A version, and a changed secret with the next run.
    refer(&site, "db_password", &["--ref", "shop/db#password", "--ref-version", "1"]);
    let former = site.run(&request(ENV, Some(inline(TELLING.to_owned())))).await;
    let outputs = site.client.outputs(&former.id.to_string()).await.unwrap();
    let digest = hex::encode(<sha2::Sha256 as sha2::Digest>::digest("the-former-oneapp-user"));
    assert_eq!(outputs["digest"].value, Some(digest.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_names_the_store_the_secret_and_the_identity() {
    let server = Server::start().await;
    let vault = vault_trusting(&server).await;
    let site = Site::on(server, &json!({})).await;
    let configuration = json!({ "type": "vault", "url": vault.url(), "role": "shop" });
    let body = json!({ "id": "team-vault", "store_configuration": configuration });
    site.make(&["secret-stores"], &body).await;
    let code = || inline("variable \"db_password\" {}\noutput \"x\" { value = \"x\" }".to_owned());
    for (reference, reason) in [
        ("ops/db#password", "permission denied"),
        ("shop/gone#password", "there is no such secret or version"),
        ("shop/db#pin", "the secret has no member `pin`"),
    ] {
        refer(&site, "db_password", &["--ref", reference]);
        let (class, message) = failure(&site.run(&request(ENV, Some(code()))).await);
        assert_eq!(class, FailureClass::Config, "{message}");
        let start = format!(
            "the variable `terraform.db_password` of project:shop cannot be read from the secret store team-vault: \
             {reference}, as role `shop` of {}: ",
            vault.url()
        );
        assert!(message.starts_with(&start) && message.contains(reason), "{message}");
        assert!(!message.contains(PASSWORD) && !message.contains("not-for-shop"), "{message}");
    }

    // The role is for another project: the failure says which token was refused.
    let role = json!({
        "role_type": "jwt", "user_claim": "sub", "bound_audiences": [vault.url()],
        "bound_claims": { "project": "other" },
    });
    vault.call(Method::POST, "auth/jwt/role/shop", &role).await;
    let (_, message) = failure(&site.run(&request(ENV, Some(code()))).await);
    let subject =
        format!("org:{}:project:shop:env_type:development:env:dev:phase:plan", site.server.org());
    assert!(message.contains(&subject) && message.contains(vault.url()), "{message}");

    // What needs no value needs no secret: a module that does not declare the variable, and the end of what was deployed.
    let other = || inline("resource \"terraform_data\" \"a\" {}".to_owned());
    let ended = site.run(&request(ENV, Some(other()))).await;
    assert_succeeded(&ended);
    let log = site.log(&ended.id.to_string()).await;
    assert!(log.contains("not needed here: the variable `terraform.db_password`"), "{log}");
    let listed = site.server.canyon(&["state", "list", PROJECT, ENV]);
    assert_eq!(listed.done().trim(), "terraform_data.a");
    site.server.canyon(&["destroy", PROJECT, ENV, "--yes"]).done();

    // A store in use is not deleted; without its references it is.
    let delete = ["delete", "secret-store", "team-vault"];
    let kept = site.server.canyon(&delete);
    let reason = "`terraform.db_password` of project:shop refers to secret store `team-vault`";
    assert!(refused(&kept).contains(reason), "{kept:?}");
    let unset = ["unset", "variable", "--project", PROJECT, "db_password"];
    site.server.canyon(&unset).done();
    site.server.canyon(&delete).done();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_reads_the_secret_managers_of_clouds_with_its_identity_of_the_plan() {
    let server = Server::start().await;
    let clouds = Clouds::trusting(&server);
    let site = Site::on(server, &clouds.job()).await;
    let url = clouds.url();
    for (id, configuration) in [
        (
            "manager",
            json!({ "type": "aws-secrets-manager", "region": "eu-central-1", "endpoint": url }),
        ),
        ("ssm", json!({ "type": "aws-ssm", "region": "eu-central-1", "endpoint": url })),
        (
            "gcp",
            json!({ "type": "gcp-secret-manager", "project_id": "acme-secrets", "endpoint": url }),
        ),
        ("azure", json!({ "type": "azure-key-vault", "url": url })),
        ("pods", json!({ "type": "kubernetes-secret" })),
    ] {
        let body = json!({ "id": id, "store_configuration": configuration });
        site.make(&["secret-stores"], &body).await;
    }
    let set = |store: &str, name: &str, reference: &str, version: &[&str]| {
        let set = ["set", "variable", "--store", store, "--ref", reference, name];
        site.server.canyon(&[&set[..], version].concat()).done();
    };
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let version = |text: &'static str| ["--ref-version", text];
    set("manager", "a", "shop/db#password", &[]);
    set("manager", "b", "shop/db#password", &version("AWSPREVIOUS"));
    set("ssm", "c", "/shop/db", &[]);
    set("ssm", "d", "/shop/db", &version("1"));
    set("gcp", "e", "db", &[]);
    set("azure", "f", "db", &[]);
    set("azure", "g", "db", &version("0123456789abcdef0123456789abcdef"));
    let declared: String = names.map(|name| format!("variable \"{name}\" {{}}\n")).concat();
    let all = names.map(|name| format!("var.{name}")).join(", ");
    let code = format!(
        "{declared}output \"all\" {{ value = nonsensitive(sha256(join(\" \", [{all}]))) }}"
    );
    let ended = site.run(&request(ENV, Some(inline(code)))).await;
    let log = || fs::read_to_string(site.server.path("clouds.log")).unwrap();
    assert_eq!(ended.status, "succeeded", "{ended:?}\n{}", log());
    let outputs = site.client.outputs(&ended.id.to_string()).await.unwrap();
    let values = "aws-manager-1 aws-manager-0 aws-parameter-1 aws-parameter-0 gcp-secret-1 azure-secret-1 azure-secret-0";
    let digest = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(values));
    assert_eq!(outputs["all"].value, Some(digest.into()), "{}", log());

    // Each store's refusal, with the identity.
    for (store, reference, said) in [
        (
            "manager",
            "ops/db",
            "as arn:aws:iam::123456789012:role/shop-plan: `ops/db` cannot be read in eu-central-1: the answer is 400: AccessDeniedException: User is not authorized",
        ),
        (
            "ssm",
            "/ops/db",
            "as arn:aws:iam::123456789012:role/shop-plan: `/ops/db` cannot be read in eu-central-1: the answer is 400: ParameterNotFound",
        ),
        (
            "gcp",
            "ops",
            "as shop-plan@acme-secrets.iam.gserviceaccount.com: `projects/acme-secrets/secrets/ops/versions/latest` cannot be read: the answer is 403: Permission denied",
        ),
        (
            "azure",
            "ops",
            "as application 66666666-7777-8888-9999-000000000000 of tenant 11111111-2222-3333-4444-555555555555: ",
        ),
        ("pods", "db#password", "as the job: the job does not run in a Kubernetes cluster"),
    ] {
        set(store, "z", reference, &[]);
        let code = inline("variable \"z\" {}\noutput \"z\" { value = \"z\" }".to_owned());
        let (class, message) = failure(&site.run(&request(ENV, Some(code))).await);
        assert_eq!(class, FailureClass::Config, "{message}");
        assert!(message.contains(said), "{message}\n{}", log());
    }
}

fn contains_secret(bytes: &[u8]) -> bool {
    SECRETS.iter().any(|part| bytes.windows(part.len()).any(|window| window == part.as_bytes()))
}
