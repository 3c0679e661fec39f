//! Renders deployments.

use canyon_api::approval::{DeploymentApproval, Review};
use canyon_api::deployed_container::{DeployedContainer, DeployedSource};
use canyon_api::deployed_module::DeployedModule;
use canyon_api::deployment::{AttemptSummary, Deployment, DeploymentMetrics, KeptPlan, Waiting};
use canyon_api::fallback::Fallback;
use canyon_api::policy::DeploymentPolicy;
use canyon_domain::approval::{self, Approval};
use canyon_domain::attempt::{Attempt, Outcome};
use canyon_domain::container::{ContainerJob, JobSource};
use canyon_domain::failure::Phase;
use canyon_domain::fetched_module::FetchedModule;
use canyon_domain::ids::OrgId;
use canyon_domain::job::{Bundle, Inputs};
use canyon_domain::module_source::ModuleSource;
use canyon_domain::plan_options::ResourceAddress;
use canyon_domain::{deployment, kept_plan, waiting};
use jiff::Timestamp;
use serde_json::json;

/// A deployment in a list, without the name of its requester.
pub(super) fn summary(org: &OrgId, of: &deployment::Deployment) -> Deployment {
    Deployment {
        org_id: org.to_string(),
        project_id: of.project.to_string(),
        env_id: of.env.to_string(),
        id: of.id.0,
        created_at: of.created_at,
        created_by: of.created_by.0,
        created_by_name: None,
        completed_at: of.completed_at,
        kind: of.kind().as_str().to_owned(),
        resource: of.resource().map(ToString::to_string),
        mode: of.mode.as_str().to_owned(),
        plan_only: of.plan_only,
        partial: of.partial,
        rollback_to_deployment_id: of.rollback_to.map(|id| id.0),
        plan_deployment_id: of.plan_of.map(|id| id.0),
        approval: of.approval.as_deref().map(|approval| Box::new(shown_approval(of, approval))),
        policy: of.policy.as_deref().map(|judgement| {
            Box::new(DeploymentPolicy::new(&judgement.digest, judgement.findings.clone()))
        }),
        plan: of.plan.as_deref().map(|plan| Box::new(kept_plan(of, plan))),
        status: of.status.as_str().to_owned(),
        status_message: of.message.clone(),
        metrics: metrics(of),
        refused_deletions: of.refused_deletions,
        runner_id: of.runner.to_string(),
        fallback: of.fallback.as_ref().map(|fallback| Fallback {
            instead_of: fallback.instead_of.to_string(),
            reason: fallback.reason.clone(),
        }),
        role: of.role.as_ref().map(|role| role.name.to_string()),
        reason: of.role.as_ref().and_then(|role| role.reason.clone()),
        manifest: None,
        waiting: None,
        duration_seconds: of.completed_at.and_then(|end| seconds_between(of.created_at, end)),
        logs_removed_at: of.logs_removed.map(|removal| removal.at),
        module: None,
        container: None,
        state_command: None,
        attempts: Vec::new(),
    }
}

fn kept_plan(of: &deployment::Deployment, plan: &kept_plan::KeptPlan) -> KeptPlan {
    let end = of.completed_at.filter(|_| of.plan_only && plan.parts > 0);
    KeptPlan {
        digest: plan.digest.to_string(),
        summary: plan.summary.into(),
        expires_at: end.map(|end| end + kept_plan::MAX_AGE),
    }
}

fn shown_approval(of: &deployment::Deployment, approval: &Approval) -> DeploymentApproval {
    let status = if approval.granted_at.is_some() {
        "given"
    } else if of.awaits_approval() {
        "awaited"
    } else if of.status.is_terminal() {
        "not_given"
    } else {
        "planning"
    };
    let review = |review: &approval::Review| Review {
        by: review.by.0,
        at: review.at,
        approves: review.approves,
        comment: review.comment.clone(),
    };
    DeploymentApproval {
        status: status.to_owned(),
        required: approval.required.as_str().to_owned(),
        needed: approval.count,
        given: approval.given(),
        since: approval.asked_at,
        expires_at: approval.expires_at(),
        hold: approval.hold,
        may_approve: None,
        reviews: approval.reviews.iter().map(review).collect(),
        checks: approval.checks.iter().cloned().map(Into::into).collect(),
    }
}

/// Says in a deployment whether the caller may still approve its plan.
pub(super) fn say_who_may_approve(shown: &mut Deployment, may_approve: Option<bool>) {
    if let Some(approval) = &mut shown.approval {
        approval.may_approve = may_approve;
    }
}

fn seconds_between(begin: Timestamp, end: Timestamp) -> Option<u64> {
    u64::try_from(end.duration_since(begin).as_secs()).ok()
}

