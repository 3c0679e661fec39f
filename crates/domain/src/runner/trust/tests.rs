//! The trust documents of each type of runner.

use super::*;
use crate::trust::kubernetes::{LAUNCHER, Rule};
use serde_json::json;
use uuid::Uuid;

const ISSUER: &str = "https://canyon.example.com/oidc";

fn trust(configuration: &Value, storage: &Value) -> Trust {
    let value = json!({
        "runner_configuration": configuration,
        "state_storage_configuration": storage,
    });
    let definition = RunnerDefinition::parse(value).unwrap();
    let (org, uuid) = (OrgUuid(Uuid::from_u128(1)), RunnerUuid(Uuid::from_u128(2)));
    let (id, org_id) = ("my-runner".parse().unwrap(), "acme".parse().unwrap());
    let jobs_issuer = "https://canyon.example.com/jobs";
    let who = Identity { issuer: ISSUER, jobs_issuer, org_id: &org_id, org, uuid, id: &id };
    of_runner(who, &definition)
}

fn shown(configuration: &Value, storage: &Value) -> String {
    let trust = trust(configuration, storage);
    let documents: Vec<_> = trust
        .documents
        .iter()
        .map(|document| format!("# {}\n# {}\n{}", document.title, document.place, document.text))
        .collect();
    format!("aud {:?}\n{}", trust.audience, documents.join("\n"))
}

fn job() -> Value {
    json!({ "namespace": "canyon-runner", "service_account": "canyon-runner" })
}

fn s3() -> Value {
    json!({ "type": "s3", "bucket": "states" })
}

fn in_cluster() -> Value {
    json!({ "type": "kubernetes", "namespace": "canyon-state" })
}

fn ecs() -> Value {
    json!({
        "type": "serverless-ecs",
        "auth": { "role_arn": "arn:aws-us-gov:iam::123456789012:role/teams/canyon-launch" },
        "job": {
            "region": "us-gov-west-1",
            "cluster": "arn:aws-us-gov:ecs:us-gov-west-1:123456789012:cluster/canyon",
            "subnets": ["subnet-0a1b2c3d"],
            "execution_role_arn": "arn:aws-us-gov:iam::123456789012:role/canyon-execution",
            "task_role_arn": "arn:aws-us-gov:iam::123456789012:role/canyon-task",
            "log_group": "/canyon/jobs",
        },
    })
}

fn gke() -> Value {
    json!({
        "type": "kubernetes-gke",
        "job": job(),
        "cluster": {
            "name": "my-cluster", "project_id": "my-gcp-project", "location": "europe-west3",
            "auth": {
                "gcp_audience": "//iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/my-wif-pool/providers/canyon",
                "gcp_service_account": "canyon@my-gcp-project.iam.gserviceaccount.com",
            },
        },
    })
}

fn eks() -> Value {
    json!({
        "type": "kubernetes-eks",
        "job": job(),
        "cluster": {
            "name": "my-cluster", "region": "eu-central-1",
            "auth": { "role_arn": "arn:aws:iam::123456789012:role/canyon-launch" },
        },
    })
}

fn aks() -> Value {
    json!({
        "type": "kubernetes-aks",
        "job": job(),
        "cluster": {
            "name": "my-cluster", "resource_group": "my-group",
            "subscription_id": "00000000-0000-0000-0000-000000000003",
            "auth": {
                "tenant_id": "00000000-0000-0000-0000-000000000004",
                "client_id": "00000000-0000-0000-0000-000000000005",
            },
        },
    })
}

