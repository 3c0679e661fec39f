//! Modules of private repositories: over HTTPS with a token, over SSH with a key, with the token of a GitHub App; for the
//! module and for its child modules alike.

mod by_cloud_identity;
mod by_oci_registry;
mod git_host;
mod oci_registry;

use crate::harness::deployments::{assert_succeeded, failure, request};
use crate::harness::module::{from, inline};
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use age::secrecy::ExposeSecret as _;
use age::x25519::Identity;
use canyon_api::deployment::{Deployment, DeploymentCreateBody};
use canyon_domain::failure::FailureClass;
use canyon_domain::job::Module;
use git_host::GitHost;
use serde_json::json;
use std::path::Path;
use std::{fs, io};

const TOKEN: &str = "glpat-of-shop-7734";
/// `robot:` and the token, in base64, as it is in the header of a request.
const HEADER: &str = "cm9ib3Q6Z2xwYXQtb2Ytc2hvcC03NzM0";

/// A site whose jobs trust the host's certificate, as in a company with its own authority.
async fn site(host: &GitHost) -> Site {
    let certificate = host.path("ca.pem").display().to_string();
    let server = Server::start_with_settings(vec![("SSL_CERT_FILE", certificate)]).await;
    Site::on(server, &json!({})).await
}

/// Runs a module to its end, whatever that is.
async fn run(site: &Site, module: Module) -> Deployment {
    site.run(&request(ENV, Some(module))).await
}

