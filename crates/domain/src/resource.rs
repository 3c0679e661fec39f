//! The resources of an environment: what container jobs, and the modules of definitions, have created there.
//!
//! A resource begins with the launch of the first deployment for it, and ends with a destroy that succeeds. It refers to the
//! deployments that a destroy and a reader of its outputs need.

use crate::deployment::{Deployment, Mode, Status};
use crate::ids::DeploymentId;
use crate::kind::Kind;
use crate::module_record::ModuleRecord;
use crate::resource_name::ResourceName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Maximum number of resources of an environment, which stores them with itself.
pub const MAX_RESOURCES: usize = 100;

/// The status of a resource. The names are part of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceStatus {
    /// The first deployment for it runs.
    Creating,
    /// The last deployment for it succeeded.
    Ready,
    /// A further deployment for it runs.
    Updating,
    /// The last deployment for it ended after its program had begun, without success.
    Failed,
    /// A destroy runs.
    Destroying,
}

impl ResourceStatus {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Ready => "ready",
            Self::Updating => "updating",
            Self::Failed => "failed",
            Self::Destroying => "destroying",
        }
    }
}

/// What the last check of a resource has found. The names are part of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckStatus {
    /// It is as its last deployment has left it.
    InSync,
    /// It differs.
    Drifted,
    /// The check did not succeed.
    Unknown,
}

impl CheckStatus {
    /// The name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InSync => "in_sync",
            Self::Drifted => "drifted",
            Self::Unknown => "unknown",
        }
    }
}

/// The last check of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceCheck {
    /// What it has found.
    pub status: CheckStatus,
    /// The deployment that checked.
    pub by: DeploymentId,
    /// Its end.
    pub at: Timestamp,
}

/// A resource of an environment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// Its name.
    pub name: ResourceName,
    /// Its status.
    pub status: ResourceStatus,
    /// Its status before the deployment that runs for it; `None` also if it did not exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<ResourceStatus>,
    /// The last deployment for it whose program began; while one runs, the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<DeploymentId>,
    /// The last deployment for it that succeeded: its outputs are the resource's, and a destroy runs its job.
    #[serde(rename = "succeeded", default, skip_serializing_if = "Option::is_none")]
    pub last_success: Option<DeploymentId>,
    /// The last check since then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_check: Option<ResourceCheck>,
    /// What is known of its module, if a module makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<Box<ModuleRecord>>,
    /// The launch of the first deployment for it.
    pub created_at: Timestamp,
    /// Its last change.
    pub updated_at: Timestamp,
}

impl Resource {
    /// The deployment whose job a destroy repeats. After a first deployment that failed, that is this one: it may have left
    /// something.
    pub fn to_destroy(&self) -> Option<DeploymentId> {
        self.last_success.or(self.begun)
    }

    /// Whether its module may have left something in its state.
    fn may_have_more(&self) -> bool {
        self.module.as_ref().is_some_and(|module| module.may_hold_resources())
    }

    /// The kind of the jobs that make it.
    pub fn kind(&self) -> Kind {
        if self.module.is_some() { Kind::Tofu } else { Kind::Container }
    }

    /// The deployments that it refers to, which stay however old they are.
    pub fn needed_deployments(&self) -> impl Iterator<Item = DeploymentId> {
        [self.last_success, self.begun].into_iter().flatten()
    }
}

/// Why no job may run for a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResourceRefusal {
    /// The environment has no room for one more.
    #[error(
        "the environment has {MAX_RESOURCES} resources, the most that one may have: destroy those that are not needed"
    )]
    Full,
    /// A job of another kind would leave behind what the former one has created.
    #[error(
        "resource `{name}` was made by {}, and would now be made by {}, which does not know what that has left: destroy it first, \
         with `canyon destroy PROJECT ENV --resource {name}`",
        .made_by.maker(),
        .kind.maker()
    )]
    OtherKind {
        /// The resource.
        name: Box<ResourceName>,
        /// What has made it.
        made_by: Kind,
        /// What would.
        kind: Kind,
    },
}

/// The resources of an environment, in the order of their creation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceSet(Vec<Resource>);

impl ResourceSet {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The resources, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Resource> + ExactSizeIterator {
        self.0.iter()
    }

