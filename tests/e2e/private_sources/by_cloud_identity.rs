//! Repositories of AWS `CodeCommit` and of Azure Repos: jobs read them with their own identity, and no secret is kept.

use super::git_host::GitHost;
use super::{run, set};
use crate::harness::clouds::Clouds;
use crate::harness::deployments::{assert_succeeded, failure};
use crate::harness::module::{from, inline};
use crate::harness::programs;
use crate::harness::server::Server;
use crate::harness::site::{PROJECT, RUNNER, Site};
use canyon_domain::failure::FailureClass;
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Stdio};

const ROLE: &str = "arn:aws:iam::123456789012:role/shop-plan";
const APPLICATION: &str = "application 66666666-7777-8888-9999-000000000000 of tenant 11111111-2222-3333-4444-555555555555";

/// A site whose jobs have an identity at clouds, which the git host trusts.
async fn site(host: &GitHost) -> (Site, Clouds) {
    let certificate = host.path("ca.pem").display().to_string();
    let server = Server::start_with_settings(vec![("SSL_CERT_FILE", certificate)]).await;
    let clouds = Clouds::trusting(&server);
    host.trust_clouds(clouds.url());
    (Site::on(server, &clouds.job()).await, clouds)
}

/// A module with a child of another repository and one of a submodule. It tells what is left of the credentials.
fn trunk(child: &str) -> String {
    format!(
        r#"
module "a" {{ source = "git::{child}" }}
module "b" {{ source = "./shared" }}
resource "terraform_data" "looks" {{
  triggers_replace = timestamp()
  provisioner "local-exec" {{
    command = "echo settings: $(env | grep -c GIT_CONFIG); echo keys: $(find .. -name 'code_commit*' | wc -l)"
  }}
}}
output "names" {{ value = "${{module.a.name}}, ${{module.b.name}}" }}
"#
    )
}

fn add_all(host: &GitHost, folder: &str) {
    for name in ["branch", "shared"] {
        host.add(
            &format!("{folder}/{name}"),
            &format!("output \"name\" {{ value = \"{name}\" }}\n"),
        );
    }
    host.add(&format!("{folder}/trunk"), &trunk(&host.https(&format!("{folder}/branch"))));
    host.add_submodule(&format!("{folder}/trunk"), "shared", "../shared");
    host.add(&format!("{folder}/ops"), "");
}