/// Sets a git credential of the project on the command line.
fn set(site: &Site, arguments: &[&str], stdin: &str) {
    let set = ["set", "git-credential", "--project", PROJECT];
    site.server.canyon_with(&[&set[..], arguments].concat(), stdin, &[]).done();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_and_its_children_come_from_private_repositories() {
    let host = GitHost::start();
    let site = site(&host).await;
    let leaf = "variable \"name\" {}\noutput \"name\" { value = \"leaf ${var.name}\" }\n";
    host.add("leaf.git", leaf);
    host.add("branch.git", leaf);
    let (https, ssh) = (host.https("branch.git"), host.ssh("leaf.git"));
    let code = format!(
        r#"
module "a" {{
  source = "git::{https}"
  name   = "a"
}}
module "b" {{
  source = "git::{ssh}"
  name   = "b"
}}
resource "terraform_data" "looks" {{
  provisioner "local-exec" {{
    command = "echo settings: $(env | grep -cE GIT_CONFIG\\|GIT_SSH_); echo keys: $(find .. -name 'key-*' | wc -l)"
  }}
}}
module "c" {{
  source = "./shared"
  name   = "c"
}}
output "names" {{ value = "${{module.a.name}}, ${{module.b.name}}, ${{module.c.name}}" }}
"#
    );
    host.add("trunk.git", &code);
    host.add_submodule("trunk.git", "shared", "../branch.git");
    host.accept_tokens(&[
        ("/trunk.git", &format!("robot:{TOKEN}")),
        ("/branch.git", &format!("robot:{TOKEN}")),
    ]);
    let module = || from(&format!("git::{}", host.https("trunk.git")));

    // Without a credential the failure says which one to set.
    let (class, message) = failure(&run(&site, module()).await);
    assert_eq!(class, FailureClass::User);
    let command = "canyon set git-credential --project shop";
    let command = format!("{command} {}", host.https("trunk.git"));
    assert!(message.contains(&command), "{message}");

    let child = format!("module \"a\" {{ source = \"git::{}\" }}\n", host.https("branch.git"));
    let (_, message) = failure(&run(&site, inline(child)).await);
    assert!(message.contains("no git credential is kept for the job"), "{message}");

    // A wrong one for the whole host: the failure names it.
    site.server
        .canyon_with(&["set", "git-credential", &host.https("")], "not-this-token", &[])
        .done();
    let (_, message) = failure(&run(&site, module()).await);
    let named = format!(
        "the git credential for `{}` of organization",
        host.https("").trim_end_matches('/')
    );
    assert!(message.contains(&named), "{message}");

    // The nearer address counts.
    for name in ["trunk", "branch"] {
        set(&site, &["--username", "robot", &host.https(name)], TOKEN);
    }
    let (key, known) = (host.path("id"), host.path("known_hosts"));
    let ssh = [
        "--ssh-key",
        key.to_str().unwrap(),
        "--known-hosts",
        known.to_str().unwrap(),
        &host.ssh("leaf"),
    ];
    fs::write(&known, host.known_hosts("other_key.pub")).unwrap();
    set(&site, &ssh, "");
    let unknown = run(&site, module()).await;
    let log = site.log(&unknown.id.to_string()).await;
    assert!(log.contains("Host key verification failed"), "{log}");

    fs::write(&known, host.known_hosts("host_key.pub")).unwrap();
    set(&site, &ssh, "");
    let ended = run(&site, module()).await;
    assert_succeeded(&ended);
    let id = ended.id.to_string();
    let outputs = site.client.outputs(&id).await.unwrap();
    assert_eq!(outputs["names"].value, Some("leaf a, leaf b, leaf c".into()));
    let log = site.log(&id).await;
    assert!(log.contains("settings: 0") && log.contains("keys: 0"), "{log}");

    let listed =
        site.server.canyon(&["list", "git-credentials", "--project", PROJECT, "--out", "json"]);
    let key = fs::read_to_string(host.path("id")).unwrap();
    let key_line = key.lines().nth(2).unwrap();
    for text in [log.as_bytes(), site.server.log().as_bytes(), listed.done().as_bytes()] {
        assert_no_secret(text, key_line);
    }
    let mut files = 0;
    search(&site.server.data(), key_line, &mut files);
    assert!(files > 3, "{files} files were searched");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_reads_with_the_token_of_a_github_app_or_says_why_it_has_none() {
    let host = GitHost::start();
    let site = site(&host).await;
    fs::create_dir(host.path("repositories/app")).unwrap();
    host.add("app/net.git", "output \"x\" { value = 1 }\n");
    let key = host.path("app-key.pem");
    let app = |installation: &str| {
        let (key, address) = (key.to_str().unwrap(), host.https("app"));
        let app = ["--github-app", "1234", "--installation", installation];
        set(&site, &[&app[..], &["--private-key", key, &address]].concat(), "");
    };
    let module = || from(&format!("git::{}", host.https("app/net.git")));
    app("5678");
    assert_succeeded(&run(&site, module()).await);
    app("9999");
    let refused = run(&site, module()).await;
    let (class, message) = failure(&refused);
    assert_eq!(class, FailureClass::User);
    assert!(message.contains("installations/9999/access_tokens` answers 401"), "{message}");
    let log = site.log(&refused.id.to_string()).await;
    assert!(log.contains("gives no token"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_follows_no_redirect_to_another_host() {
    let host = GitHost::start();
    let site = site(&host).await;
    host.add("moved.git", "output \"x\" { value = 1 }\n");
    let child =
        || inline(format!("module \"a\" {{ source = \"git::{}\" }}\n", host.https("moved.git")));
    // Without a credential a redirect is followed, and the other host serves the module.
    assert_succeeded(&run(&site, child()).await);
    fs::remove_file(host.path("visits")).unwrap();

    set(&site, &[&host.https("")], TOKEN);
    let (_, message) = failure(&run(&site, child()).await);
    assert!(message.contains("redirect") || message.contains("302"), "{message}");
    run(&site, from(&format!("git::{}", host.https("moved.git")))).await;
    assert!(!host.path("visits").exists(), "{:?}", fs::read_to_string(host.path("visits")));
}

/// A module that starts a program as soon as OpenTofu reads its state or git looks for settings in its folder: the program
/// appends the environment and the keys to `loot`, and a line to `ran`.
fn thief(module: &Path, loot: &Path, child: &str) {
    let steal = format!(
        "(env | grep -E 'GIT_|Basic'; cat ../git/key-* ../../git/key-*) >> {} 2>/dev/null",
        loot.display()
    );
    let key = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
    let code = format!(
        r#"
terraform {{
  encryption {{
    key_provider "external" "e" {{
      command = ["/bin/sh", "-c", "{steal}; touch {ran}; echo '{{\"magic\":\"OpenTofu-External-Key-Provider\",\"version\":1}}'; cat > /dev/null; echo '{{\"keys\":{{\"encryption_key\":\"{key}\",\"decryption_key\":\"{key}\"}}}}'"]
    }}
    method "aes_gcm" "m" {{ keys = key_provider.external.e }}
    method "unencrypted" "u" {{}}
    state {{
      method = method.aes_gcm.m
      fallback {{ method = method.unencrypted.u }}
    }}
  }}
}}
module "child" {{ source = "git::{child}" }}
"#,
        ran = loot.with_extension("ran").display()
    );
    for folder in ["objects", "refs"] {
        fs::create_dir_all(module.join(folder)).unwrap();
        fs::write(module.join(folder).join("keep"), "").unwrap();
    }
    let settings = format!(
        "[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tsshCommand = \"{steal}\"\n[credential]\n\thelper = \"!f() {{ {steal}; }}; f\"\n"
    );
    fs::write(module.join("config"), settings).unwrap();
    fs::write(module.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(module.join("main.tf"), code).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn no_program_of_a_module_finds_a_credential_while_modules_are_fetched() {
    let host = GitHost::start();
    let site = site(&host).await;
    host.add("branch.git", "output \"x\" { value = 1 }\n");
    host.accept_tokens(&[("/branch.git", &format!("robot:{TOKEN}"))]);
    set(&site, &["--username", "robot", &host.https("branch")], TOKEN);
    let (key, known) = (host.path("id"), host.path("known_hosts"));
    fs::write(&known, host.known_hosts("host_key.pub")).unwrap();
    let ssh = [
        "--ssh-key",
        key.to_str().unwrap(),
        "--known-hosts",
        known.to_str().unwrap(),
        "ssh://127.0.0.1",
    ];
    set(&site, &ssh, "");

    let loot = site.server.path("loot");
    for (name, child) in [("known", host.https("branch.git")), ("unknown", host.https("other.git"))]
    {
        let module = site.server.path(name);
        fs::create_dir(&module).unwrap();
        thief(&module, &loot, &child);
        let module = format!("./{name}");
        let done = site.server.canyon(&["deploy", PROJECT, ENV, "--yes", "--module", &module]);
        assert_eq!(done.code == 0, name == "known", "{done:?}");
    }
    assert!(loot.with_extension("ran").exists(), "the key provider has run");
    let key = fs::read_to_string(host.path("id")).unwrap();
    let stolen = fs::read(&loot).unwrap_or_default();
    assert_no_secret(&stolen, key.lines().nth(2).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_words_of_a_host_that_gives_no_module_are_in_the_encrypted_log_alone() {
    let (host, identity) = (GitHost::start(), Identity::generate());
    let site = site(&host).await;
    host.add("leaf.git", "output \"x\" { value = 1 }\n");
    set(&site, &[&host.https("")], "not-the-token");
    let module = from(&format!("git::{}", host.https("leaf.git")));
    let in_clear = request(ENV, Some(module.clone()));
    let recipient = Some(identity.to_public().to_string());
    let encrypted =
        DeploymentCreateBody { encrypted_logs_recipient: recipient, ..in_clear.clone() };
    let words = "Authentication failed";
    let (_, message) = failure(&site.run(&in_clear).await);
    assert!(message.contains(words), "{message}");
    let ended = site.run(&encrypted).await;
    let (_, message) = failure(&ended);
    assert!(!message.contains(words), "{message}");
    assert!(message.ends_with("; the encrypted log says why"), "{message}");
    let key = site.server.path("key");
    fs::write(&key, identity.to_string().expose_secret()).unwrap();
    let key = key.display().to_string();
    let log = site.server.canyon(&["logs", &ended.id.to_string(), "--identity", &key]);
    assert!(log.done().contains(words), "{log:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_git_credentials_are_refused_with_what_to_do() {
    let site = Site::new().await;
    let said = [
        &["set", "git-credential", "https://user:pass@git.example.com"][..],
        &["set", "git-credential", "ssh://git.example.com"],
        &["set", "git-credential", "git.example.com", "--username", "a:b"],
        &["set", "git-credential", "git.example.com", "--project", "shpo"],
        &["set", "git-credential", "git.example.com", "--ssh-key", "id"],
        &["unset", "git-credential", "git.example.com"],
    ]
    .map(|arguments| {
        let result = site.server.canyon_with(arguments, "a-token\n", &[]);
        format!("$ canyon {}\n{}\n", arguments.join(" "), result.snapshot())
    });
    insta::assert_snapshot!("wrong_git_credentials", said.concat());
}

fn assert_no_secret(bytes: &[u8], key_line: &str) {
    for secret in [TOKEN, HEADER, key_line] {
        let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!found, "{secret} in {}", String::from_utf8_lossy(bytes));
    }
}

/// Searches what exists of `folder`: the server removes files meanwhile.
fn search(folder: &Path, key_line: &str, read: &mut u32) {
    let Some(entries) = unless_removed(fs::read_dir(folder)) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Some(kind) = unless_removed(entry.file_type()) else { continue };
        if kind.is_dir() {
            search(&path, key_line, read);
        } else if kind.is_file()
            && let Some(bytes) = unless_removed(fs::read(&path))
        {
            *read += 1;
            assert_no_secret(&bytes, key_line);
        }
    }
}

fn unless_removed<T>(found: io::Result<T>) -> Option<T> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        found => Some(found.unwrap()),
    }
}
