//! The check of a runner: tries each step that a launch needs.

use super::calls::{Calls, Run};
use super::connect::identity_of;
use super::defaults::JobDefaults;
use super::{errors, job};
use crate::check::CheckReports;
use crate::{DispatchError, JobRef, Launch, Target};
use canyon_domain::failure::FailureClass;
use canyon_domain::ids::DeploymentId;
use canyon_domain::ports::{Clock as _, Entropy as _};
use canyon_domain::runner::RunnerConfiguration;
use canyon_domain::runner::kubernetes::KubernetesJob;
use canyon_domain::runner_check::{CheckStep, steps_of};
use canyon_domain::trust::kubernetes::{LAUNCHER, NETWORK_POLICIES, Rule};
use canyon_identity::system::System;
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;
use kube::api::PostParams;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Tries the steps until one fails.
pub(super) async fn check(
    calls: &Calls,
    target: &Target,
    defaults: &JobDefaults,
    reports: &CheckReports,
) {
    let _ = Box::pin(try_all(calls, target, defaults, reports)).await;
}

async fn try_all(
    calls: &Calls,
    target: &Target,
    defaults: &JobDefaults,
    reports: &CheckReports,
) -> Option<()> {
    let settings = job::settings(target).ok()?;
    let planned = steps_of(&target.definition);
    if planned.contains(&CheckStep::Assertion) {
        reports.run_step(CheckStep::Assertion, assertion(calls, target)).await?;
    }
    if planned.contains(&CheckStep::Exchange) {
        reports.run_step(CheckStep::Exchange, exchange(calls, target)).await?;
        reports.run_step(CheckStep::Cluster, cluster(calls, target)).await?;
    } else {
        calls.connector().drop_client(target);
    }
    reports.run_step(CheckStep::Connect, connect(calls)).await?;
    reports.run_step(CheckStep::Permissions, permissions(calls, settings)).await?;
    // Boxed, because the Job is large.
    reports.run_step(CheckStep::DryRun, Box::pin(dry_run(calls, target, settings, defaults))).await
}

type Found<T> = Result<(T, String), DispatchError>;

async fn assertion(calls: &Calls, target: &Target) -> Found<()> {
    let federation = calls.connector().federation(target)?;
    let who = identity_of(target);
    // Any audience will do, because all are signed with the same key.
    let audience = match &target.definition.configuration {
        RunnerConfiguration::Kubernetes(runner) => {
            runner.cluster.auth.oidc.as_ref().map(|oidc| oidc.audience.clone())
        }
        _ => None,
    };
    let audience = audience.unwrap_or_else(|| federation.issuer_url().to_owned());
    federation
        .assertion(who, &audience)
        .await
        .map_err(|error| super::connect::of_federation(target, &error))?;
    Ok(((), format!("{} signs tokens for {}", federation.issuer_url(), who.subject())))
}

async fn exchange(calls: &Calls, target: &Target) -> Found<()> {
    Ok(((), calls.connector().exchange(target).await?))
}

/// Describes the cluster again, without the cached client.
async fn cluster(calls: &Calls, target: &Target) -> Found<()> {
    calls.connector().drop_client(target);
    let connection = calls.connector().connect(target).await?;
    Ok(((), connection.place.server.clone()))
}

async fn connect(calls: &Calls) -> Found<()> {
    let version =
        calls
            .call("ask for the version", TIMEOUT, |client| async move {
                client.apiserver_version().await
            })
            .await?;
    Ok(((), format!("Kubernetes {}", version.git_version)))
}

