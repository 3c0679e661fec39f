//! An agent that finds its cluster through EKS, and signs in there with its own role.

use crate::bed::Bed;
use crate::behaviour::{new_job, until, until_gone};
use crate::eks_bed::{AGENT, CLUSTER, Eks, WITHOUT_DESCRIBE, WITHOUT_ENTRY};
use crate::kubernetes::acting;
use crate::kubernetes_in_place::{account_folder, defaults, in_cluster, kind_of};
use canyon_dispatch::kubernetes::KubernetesPlatform;
use canyon_dispatch::{Dispatcher, OnFailure, RemovalOutcome, Started, StopMode};
use canyon_domain::deadline::Observation;
use canyon_domain::failure::FailureClass;
use k8s_openapi::api::batch::v1::Job;
use kube::api::ListParams;

/// Waits until the API server applies the permission; no other error may occur.
async fn until_bound(kind: &dyn Dispatcher) {
    until("the permission is there", async || match kind.jobs().await {
        Ok(_) => true,
        Err(error) => {
            assert!(error.to_string().contains(" is forbidden: "), "{error}");
            false
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_an_access_entry_starts_a_job_sees_it_and_ends_it() {
    let bed = Bed::new().await;
    let eks = Eks::before(&bed).await;
    let source = eks.cluster(CLUSTER, AGENT).await;
    let kind = kind_of(&bed, source.clone(), defaults());
    until_bound(&*kind).await;
    let launch = acting(&bed, new_job(), "until-asked");
    assert_eq!(kind.start(&launch).await.unwrap(), Started::Now(None));
    assert_eq!(kind.start(&launch).await.unwrap(), Started::Already(None));
    until("it runs", async || kind.observe(&launch.job).await == Observation::Alive).await;
    kind.stop(&launch.job, StopMode::Kill).await.unwrap();
    until_gone(&*kind, &launch.job).await;
    assert_eq!(kind.forget(&launch.job).await, RemovalOutcome::Removed);

    // It has the same id as for an agent in one of its pods.
    let folder = account_folder(&bed.token);
    let place =
        async |source| KubernetesPlatform::for_agent(source, defaults()).platform_id().await;
    let by_pod = place(in_cluster(folder.path())).await.unwrap();
    assert_eq!(place(source).await.unwrap(), by_pod);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_without_entry_permission_or_cluster_fails_with_its_name_and_starts_nothing() {
    let bed = Bed::new().await;
    let eks = Eks::before(&bed).await;
    until_bound(&*kind_of(&bed, eks.cluster(CLUSTER, AGENT).await, defaults())).await;
    for (name, role, words) in [
        (CLUSTER, WITHOUT_ENTRY, ["401 Unauthorized", "an access entry for exactly this role"]),
        (
            CLUSTER,
            WITHOUT_DESCRIBE,
            ["cannot be described: AccessDeniedException", "eks:DescribeCluster"],
        ),
        ("another", AGENT, ["the agent's EKS cluster `another` in eu-central-1", "does not exist"]),
    ] {
        let kind = kind_of(&bed, eks.cluster(name, role).await, defaults());
        let error = kind.start(&acting(&bed, new_job(), "writes")).await.unwrap_err();
        assert_eq!(
            (error.failure.class, error.on_failure),
            (FailureClass::Config, OnFailure::EndAttempt),
            "{error}"
        );
        for word in words {
            assert!(error.to_string().contains(word), "`{word}` is not in: {error}");
        }
    }
    let jobs = bed.api::<Job>().list(&ListParams::default()).await.unwrap().items;
    assert!(jobs.is_empty(), "{jobs:?}");
}