    /// The same, to change them.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Resource> {
        self.0.iter_mut()
    }

    /// The resource with this name.
    pub fn get(&self, name: &ResourceName) -> Option<&Resource> {
        self.0.iter().find(|resource| resource.name == *name)
    }

    /// The resource with this name, to change it.
    pub fn get_mut(&mut self, name: &ResourceName) -> Option<&mut Resource> {
        self.0.iter_mut().find(|resource| resource.name == *name)
    }

    /// Lets the resource of `deployment` begin, if it does not exist yet.
    pub(crate) fn begin(&mut self, deployment: &Deployment) -> Option<&mut Resource> {
        let name = deployment.resource().filter(|_| !deployment.plan_only)?;
        let is_known = self.get(name).is_some();
        if !is_known && deployment.mode == Mode::Destroy {
            // An earlier destroy in the queue has removed it.
            return None;
        }
        if !is_known {
            let now = deployment.created_at;
            self.0.push(Resource {
                name: name.clone(),
                status: ResourceStatus::Creating,
                before: None,
                begun: None,
                last_success: None,
                last_check: None,
                module: None,
                created_at: now,
                updated_at: now,
            });
        }
        let resource = self.get_mut(name)?;
        if deployment.kind().facts().has_state {
            resource.module.get_or_insert_default();
        }
        Some(resource)
    }

    /// Records that `deployment` is being launched, perhaps again.
    pub(crate) fn record_launch(&mut self, deployment: &Deployment) {
        let attempt = deployment.attempts.last();
        let now = attempt.map_or(deployment.created_at, |attempt| attempt.launched_at);
        let Some(resource) = self.begin(deployment) else { return };
        if let Some(module) = &mut resource.module {
            module.record_launch(deployment);
        }
        if resource.to_destroy().is_none() {
            resource.created_at = now;
        }
        let status = match deployment.mode {
            Mode::Destroy => ResourceStatus::Destroying,
            _ if resource.last_success.is_some() => ResourceStatus::Updating,
            _ => ResourceStatus::Creating,
        };
        let is_settled = matches!(resource.status, ResourceStatus::Ready | ResourceStatus::Failed);
        if is_settled {
            resource.before = Some(resource.status);
        }
        (resource.status, resource.updated_at) = (status, now);
    }

    /// Why no job of `kind` may run for the resource `name`. Those before it in the queue may have changed that since its
    /// acceptance.
    ///
    /// # Errors
    ///
    /// [`ResourceRefusal`].
    pub fn check(&self, name: &ResourceName, kind: Kind) -> Result<(), ResourceRefusal> {
        match self.get(name) {
            Some(found) if found.kind() != kind => {
                let name = Box::new(name.clone());
                Err(ResourceRefusal::OtherKind { name, made_by: found.kind(), kind })
            }
            None if self.0.len() >= MAX_RESOURCES => Err(ResourceRefusal::Full),
            Some(_) | None => Ok(()),
        }
    }

    /// Records the end of `deployment`.
    pub(crate) fn record_end(&mut self, deployment: &Deployment) {
        let Some(name) = deployment.resource() else { return };
        let Some(at) = self.0.iter().position(|resource| resource.name == *name) else { return };
        // A deployment that was never launched has changed nothing here.
        if deployment.attempts.is_empty() {
            return;
        }
        if deployment.plan_only {
            if deployment.container.is_some() {
                self.0[at].last_check = Some(check_of(deployment));
            }
            return;
        }
        let has_begun = deployment.began_to_apply();
        let succeeded = deployment.status == Status::Succeeded;
        let resource = &mut self.0[at];
        let before = resource.before.take();
        let is_gone = match (deployment.mode, succeeded) {
            (Mode::Destroy, true) => !resource.may_have_more(),
            // Its first deployment ended before the program began.
            (_, false) => !has_begun && before.is_none() && !resource.may_have_more(),
            (_, true) => false,
        };
        if is_gone {
            self.0.remove(at);
            return;
        }
        if has_begun || succeeded {
            resource.last_check = None;
        }
        resource.updated_at = deployment.completed_at.unwrap_or(deployment.created_at);
        resource.status = match (succeeded, before) {
            (true, _) if deployment.mode == Mode::Destroy => ResourceStatus::Failed,
            (true, _) => ResourceStatus::Ready,
            (false, Some(before)) if !has_begun => before,
            (false, _) => ResourceStatus::Failed,
        };
        if deployment.mode.creates() && (has_begun || succeeded) {
            resource.begun = Some(deployment.id);
        }
        if deployment.mode.creates() && succeeded {
            resource.last_success = Some(deployment.id);
        }
    }
}

/// What the check `deployment` has found: a resource that differs counts as one to change.
fn check_of(deployment: &Deployment) -> ResourceCheck {
    let status = match (deployment.status, deployment.counts) {
        (Status::Succeeded, Some(counts)) if counts.changed > 0 => CheckStatus::Drifted,
        (Status::Succeeded, _) => CheckStatus::InSync,
        _ => CheckStatus::Unknown,
    };
    let at = deployment.completed_at.unwrap_or(deployment.created_at);
    ResourceCheck { status, by: deployment.id, at }
}

#[cfg(test)]
#[path = "resource_tests.rs"]
mod tests;