/// Deploys the module with its children, and checks that nothing of `secrets` is anywhere.
async fn deploys(site: &Site, host: &GitHost, folder: &str) -> String {
    let ended = run(site, from(&format!("git::{}", host.https(&format!("{folder}/trunk"))))).await;
    assert_succeeded(&ended);
    let id = ended.id.to_string();
    let outputs = site.client.outputs(&id).await.unwrap();
    assert_eq!(outputs["names"].value, Some("branch, shared".into()));
    let log = site.log(&id).await;
    assert!(log.contains("settings: 0") && log.contains("keys: 0"), "{log}");
    log
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_signs_for_each_repository_of_code_commit_with_its_role() {
    let host = GitHost::start();
    let (site, clouds) = site(&host).await;
    add_all(&host, "v1/repos");
    host.accept_tokens(&[("/v1/repos/", "aws")]);
    let repositories = host.https("v1/repos");
    set(&site, &["--cloud-identity", "aws", &repositories], "");
    // The longest address counts: this token is never sent to these repositories.
    set(&site, &[&host.https("")], "token-of-other-repositories");
    let listed = site.server.canyon(&["list", "git-credentials", "--project", PROJECT]);
    let row = listed.done().lines().find(|line| line.starts_with(&repositories)).unwrap();
    let columns: Vec<_> = row.split_whitespace().take(4).collect();
    assert_eq!(columns, [&repositories, "project:shop", "cloud_identity", "aws"]);

    let log = deploys(&site, &host, "v1/repos").await;
    let granted = clouds.granted().await;
    let (key, session) = granted["sessions"].as_object().unwrap().iter().next().unwrap();
    let text = |name: &str| session[name].as_str().unwrap().to_owned();
    let (secret, token) = (text("secret"), text("token"));
    for text in [&log, &site.server.log()] {
        assert!(!text.contains(&secret) && !text.contains(&token), "{text}");
    }

    // The failure has the server's words, and says as whom the job has asked; for a child module too.
    let who = format!("`{repositories}` of project:shop was used, as {ROLE}");
    for (name, said) in
        [("ops", "not authorized to perform: codecommit:GitPull"), ("gone", "not found")]
    {
        let address = host.https(&format!("v1/repos/{name}"));
        let (class, message) = failure(&run(&site, from(&format!("git::{address}"))).await);
        assert_eq!(class, FailureClass::User, "{message}");
        assert!(message.contains(said) && message.contains(&who), "{message}");
        let child = format!("module \"a\" {{ source = \"git::{address}\" }}\n");
        let (_, message) = failure(&run(&site, inline(child)).await);
        assert!(message.contains(&format!("`{repositories}` (as {ROLE})")), "{message}");
    }

    // The nearer address counts: its token is refused, and nothing is signed for it.
    host.accept_tokens(&[("/v1/repos/trunk", "robot:right-token"), ("/v1/repos/", "aws")]);
    set(&site, &["--username", "robot", &host.https("v1/repos/trunk")], "wrong-token");
    let (_, message) =
        failure(&run(&site, from(&format!("git::{}", host.https("v1/repos/trunk")))).await);
    assert!(message.contains("v1/repos/trunk` of project:shop was used: check"), "{message}");
    set(&site, &["--username", "robot", &host.https("v1/repos/trunk")], "right-token");
    deploys(&site, &host, "v1/repos").await;

    the_host_accepts_aws_s_own_helper_and_no_other_signature(&host, key, &secret, &token);
}

/// The check of these tests agrees with AWS's own command line, and accepts no signature for another repository or time.
fn the_host_accepts_aws_s_own_helper_and_no_other_signature(
    host: &GitHost,
    key: &str,
    secret: &str,
    token: &str,
) {
    let aws = |command: &mut Command, input: &str| {
        command.env("AWS_ACCESS_KEY_ID", key).env("AWS_SECRET_ACCESS_KEY", secret);
        command.env("AWS_SESSION_TOKEN", token).env("AWS_DEFAULT_REGION", "eu-central-1");
        command.env("GIT_SSL_CAINFO", host.path("ca.pem")).env("GIT_TERMINAL_PROMPT", "0");
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let program = programs::given("CANYON_TEST_AWS");
    let helper = [program.to_str().unwrap(), "codecommit", "credential-helper"];
    let list = |helper: &str, name: &str| {
        let mut git = Command::new("git");
        git.args(["-c", "credential.useHttpPath=true", "-c", "credential.helper="]);
        git.args(["-c", &format!("credential.helper={helper}"), "ls-remote"]);
        let done = aws(git.arg(host.https(&format!("v1/repos/{name}"))), "");
        (done.status.success(), String::from_utf8(done.stderr).unwrap())
    };
    let own =
        format!("!f() {{ test $1 != get || {} get --ignore-host-check; }}; f", helper.join(" "));
    assert_eq!(list(&own, "branch"), (true, String::new()));

    let address = host.https("v1/repos/branch");
    let (name, path) = address.strip_prefix("https://").unwrap().split_once('/').unwrap();
    let asked = format!("protocol=https\nhost={name}\npath={path}\n");
    let mut command = Command::new(helper[0]);
    let done = aws(command.args(&helper[1..]).args(["get", "--ignore-host-check"]), &asked);
    let answer = String::from_utf8(done.stdout).unwrap();
    let (username, password) = answer.trim().split_once("\npassword=").unwrap();
    let fixed = |password: &str| format!("!printf '%s\\n' '{username}' 'password={password}' #");
    assert_eq!(list(&fixed(password), "branch"), (true, String::new()));
    for (password, name, said) in [
        (password.to_owned(), "shared", "does not match the signature you provided"),
        (password.replacen("20", "19", 1), "branch", "Signature expired"),
        (password.replacen('Z', "", 1), "branch", "is no signature"),
    ] {
        let (is_read, stderr) = list(&fixed(&password), name);
        assert!(!is_read && stderr.contains(said), "{stderr}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_reads_azure_repos_with_a_token_of_its_application() {
    let host = GitHost::start();
    let (site, clouds) = site(&host).await;
    add_all(&host, "acme/shop/_git");
    host.accept_tokens(&[("/acme/", "azure")]);
    let repositories = host.https("acme");
    set(&site, &["--cloud-identity", "azure", &repositories], "");
    let log = deploys(&site, &host, "acme/shop/_git").await;
    let granted = clouds.granted().await;
    for token in granted["azure"].as_object().unwrap().keys() {
        assert!(!log.contains(token) && !site.server.log().contains(token), "{log}");
    }
    let ops = host.https("acme/shop/_git/ops");
    let (class, message) = failure(&run(&site, from(&format!("git::{ops}"))).await);
    assert_eq!(class, FailureClass::User, "{message}");
    let who = format!(
        "the git credential for `{repositories}` of project:shop was used, as {APPLICATION}"
    );
    assert!(message.contains("TF401019") && message.contains(&who), "{message}");

    // Entra refuses the application: the failure has its words, and the run of a module that needs no git has a warning.
    let other = "88888888-7777-8888-9999-000000000000";
    let mut job: Value = clouds.job();
    job["identity"]["azure"]["client_id"] = other.into();
    let configuration = format!("runner_configuration={{\"type\":\"local\",\"job\":{job}}}");
    site.server.canyon(&["update", "runner", RUNNER, "--set", &configuration]).done();
    let refused = format!("Microsoft Entra refuses the application {other}");
    let trunk = host.https("acme/shop/_git/trunk");
    let child = inline(format!("module \"a\" {{ source = \"git::{trunk}\" }}\n"));
    for module in [from(&format!("git::{trunk}")), child] {
        let (_, message) = failure(&run(&site, module).await);
        assert!(message.contains(&refused) && message.contains("AADSTS700016"), "{message}");
    }
    let without_git = run(&site, inline(String::new())).await;
    assert_succeeded(&without_git);
    let log = site.log(&without_git.id.to_string()).await;
    assert!(log.contains("gives no token") && log.contains(&refused), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_identity_is_set_for_the_servers_of_its_cloud_alone() {
    let site = Site::new().await;
    let said = [
        &["https://git.example.com", "--cloud-identity", "aws"][..],
        &["https://git-codecommit.eu-west-1.amazonaws.com/network", "--cloud-identity", "aws"],
        &["https://dev.azure.com.evil.example/acme", "--cloud-identity", "azure"],
        &["https://dev.azure.com/acme", "--cloud-identity", "gcp"],
        &["https://dev.azure.com/acme", "--cloud-identity", "azure", "--username", "robot"],
        &["https://dev.azure.com/acme", "--cloud-identity", "azure", "--description", "of the job"],
        &["https://git-codecommit.eu-west-1.amazonaws.com", "--cloud-identity", "aws"],
    ]
    .map(|arguments| {
        let result = site.server.canyon(&[&["set", "git-credential"], arguments].concat());
        format!("$ canyon set git-credential {}\n{}\n", arguments.join(" "), result.snapshot())
    });
    insta::assert_snapshot!("an_identity_at_a_cloud", said.concat());
}