fn kubernetes() -> Value {
    json!({
        "type": "kubernetes",
        "job": job(),
        "cluster": {
            "cluster_data": { "server": "https://k8s.example.com:6443", "certificate_authority_data": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==" },
            "auth": { "oidc": { "audience": "canyon" } },
        },
    })
}

#[test]
fn ecs_names_every_action_and_the_two_roles_that_may_be_passed() {
    insta::assert_snapshot!(shown(&ecs(), &s3()));
}

#[test]
fn gke_binds_one_subject_to_one_service_account() {
    insta::assert_snapshot!(shown(&gke(), &s3()));
}

#[test]
fn eks_describes_one_cluster_and_is_a_group_in_it() {
    insta::assert_snapshot!(shown(&eks(), &s3()));
}

#[test]
fn aks_trusts_one_subject_and_shows_one_cluster() {
    insta::assert_snapshot!(shown(&aks(), &s3()));
}

#[test]
fn a_cluster_trusts_the_issuer_and_allows_jobs_and_their_state() {
    insta::assert_snapshot!(shown(&kubernetes(), &in_cluster()));
}

#[test]
fn each_role_of_jobs_trusts_the_jobs_that_have_it() {
    let identity = json!({
        "aws": { "role_arn": "arn:aws:iam::123456789012:role/shop-apply", "plan_role_arn": "arn:aws:iam::123456789012:role/shop-plan" },
        "gcp": {
            "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/jobs/providers/canyon",
            "service_account": "apply@p.iam.gserviceaccount.com",
        },
        "azure": {
            "tenant_id": "00000000-0000-0000-0000-000000000004", "client_id": "00000000-0000-0000-0000-000000000005",
        },
        "job_roles": {
            "plan": { "gcp_service_account": "plan@p.iam.gserviceaccount.com" },
            "destroy": {
                "aws_role_arn": "arn:aws:iam::123456789012:role/shop-destroy",
                "azure_client_id": "00000000-0000-0000-0000-000000000006",
            },
        },
        "named_roles": { "break-glass": { "aws_role_arn": "arn:aws:iam::123456789012:role/shop-rescue", "enabled": false } },
    });
    let runner = json!({ "type": "local", "job": { "identity": identity } });
    insta::assert_snapshot!(shown(&runner, &s3()));
}

#[test]
fn no_cloud_trusts_anything_but_the_runners_own_subject() {
    let subject =
        "org:00000000-0000-0000-0000-000000000001:runner:00000000-0000-0000-0000-000000000002";
    for configuration in [ecs(), gke(), eks(), aks(), kubernetes()] {
        let trust = trust(&configuration, &s3());
        assert_eq!(trust.subject, subject);
        // Google limits a mapped subject to 127 bytes (Workload Identity Federation, attribute mappings).
        assert!(trust.subject.len() <= 127);
        let all: String = trust.documents.iter().map(|document| document.text.as_str()).collect();
        assert!(all.contains(subject), "{configuration}");
        let wild = all.replace("\"Resource\": \"*\"", "").replace("canyon-my-runner-*:*", "");
        let wild = wild.replace("canyon/*", "").replace(":task/canyon/*", "");
        assert!(!wild.contains('*'), "{wild}");
    }
}

#[test]
fn the_launcher_may_create_jobs_and_has_no_permission_that_leads_further() {
    let may = |group: &str, resource: &str, verb: &str| {
        LAUNCHER.iter().any(|Rule { group: g, resource: r, verbs }| {
            *g == group && *r == resource && verbs.contains(&verb)
        })
    };
    assert!(may("batch", "jobs", "create") && may("", "pods", "delete"));
    assert!(!may("", "pods", "create") && !may("", "pods/exec", "create"));
    assert!(
        LAUNCHER
            .iter()
            .all(|rule| !["secrets", "roles", "serviceaccounts/token"].contains(&rule.resource))
    );
}

#[test]
fn permissions_for_network_policies_are_requested_only_where_they_are_used() {
    let mut wanted = kubernetes();
    assert!(!shown(&wanted, &s3()).contains("networkpolicies"));
    wanted["job"]["deny_metadata_access"] = json!(true);
    assert!(shown(&wanted, &s3()).contains("networkpolicies"));
}

#[test]
fn the_printed_provider_of_google_has_the_same_condition_as_infra_gcp() {
    let infra = include_str!("../../../../../infra/gcp/main.tf");
    let condition = format!("attribute_condition = \"{}\"", super::gcp::RUNNERS_ALONE);
    assert!(infra.contains(&condition), "{condition}");
}