/// The module of a deployment, without the values of inputs that may be secret.
pub(super) fn module(of: &deployment::Deployment, bundle: Bundle) -> DeployedModule {
    let fetched = of.fetched();
    // A requester who encrypts the logs wants no value of the run in an answer.
    let shown = fetched.filter(|_| bundle.encrypted_logs_recipient.is_none());
    let may_show = |name: &str| shown.is_some_and(|fetched| fetched.may_show(name));
    let fetched_at = fetched.and_then(commit);
    let (commit, digest) = match &bundle.module.source {
        ModuleSource::Archive { digest, .. } => (None, Some(digest.to_string())),
        ModuleSource::Inline => (None, None),
        ModuleSource::Git(_) => (fetched_at, None),
        ModuleSource::Oci(_) => (None, fetched_at),
    };
    let (inputs, hidden): (Inputs, Inputs) =
        bundle.module.inputs.into_iter().partition(|(name, _)| may_show(name));
    let mut hidden: Vec<_> = hidden.into_keys().chain(bundle.sealed_inputs.into_keys()).collect();
    hidden.sort();
    DeployedModule {
        source: bundle.module.source.to_string(),
        commit,
        digest,
        inputs,
        hidden_inputs: hidden,
        targets: addresses(&bundle.options.targets),
        replace: addresses(&bundle.options.replace),
    }
}

/// The container job of a deployment. Its values stay hidden: Canyon does not know which of them are secrets.
pub(super) fn container(of: &deployment::Deployment, job: ContainerJob) -> DeployedContainer {
    DeployedContainer {
        digest: of.fetched().and_then(commit),
        shared_directory: job.shared_directory().to_owned(),
        timeout_seconds: job.timeout_seconds(),
        grace_seconds: job.grace_seconds(),
        idempotent: job.idempotent == Some(true),
        image: job.image,
        command: job.command,
        args: job.args,
        variables: names(job.variables),
        files: names(job.files),
        secret_variables: names(job.secret_variables),
        secret_files: names(job.secret_files),
        source: job.source.map(|JobSource { url, reference, path, .. }| DeployedSource {
            url,
            reference,
            path,
        }),
        inputs: names(job.inputs),
        cluster: of.place.as_ref().and_then(|place| place.cluster_name()),
    }
}

fn names<T>(of: Option<impl IntoIterator<Item = (String, T)>>) -> Vec<String> {
    of.into_iter().flatten().map(|(name, _)| name).collect()
}

fn addresses(of: &[ResourceAddress]) -> Vec<String> {
    of.iter().map(|address| address.as_str().to_owned()).collect()
}

fn commit(of: &FetchedModule) -> Option<String> {
    of.commit.as_ref().map(ToString::to_string)
}

/// A deployment with all fields but its module and the name of its requester.
pub(super) fn deployment(
    org: &OrgId,
    of: &deployment::Deployment,
    waits: Option<waiting::Waiting>,
) -> Deployment {
    Deployment {
        manifest: Some(json!({ "workloads": {} })),
        waiting: waits.map(waiting),
        attempts: of.attempts.iter().map(attempt).collect(),
        ..summary(org, of)
    }
}

fn metrics(of: &deployment::Deployment) -> DeploymentMetrics {
    DeploymentMetrics {
        num_tf_resources: of.counts.and_then(|counts| counts.total),
        num_tf_resources_added: of.counts.map(|counts| counts.added),
        num_tf_resources_removed: of.counts.map(|counts| counts.removed),
        num_tf_resources_changed: of.counts.map(|counts| counts.changed),
        num_tf_resources_orphaned: (of.kept.orphans > 0).then_some(of.kept.orphans),
        ..DeploymentMetrics::default()
    }
}

fn attempt(of: &Attempt) -> AttemptSummary {
    let (status, failure) = match (&of.ended, &of.stop, &of.claim) {
        (Some(ended), _, _) => match &ended.outcome {
            Outcome::Succeeded => ("succeeded", None),
            Outcome::Failed(failure) => ("failed", Some(failure.clone())),
            Outcome::Cancelled => ("cancelled", None),
        },
        (None, Some(_), _) => ("stopping", None),
        (None, None, Some(_)) => ("running", None),
        (None, None, None) => ("launching", None),
    };
    let phase = match of.phase {
        Phase::Launch => "launch",
        Phase::Fetch => "fetch",
        Phase::Init => "init",
        Phase::Plan => "plan",
        Phase::Apply => "apply",
    };
    AttemptSummary {
        number: of.number,
        status: status.to_owned(),
        phase: phase.to_owned(),
        launched_at: of.launched_at,
        claimed_at: of.claim.as_ref().map(|claim| claim.at),
        commit: of.fetched.as_ref().and_then(commit),
        ended_at: of.ended.as_ref().map(|ended| ended.at),
        failure,
    }
}

/// What a deployment waits for.
fn waiting(of: waiting::Waiting) -> Waiting {
    Waiting {
        code: of.code.as_str().to_owned(),
        reason: of.reason,
        since: of.since,
        blocked_by: of.blocked_by.map(|id| id.0),
        next_attempt_at: of.next_attempt_at,
    }
}
