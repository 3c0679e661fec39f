use super::*;
use crate::runner::RunnerDefinition;
use serde_json::json;

const PROVIDER: &str =
    "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q";

fn runner(configuration: &Value) -> RunnerDefinition {
    let given = json!({
        "runner_configuration": configuration,
        "state_storage_configuration": { "type": "gcs", "bucket": "states" },
    });
    RunnerDefinition::parse(given).unwrap()
}

fn gke() -> RunnerDefinition {
    runner(&json!({
        "type": "kubernetes-gke",
        "job": { "namespace": "runner", "service_account": "job", "allowed_images": ["ghcr.io/**"],
            "pod_template": { "spec": { "nodeSelector": { "a": "b" } } } },
        "cluster": { "name": "own", "project_id": "my-gcp-project", "location": "europe-west3-a",
            "auth": { "gcp_audience": PROVIDER, "gcp_service_account": "x@my-gcp-project.iam.gserviceaccount.com" } },
    }))
}

fn docker() -> RunnerDefinition {
    runner(&json!({ "type": "docker", "job": {
        "allowed_images": ["ghcr.io/**"], "extra_hosts": [], "timeouts": { "run_seconds": 600 } } }))
}

fn google() -> AccountCredentials {
    AccountCredentials::GcpIdentity {
        gcp_audience: PROVIDER.to_owned(),
        gcp_service_account: "y@my-gcp-project.iam.gserviceaccount.com".to_owned(),
    }
}

/// The cluster as published definitions have it.
fn published() -> Value {
    json!({ "account": "myOrg/myAccount", "cluster": { "cluster_type": "gke", "loadbalancer": "10.10.10.10",
        "name": "my-cluster", "project_id": "my-gcp-project", "zone": "cluster-zone" } })
}

fn placement(cluster: &Value, job: &Value) -> Placement {
    let text = |name: &str| job[name].as_str().map(str::to_owned);
    let job = JobPlacement {
        namespace: text("namespace"),
        service_account: text("service_account"),
        pod_template: job["pod_template"].as_object().cloned(),
        cluster: None,
    };
    Placement { job, cluster: cluster.as_object().cloned(), agent: None }
}

fn moved(of: &Placement, runner: &RunnerDefinition, by: &AccountCredentials) -> Value {
    let place = of.place(&runner.configuration, Some(by)).unwrap();
    place.applied_to(runner).unwrap().to_value()["runner_configuration"].clone()
}

#[test]
fn a_definition_moves_its_job_to_another_cluster_by_an_account_and_the_runner_keeps_its_limits() {
    let job = json!({ "namespace": "humanitec-runner", "service_account": "humanitec-runner-job",
        "pod_template": { "spec": { "imagePullSecrets": [{ "name": "ghcr" }] } } });
    let wanted = placement(&published(), &job);
    assert_eq!(wanted.account().unwrap().unwrap().as_str(), "myAccount");
    let cluster = json!({ "name": "my-cluster", "project_id": "my-gcp-project", "location": "cluster-zone",
        "auth": { "gcp_audience": PROVIDER, "gcp_service_account": "y@my-gcp-project.iam.gserviceaccount.com" } });
    assert_eq!(
        moved(&wanted, &gke(), &google()),
        json!({ "type": "kubernetes-gke", "cluster": cluster, "job": {
            "namespace": "humanitec-runner", "service_account": "humanitec-runner-job", "allowed_images": ["ghcr.io/**"],
            "pod_template": { "spec": { "nodeSelector": { "a": "b" }, "imagePullSecrets": [{ "name": "ghcr" }] } } } })
    );
    // Of a runner that has no pods, only what every place has is left.
    assert_eq!(
        moved(&wanted, &docker(), &google()),
        json!({ "type": "kubernetes-gke", "cluster": cluster, "job": {
            "namespace": "humanitec-runner", "service_account": "humanitec-runner-job", "allowed_images": ["ghcr.io/**"],
            "timeouts": { "run_seconds": 600 },
            "pod_template": { "spec": { "imagePullSecrets": [{ "name": "ghcr" }] } } } })
    );
}

