//! Module packages of a private OCI registry: the module itself and its child modules, with OpenTofu's own credentials.

use super::git_host::GitHost;
use super::oci_registry::OciRegistry;
use super::{TOKEN, run, set};
use crate::harness::deployments::{assert_succeeded, failure};
use crate::harness::module::{from, inline};
use crate::harness::server::Server;
use crate::harness::site::{ENV, PROJECT, Site};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use canyon_domain::failure::FailureClass;
use serde_json::{Value, json};
use std::fs;

/// A site whose jobs have a configuration of OpenTofu, and look for those of containers in a folder; both do not exist yet.
async fn site(host: &GitHost) -> Site {
    let certificate = host.path("ca.pem").display().to_string();
    let server = Server::start_with_settings(vec![("SSL_CERT_FILE", certificate)]).await;
    let environment = json!({
        "TF_CLI_CONFIG_FILE": server.path("tofurc"), "XDG_CONFIG_HOME": server.path("config"),
    });
    Site::on(server, &json!({ "environment": environment })).await
}

fn write_tofurc(site: &Site, registry: &OciRegistry, password: &str) {
    let text = format!(
        "oci_credentials \"{}\" {{\n  username = \"robot\"\n  password = \"{password}\"\n}}\n",
        registry.address()
    );
    fs::write(site.server.path("tofurc"), text).unwrap();
}

/// The module of a deployment, as the command line shows it.
fn module_of(site: &Site, id: &str) -> Value {
    let shown = site.server.canyon(&["get", "deployment", id, "--out", "json"]);
    let shown: Value = serde_json::from_str(shown.done()).unwrap();
    shown["module"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_and_its_children_come_from_a_private_registry_and_a_rollback_from_the_same_digest()
 {
    let host = GitHost::start();
    let (site, registry) = (site(&host).await, OciRegistry::start(&host));
    let output = |text: &str| format!("output \"name\" {{ value = \"{text}\" }}\n");
    host.add("branch.git", &output("branch"));
    host.accept_tokens(&[("/branch.git", &format!("robot:{TOKEN}"))]);
    set(&site, &["--username", "robot", &host.https("branch")], TOKEN);
    registry.push("acme/leaf", "1", &json!({ "main.tf": output("leaf") }));
    let network = |name: &str| {
        let code = format!(
            r#"
module "a" {{ source = "../shared" }}
module "b" {{ source = "git::{}" }}
module "c" {{ source = "oci://{}/acme/leaf?tag=1" }}
output "names" {{ value = "${{module.a.name}}, ${{module.b.name}}, ${{module.c.name}}" }}
"#,
            host.https("branch.git"),
            registry.address()
        );
        json!({
            "main.tf": "not the module", "modules/eu/main.tf": code, "modules/shared/main.tf": output(name),
            // Of no use to a module that wants to change what git does.
            "modules/eu/.git/config": "[core]\n\tsshCommand = false\n",
        })
    };
    let first = registry.push("acme/network", "1.2.0", &network("first"));
    let address = format!("oci://{}/acme/network//modules/eu?tag=1.2.0", registry.address());

    // In the words of the registry, without and with wrong credentials.
    for (password, said) in [
        (None, "basic credential not found"),
        (Some("wrong-password"), "401: unauthorized: authentication required"),
    ] {
        if let Some(password) = password {
            write_tofurc(&site, &registry, password);
        }
        let (class, message) = failure(&run(&site, from(&address)).await);
        assert_eq!(class, FailureClass::User, "{message}");
        for part in [&format!("cannot fetch `{address}`"), said, "`oci_credentials`"] {
            assert!(message.contains(part), "{message}");
        }
        let child = inline(format!("module \"a\" {{ source = \"{address}\" }}\n"));
        let (_, message) = failure(&run(&site, child).await);
        assert!(message.contains(said), "{message}");
    }

    write_tofurc(&site, &registry, "right-password");
    let ended = run(&site, from(&address)).await;
    assert_succeeded(&ended);
    let id = ended.id.to_string();
    let outputs = site.client.outputs(&id).await.unwrap();
    assert_eq!(outputs["names"].value, Some("first, branch, leaf".into()));
    let module = module_of(&site, &id);
    assert_eq!((&module["source"], &module["digest"]), (&json!(address), &json!(first)));
    assert_eq!(module["commit"], Value::Null);

    // The tag moves, and the rollback runs the former package.
    let second = registry.push("acme/network", "1.2.0", &network("second"));
    let ended = run(&site, from(&address)).await;
    assert_succeeded(&ended);
    let outputs = site.client.outputs(&ended.id.to_string()).await.unwrap();
    assert_eq!(outputs["names"].value, Some("second, branch, leaf".into()));
    assert_eq!(module_of(&site, &ended.id.to_string())["digest"], json!(second));
    site.server.canyon(&["rollback", PROJECT, ENV, "--yes"]).done();
    let last = site.server.canyon(&["list", "deployments", "--project", PROJECT, "--out", "json"]);
    let last: Value = serde_json::from_str(last.done()).unwrap();
    let module = module_of(&site, last[0]["id"].as_str().unwrap());
    let pinned =
        format!("oci://{}/acme/network//modules/eu?digest=sha256:{first}", registry.address());
    assert_eq!((&module["source"], &module["digest"]), (&json!(pinned), &json!(first)));

    // A tag that is not there, a folder that is not there, a repository that is not there.
    for (source, said) in [
        (address.replace("1.2.0", "9.9.9"), "acme/network:9.9.9: not found; check the repository"),
        (address.replace("modules/eu", "modules/us"), "modules/us"),
        (address.replace("acme/network", "acme/gone"), "not found"),
    ] {
        let (class, message) = failure(&run(&site, from(&source)).await);
        assert_eq!(class, FailureClass::User, "{message}");
        assert!(message.contains(said), "{message}");
    }
    // A private child of a package names the credentials for git.
    set(&site, &["--username", "robot", &host.https("branch")], "not-this-token");
    let (_, message) = failure(&run(&site, from(&address)).await);
    assert!(message.contains("the job has git credentials for"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_other_container_programs_count() {
    let host = GitHost::start();
    let (site, registry) = (site(&host).await, OciRegistry::start(&host));
    registry.push(
        "acme/leaf",
        "latest",
        &json!({ "main.tf": "output \"name\" { value = \"leaf\" }\n" }),
    );
    let pair = STANDARD.encode("robot:right-password");
    let auth = json!({ "auths": { registry.address(): { "auth": pair } } });
    fs::create_dir_all(site.server.path("config/containers")).unwrap();
    fs::write(site.server.path("config/containers/auth.json"), auth.to_string()).unwrap();
    let ended = run(&site, from(&format!("oci://{}/acme/leaf", registry.address()))).await;
    assert_succeeded(&ended);
    let outputs = site.client.outputs(&ended.id.to_string()).await.unwrap();
    assert_eq!(outputs["name"].value, Some("leaf".into()));
}
