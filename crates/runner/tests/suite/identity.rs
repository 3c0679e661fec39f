//! The job's identity at the clouds, as the module's own programs see it.

use crate::server::{CODE, Home, Server, TOKEN, code};
use canyon_api::attempt::ResultStatus;
use canyon_domain::failure::{FailureClass, Phase};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

const GCP: &str =
    "https://iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b";

/// A program that OpenTofu runs whenever it reads state or plans: it prints what it finds, and a key.
const PROBE: &str = r#"#!/bin/bash
printf '{"magic":"OpenTofu-External-Key-Provider","version":1}\n'
cat > /dev/null
{
  echo "== $(cat "$AWS_WEB_IDENTITY_TOKEN_FILE")"
  env | sort
  cat "$GOOGLE_APPLICATION_CREDENTIALS"; echo
  stat -c '%a %n' "$(dirname "$AWS_WEB_IDENTITY_TOKEN_FILE")"/*
  cat /proc/$PPID/environ | tr '\0' '\n'
  grep -rIl -e attempt-token -e '\.apply-' "$HOME" 2> /dev/null | sed 's/^/FOUND /'
} >> SEEN
key=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
printf '{"keys":{"encryption_key":"%s","decryption_key":"%s"},"meta":{"external_data":{}}}' $key $key
"#;

struct World {
    home: Home,
    seen: PathBuf,
}

impl World {
    fn new() -> Self {
        let home = Home::new();
        let (seen, probe) = (home.folder.path().join("seen"), home.folder.path().join("probe"));
        std::fs::write(&probe, PROBE.replace("SEEN", &seen.display().to_string())).unwrap();
        std::fs::set_permissions(&probe, PermissionsExt::from_mode(0o700)).unwrap();
        Self { home, seen }
    }

    /// A module whose probe runs from the first read of the state on.
    fn module(&self, rest: &str) -> String {
        let probe = self.home.folder.path().join("probe");
        format!(
            r#"terraform {{
              encryption {{
                key_provider "external" "probe" {{ command = ["{}"] }}
                method "aes_gcm" "probe" {{ keys = key_provider.external.probe }}
                state {{ method = method.aes_gcm.probe }}
                plan {{ method = method.aes_gcm.probe }}
              }}
            }}
            {rest}"#,
            probe.display()
        )
    }

    fn seen(&self) -> String {
        std::fs::read_to_string(&self.seen).unwrap_or_default()
    }

    fn server(&self, rest: &str, changes: &Value) -> Server {
        let mut job = self.home.job(&self.module(rest), &json!({"identity": identity()}));
        for (name, value) in changes.as_object().unwrap() {
            job[name] = value.clone();
        }
        Server::start(job)
    }
}

fn identity() -> Value {
    json!({
        "aws": {
            "role_arn": "arn:aws:iam::123456789012:role/apply",
            "plan_role_arn": "arn:aws:iam::123456789012:role/plan", "region": "eu-west-1",
        },
        "gcp": {
            "audience": GCP, "service_account": "apply@p.iam.gserviceaccount.com",
            "plan_service_account": "plan@p.iam.gserviceaccount.com", "project_id": "p-1",
        },
        "azure": {
            "tenant_id": "00000000-0000-7000-8000-00000000000a",
            "client_id": "00000000-0000-7000-8000-00000000000b",
            "plan_client_id": "00000000-0000-7000-8000-00000000000c",
            "subscription_id": "00000000-0000-7000-8000-00000000000d",
        },
        "tokens": [{ "name": "vault", "audience": "https://vault.example.com" }],
    })
}

const ONE: &str = "resource \"terraform_data\" \"a\" {}";

#[test]
fn a_plan_has_the_identity_for_plans_and_an_apply_the_one_for_applies() {
    let world = World::new();
    let server = world.server(ONE, &json!({}));
    let mut command = world.home.command(&server);
    // Variables that a platform may set, and that would take precedence over the job's own identity.
    let runner = command
        .env("AWS_ACCESS_KEY_ID", "AKIAPLATFORM")
        .env("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials")
        .env("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/pod")
        .env("ARM_CLIENT_SECRET", "platform-secret")
        .env("GOOGLE_CREDENTIALS", "{}")
        .spawn()
        .unwrap();
    assert_eq!(code(runner), 0, "{}", server.plane().log());
    let seen = world.seen();
    let outputs: Vec<&str> = seen.split("== header.").skip(1).collect();
    let (plan, apply): (Vec<&str>, Vec<&str>) =
        outputs.iter().partition(|output| output.starts_with("plan-"));
    assert!(!plan.is_empty() && !apply.is_empty() && plan.len() + apply.len() == outputs.len());
    assert!(outputs.is_sorted_by_key(|output| output.starts_with("apply-")), "{seen}");
    for (outputs, phase, client) in [(plan, "plan", "c"), (apply, "apply", "b")] {
        for output in outputs {
            for line in [
                &format!("AWS_ROLE_ARN=arn:aws:iam::123456789012:role/{phase}"),
                "AWS_ROLE_SESSION_NAME=0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000",
                "AWS_REGION=eu-west-1",
                "AWS_EC2_METADATA_DISABLED=true",
                "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://169.254.170.23/v1/credentials",
                "GOOGLE_PROJECT=p-1",
                "ARM_USE_OIDC=true",
                &format!("ARM_CLIENT_ID=00000000-0000-7000-8000-00000000000{client}"),
                &format!("AZURE_CLIENT_ID=00000000-0000-7000-8000-00000000000{client}"),
                "ARM_TENANT_ID=00000000-0000-7000-8000-00000000000a",
                "ARM_SUBSCRIPTION_ID=00000000-0000-7000-8000-00000000000d",
            ] {
                assert!(output.lines().any(|found| found == line), "{line}: {output}");
            }
            let account = format!("/serviceAccounts/{phase}@p.iam.gserviceaccount.com:generate");
            let has_provider = output.contains("\"//iam.googleapis.com/");
            assert!(output.contains(&account) && has_provider, "{output}");
            assert_eq!(output.matches("\n600 ").count(), 5, "{output}");
            for overriding in ["AKIAPLATFORM", "platform-secret", "GOOGLE_CREDENTIALS"] {
                assert!(!output.contains(overriding), "{overriding}");
            }
        }
    }
    let plane = server.plane();
    let given = |phase: &str| plane.tokens.iter().filter(|given| given.1 == phase).count();
    assert_eq!((given("plan"), given("apply")), (4, 4), "{:?}", plane.tokens);
}

#[test]
fn a_hostile_module_finds_no_secret_during_its_plan_except_the_tokens_of_plans() {
    let world = World::new();
    let server = world.server(ONE, &json!({"plan_only": true}));
    assert_eq!(code(world.home.start(&server)), 0, "{}", server.plane().log());
    let seen = world.seen();
    assert!(seen.contains("== header.plan-"), "the probe ran: {seen}");
    for hidden in [TOKEN, CODE, "FOUND", "CANYON_CLAIM", "CANYON_API", "apply-"] {
        assert!(!seen.contains(hidden), "{hidden}: {seen}");
    }
    assert!(server.plane().tokens.iter().all(|given| given.1 == "plan"));
}

#[test]
fn tokens_are_renewed_through_an_outage_and_none_is_in_the_log() {
    let world = World::new();
    let rest = r#"resource "terraform_data" "slow" {
      provisioner "local-exec" {
        command = "for i in $(seq 20); do cat $CANYON_TOKEN_FILE_VAULT; echo; sleep 0.5; done"
      }
    }"#;
    let server = world.server(rest, &json!({}));
    server.plane().token_life = 2;
    let runner = world.home.start(&server);
    server.wait_until("the apply reads", |plane| plane.log().contains("header.apply-"));
    server.plane().no_tokens = Some(503);
    std::thread::sleep(Duration::from_secs(3));
    server.plane().no_tokens = None;
    let before = server.plane().tokens.len();
    assert_eq!(code(runner), 0, "{}", server.plane().log());
    let plane = server.plane();
    assert!(plane.tokens.len() > before + 4, "{:?}", plane.tokens);
    let log = plane.log();
    let mut read: Vec<&str> =
        log.lines().filter_map(|line| line.split_once("header.apply-")).map(|(_, it)| it).collect();
    assert_eq!(read.len(), 20, "{log}");
    read.dedup();
    assert!(read.len() >= 3, "{read:?}");
    let all = log + &plane.events();
    assert!(!all.contains(".signature-") && all.contains(".****"), "{all}");
}

#[test]
fn a_token_that_canyon_refuses_ends_the_run_with_the_tokens_name() {
    for (status, class) in [(403, FailureClass::Config), (409, FailureClass::Config)] {
        let world = World::new();
        let server = world.server(ONE, &json!({}));
        server.plane().no_tokens = Some(status);
        assert_eq!(code(world.home.start(&server)), 1);
        let plane = server.plane();
        let failure = plane.result().failure.clone().unwrap();
        assert_eq!(failure.class, class);
        assert!(failure.message.starts_with("the job has no token for `api://"), "{failure:?}");
        assert!(world.seen().is_empty() && plane.tokens.is_empty());
    }
}

#[test]
fn a_run_that_announced_its_apply_and_did_not_begin_it_reports_so() {
    let world = World::new();
    let server = world.server(ONE, &json!({}));
    server.plane().no_apply_tokens = Some(403);
    assert_eq!(code(world.home.start(&server)), 1);
    let plane = server.plane();
    assert!(plane.phases.contains(&Phase::Apply), "{:?}", plane.phases);
    assert!(plane.result().untouched, "{:?}", plane.result());
    let good = world.server(ONE, &json!({}));
    assert_eq!(code(world.home.start(&good)), 0, "{}", good.plane().log());
    assert!(!good.plane().result().untouched);
}

#[test]
fn a_run_that_is_to_move_the_state_announces_its_apply_only_after_it_has_judged_the_former_one() {
    let world = World::new();
    let old = world.home.folder.path().join("old.tfstate");
    let run = |unfinished: Value| {
        let backend = json!({"terraform": {"backend": {"local": {"path": old}}}});
        let state = json!({
            "place": "/states/new", "uncertain": true, "unfinished": unfinished,
            "move_from": {"place": "/states/old", "backend": backend},
        });
        let server = world.server(ONE, &json!({ "state": state }));
        code(world.home.start(&server));
        server
    };
    // What an earlier run has left is unread, so this one must not go on without a state.
    let unread = json!({"by": "0192aaaa-bbbb-7ccc-8ddd-eeeeffff9999", "unsalvaged": true});
    let refused = run(unread);
    let plane = refused.plane();
    let message = &plane.result().failure.as_ref().unwrap().message;
    assert!(message.contains("no state was written"), "{message}");
    assert!(!plane.phases.contains(&Phase::Apply), "{:?}", plane.phases);
    assert!(plane.tokens.iter().all(|(_, phase, _)| phase == "plan"), "{:?}", plane.tokens);

    let moved = run(Value::Null);
    let plane = moved.plane();
    assert_eq!(plane.result().status, ResultStatus::Success, "{}", plane.log());
    assert!(plane.result().state.as_ref().unwrap().moved && old.exists());
    assert!(plane.tokens.iter().any(|(_, phase, _)| phase == "apply"), "{:?}", plane.tokens);
}