#[test]
fn each_type_of_cluster_is_reached_by_its_own_type_of_account() {
    let aws = AccountCredentials::AwsRole {
        aws_role: "arn:aws:iam::123456789012:role/canyon".to_owned(),
        session_name: None,
        sts_region: None,
    };
    let uuid = "11111111-2222-3333-4444-555555555555";
    let azure = AccountCredentials::AzureIdentity {
        azure_identity_tenant_id: uuid.to_owned(),
        azure_identity_client_id: uuid.to_owned(),
    };
    let job = json!({ "namespace": "n", "service_account": "s" });
    let eks = json!({ "account": "a", "cluster": { "cluster_type": "eks", "name": "e", "region": "eu-west-1" } });
    let changed = moved(&placement(&eks, &job), &docker(), &aws);
    assert_eq!(changed["type"], "kubernetes-eks");
    assert_eq!(
        changed["cluster"]["auth"],
        json!({ "role_arn": "arn:aws:iam::123456789012:role/canyon" })
    );
    let aks = json!({ "account": "a", "cluster": { "cluster_type": "aks", "name": "k", "resource_group": "g",
        "subscription_id": uuid } });
    let changed = moved(&placement(&aks, &job), &docker(), &azure);
    assert_eq!(changed["type"], "kubernetes-aks");
    assert_eq!(changed["cluster"]["auth"], json!({ "tenant_id": uuid, "client_id": uuid }));

    let refused = placement(&aks, &job).place(&docker().configuration, Some(&aws)).unwrap_err();
    assert_eq!(
        refused,
        "its `cluster_type` is \"aks\", and an account of type `aws-role` reaches `eks`"
    );
}

#[test]
fn a_cluster_without_an_account_must_be_that_of_the_runner() {
    let own = json!({ "cluster": { "cluster_type": "gke", "name": "own", "project_id": "my-gcp-project",
        "zone": "europe-west3-a", "loadbalancer": "10.10.10.10" } });
    let none = placement(&own, &json!({}));
    let place = none.place(&gke().configuration, None).unwrap();
    assert_eq!(place.beside(&gke()), Ok(None));

    let refused = placement(&published()["cluster"], &json!({})).place(&gke().configuration, None);
    assert_eq!(
        refused.unwrap_err(),
        "its cluster has name \"my-cluster\", and that of the runner \"own\", and no account is named that reaches another: add \
         `account` to the cluster"
    );
    let refused = none.place(&docker().configuration, None).unwrap_err();
    assert!(
        refused.starts_with("its cluster is `own`, and the runner names no cluster"),
        "{refused}"
    );
}

#[test]
fn what_a_definition_says_of_pods_has_no_effect_where_there_are_none_and_is_validated_elsewhere() {
    let job = json!({ "namespace": "n", "service_account": "s", "pod_template": { "spec": { "hostNetwork": true } } });
    let wanted = placement(&Value::Null, &job);
    let place = wanted.place(&docker().configuration, None).unwrap();
    assert_eq!(place.beside(&docker()), Ok(None));

    let place = wanted.place(&gke().configuration, None).unwrap();
    let faults = place.applied_to(&gke()).unwrap_err();
    let paths: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(paths, ["job.pod_template.spec.hostNetwork"], "{faults}");
}

#[test]
fn an_agent_is_in_its_cluster_so_the_cluster_of_the_definition_counts_for_nothing() {
    let inside: RunnerId = "inside".parse().unwrap();
    let by_agent = Placement {
        agent: Some(inside.clone()),
        ..placement(&published(), &json!({ "namespace": "n" }))
    };
    let place = by_agent.place(&gke().configuration, None).unwrap();
    assert_eq!((place.runner.as_ref(), place.cluster.as_ref()), (Some(&inside), None));
    assert_eq!(place.job, *json!({ "namespace": "n" }).as_object().unwrap());
}

#[test]
fn an_account_is_named_with_or_without_an_organization() {
    let names = [
        (json!("team"), Some("team")),
        (json!("o/team"), Some("team")),
        (json!(7), None),
        (json!("o/"), None),
    ];
    for (given, expected) in names {
        let found = placement(&json!({ "account": given, "cluster": {} }), &json!({})).account();
        let found = found.ok().flatten().map(String::from);
        assert_eq!(found.as_deref(), expected, "{given}");
    }
}