async fn permissions(calls: &Calls, settings: &KubernetesJob) -> Found<()> {
    let mut rights = LAUNCHER.to_vec();
    rights.extend((settings.deny_metadata_access == Some(true)).then_some(NETWORK_POLICIES));
    let mut missing = Vec::new();
    for Rule { group, resource, verbs } in rights {
        for verb in verbs {
            if !may(calls, &settings.namespace, group, resource, verb).await? {
                let group = if group.is_empty() { "the core group" } else { group };
                missing.push(format!("{verb} {resource} ({group})"));
            }
        }
    }
    let namespace = &settings.namespace;
    if missing.is_empty() {
        return Ok((
            (),
            format!("Canyon has every permission that it needs in namespace `{namespace}`"),
        ));
    }
    let mut message = format!(
        "in namespace `{namespace}` Canyon lacks these permissions: {}",
        missing.join(", ")
    );
    if let Some(UserInfo { username: Some(user), groups, .. }) = who(calls).await {
        message = format!("{message}; {}", errors::whom_to_bind(&user));
        let groups = groups.unwrap_or_default();
        let groups: Vec<_> = groups.iter().filter(|group| !group.starts_with("system:")).collect();
        if !groups.is_empty() {
            message = format!("{message}: {groups:?}");
        }
    }
    Err(DispatchError::refused(FailureClass::Config, message))
}

/// The user that the cluster recognizes Canyon as (Kubernetes 1.28 and newer).
async fn who(calls: &Calls) -> Option<UserInfo> {
    let review = &SelfSubjectReview::default();
    let answer = calls.call("ask who Canyon is", TIMEOUT, |client| async move {
        Api::<SelfSubjectReview>::all(client).create(&PostParams::default(), review).await
    });
    answer.await.ok()?.status?.user_info
}

async fn may(
    calls: &Calls,
    namespace: &str,
    group: &str,
    resource: &str,
    verb: &str,
) -> Result<bool, DispatchError> {
    let (resource, subresource) = resource
        .split_once('/')
        .map_or((resource, None), |(resource, sub)| (resource, Some(sub.to_owned())));
    let asked = ResourceAttributes {
        namespace: Some(namespace.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource,
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(asked),
        ..SelfSubjectAccessReviewSpec::default()
    };
    let review = &SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let answer = calls
        .call("review Canyon's permissions", TIMEOUT, |client| async move {
            Api::all(client).create(&PostParams::default(), review).await
        })
        .await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

async fn dry_run(
    calls: &Calls,
    target: &Target,
    settings: &KubernetesJob,
    defaults: &JobDefaults,
) -> Found<()> {
    let launch = pretended().ok_or_else(|| {
        DispatchError::refused(FailureClass::Config, "cannot build a Job for the dry run")
    })?;
    let wanted = job::job(target, defaults, &launch)?;
    calls.create(&wanted, Run::Dry).await?;
    let account = &settings.service_account;
    if is_missing(calls, settings).await {
        let message = format!(
            "namespace `{}` has no service account `{account}`: create it, or correct `job.service_account`",
            settings.namespace
        );
        return Err(DispatchError::refused(FailureClass::Config, message));
    }
    let image = image_of(&wanted).unwrap_or_default();
    Ok((
        (),
        format!("the Job of image `{image}` is accepted in namespace `{}`", settings.namespace),
    ))
}

fn image_of(job: &k8s_openapi::api::batch::v1::Job) -> Option<&str> {
    let pod = job.spec.as_ref()?.template.spec.as_ref()?;
    pod.containers.first()?.image.as_deref()
}

/// Whether the service account certainly does not exist. `false` if Canyon may not read service
/// accounts.
async fn is_missing(calls: &Calls, settings: &KubernetesJob) -> bool {
    let KubernetesJob { namespace, service_account, .. } = settings;
    let found = calls.call("read the service account", TIMEOUT, |client| async move {
        Api::<ServiceAccount>::namespaced(client, namespace).get_opt(service_account).await
    });
    matches!(found.await, Ok(None))
}

/// A launch for the dry run, with an id that no deployment has.
fn pretended() -> Option<Launch> {
    let now = System.now();
    let job = JobRef { deployment: DeploymentId(System.id(now)), attempt: 1, handle: None };
    let (project, env) = ("canyon".parse().ok()?, "check".parse().ok()?);
    Some(Launch { job, environment: [].into(), project, env, launched_at: now, container: None })
}
