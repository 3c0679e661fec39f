//! Variables that are kept: from the command line to the module, and where no secret may be found.

use crate::harness::deployments::{assert_succeeded, request};
use crate::harness::module::inline;
use crate::harness::searched::{files_without, until_no_job};
use crate::harness::site::{ENV, Site};
use std::path::Path;
use std::{fs, thread};

const PASSWORD: &str = "pa55-w0rd/of#shop";
const KEY: &str = "-----BEGIN KEY-----\nMIIBkept1234\n-----END KEY-----\n";

/// Repeats its variables in every form, also in an output, and waits until `go` exists.
fn telling(go: &Path) -> String {
    format!(
        r#"
variable "password" {{}}
variable "region" {{}}
variable "zones" {{ type = list(string) }}
resource "terraform_data" "tells" {{
  provisioner "local-exec" {{
    command = "echo '${{var.password}} ${{urlencode(var.password)}} ${{base64encode(var.password)}}'; echo \"$TLS_KEY\"; while ! [ -e '{}' ]; do sleep 0.05; done"
  }}
}}
output "url" {{ value = "postgres://shop:${{var.password}}@db" }}
output "region" {{ value = "${{var.region}} ${{join(",", var.zones)}}" }}
"#,
        go.display()
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_gets_what_is_kept_for_it_and_a_secret_is_found_nowhere_else() {
    let site = Site::new().await;
    let server = &site.server;
    for arguments in [
        &["region=us-east-1", "zones=[\"a\", \"b\"]"][..],
        &["--project", "shop", "region=eu-central-1"],
    ] {
        server.canyon(&[&["set", "variable"], arguments].concat()).done();
    }
    let secret = ["set", "variable", "--project", "shop", "--env", ENV, "--secret"];
    server.canyon_with(&[&secret[..], &["password"]].concat(), PASSWORD, &[]).done();
    fs::write(server.path("key.pem"), KEY).unwrap();
    let file = ["--kind", "environment", "--from-file", "key.pem", "TLS_KEY"];
    server.canyon(&[&secret[..], &file].concat()).done();
    fs::remove_file(server.path("key.pem")).unwrap();
    let explained = server.canyon(&["explain", "variables", "shop", ENV]);
    insta::assert_snapshot!(explained.done(), @r#"
    KIND         NAME      VALUE         FROM                  OVERRIDES
    terraform    password  ******        environment:shop/dev  -
    terraform    region    eu-central-1  project:shop          organization
    terraform    zones     ["a","b"]     organization          -
    environment  TLS_KEY   ******        environment:shop/dev  -
    "#);

    let go = server.path("go");
    let id = site.accept(&request(ENV, Some(inline(telling(&go))))).await;
    site.until(&id, "apply", |deployment| {
        deployment.attempts.first().is_some_and(|attempt| attempt.phase == "apply")
    })
    .await;
    // While the job runs: the arguments of no process have it.
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let arguments = fs::read(process.path().join("cmdline")).unwrap_or_default();
        assert!(!contains_secret(&arguments), "{:?}", String::from_utf8_lossy(&arguments));
    }
    fs::write(&go, "").unwrap();
    assert_succeeded(&site.end(&id).await);
    let log = site.log(&id).await;
    assert!(log.contains("the output `url` contains a secret variable"), "{log}");
    let outputs = site.client.outputs(&id).await.unwrap();
    assert_eq!(outputs["region"].value, Some("eu-central-1 a,b".into()));
    assert_eq!((&outputs["url"].value, outputs["url"].sensitive), (&None, true));

    // The table, the object store, the log of Canyon and what is left of the job.
    until_no_job(&server.data());
    let read = files_without(&PARTS, &server.data());
    assert!(read > 3, "{read} files were searched");
    for text in [log, server.log()] {
        assert!(!contains_secret(text.as_bytes()), "{text}");
    }
}

/// Of each secret and its encodings, what no other text has.
const PARTS: [&str; 3] = ["pa55-w0rd", "cGE1NS13MHJk", "MIIBkept1234"];

fn contains_secret(bytes: &[u8]) -> bool {
    PARTS.iter().any(|part| bytes.windows(part.len()).any(|window| window == part.as_bytes()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_in_a_file_of_the_module_never_wins_over_a_kept_one() {
    let site = Site::new().await;
    let server = &site.server;
    fs::create_dir(server.path("module")).unwrap();
    let code = "# of the team\nvariable /* kept */ \"region\" {}\nresource \"terraform_data\" \"r\" { input = var.region }\n\
                output \"region\" { value = terraform_data.r.output }\n";
    fs::write(server.path("module/main.tf"), code).unwrap();
    fs::write(server.path("module/zz.auto.tfvars"), "region = \"of the module\"\n").unwrap();
    server.canyon(&["set", "variable", "--project", "shop", "region=kept"]).done();
    server.canyon(&["deploy", "shop", ENV, "--module", "./module"]).done();
    let outputs = server.canyon(&["outputs", "shop", ENV, "--out", "json"]);
    assert!(outputs.done().contains("kept"), "{outputs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_set_variables_at_once_none_has_to_try_again() {
    let site = Site::new().await;
    let server = &site.server;
    thread::scope(|scope| {
        for n in 0..16 {
            let assignment = format!("v{n}={n}");
            scope.spawn(move || server.canyon(&["set", "variable", &assignment]).done().len());
        }
    });
    let listed = server.canyon(&["list", "variables"]);
    assert_eq!(listed.done().lines().filter(|line| line.contains(" v")).count(), 16, "{listed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_variable_is_shown_with_its_type_and_deleted() {
    let site = Site::new().await;
    let server = &site.server;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "[\n  { name = \"a\", size = 2 },\n]\n").unwrap();
    let path = file.path().to_str().unwrap();
    server.canyon(&["set", "variable", "--hcl", "--from-file", path, "zones"]).done();
    server.canyon(&["set", "variable", "--hcl", "size=7"]).done();
    server.canyon(&["set", "variable", "--secret", "password=hush-hush"]).done();
    let value = |name: &str| {
        let shown = server.canyon(&["get", "variable", name, "--jq", ".value"]);
        shown.done().trim().to_owned()
    };
    assert_eq!(value("size"), "7");
    assert_eq!(value("zones").split_whitespace().collect::<String>(), r#"[{"name":"a","size":2}]"#);
    let shown = server.canyon(&["get", "variable", "password"]);
    assert!(shown.done().contains("******") && !shown.done().contains("hush"), "{shown:?}");
    server.canyon(&["delete", "variable", "size", "zones"]).done();
    assert_eq!(server.canyon(&["get", "variable", "size"]).code, 7);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_variables_are_refused_with_what_to_do() {
    let site = Site::new().await;
    let said = [
        &["set", "variable", "--env", "dev", "a=1"][..],
        &["set", "variable", "--project", "shop", "--environment-type", "development", "a=1"],
        &["set", "variable", "--project", "shpo", "a=1"],
        &["set", "variable", "--runner", "laptop", "--project", "shop", "a=1"],
        &["set", "variable", "--runner", "lptop", "a=1"],
        &["set", "variable", "--secret", "pin=1234"],
        &["set", "variable", "--kind", "environment", "TF_VAR_a=1", "CANYON_X=1"],
        &["set", "variable", "a=1", "b"],
        &["unset", "variable", "none"],
        &["delete", "variable", "none", "--kind", "environment"],
        &["get", "variable", "--project", "shop", "none"],
        &["set", "variable", "--hcl", "a=[1,"],
        &["set", "variable", "--hcl", "--kind", "environment", "A=1"],
        &["explain", "variables", "shop", "prod"],
    ]
    .map(|arguments| {
        let result = site.server.canyon(arguments);
        format!("$ canyon {}\n{}\n", arguments.join(" "), result.snapshot())
    });
    insta::assert_snapshot!("wrong_variables", said.concat());
}
