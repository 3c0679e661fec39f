//! A caller as a reviewer of plans.

use super::App;
use canyon_domain::approval::Reviewer;
use canyon_domain::deployment::Deployment;
use canyon_domain::grant::GrantedBy;
use canyon_domain::principal::Principal;
use canyon_domain::review;
use canyon_store::StoreError;
use jiff::Timestamp;

/// What a caller is to the rules for approvals.
#[derive(Debug)]
pub(crate) struct ReviewRights<'a> {
    by: &'a Principal,
    name: Option<String>,
    now: Timestamp,
}

impl ReviewRights<'_> {
    /// The caller as a reviewer of this deployment.
    pub(super) fn reviewer(&self, of: &Deployment) -> Reviewer<'_> {
        Reviewer {
            id: self.by.id,
            name: self.name.as_deref(),
            role: self.by.role_in(of.into()),
            is_machine: matches!(self.by.sign_in.by, Some(GrantedBy::ServiceAccount(_))),
            groups: self.by.sign_in.membership(),
        }
    }

    /// Whether the caller may still approve the plan of a deployment; `None` if that waits for no approval.
    pub(crate) fn may_approve(&self, of: &Deployment) -> Option<bool> {
        review::may_approve(of, &self.reviewer(of), self.now)
    }
}

impl App {
    /// What `by` is to the rules for approvals of `deployments`. One request for the caller's name, unless none of them waits for
    /// an approval.
    pub(crate) async fn review_rights<'a>(
        &self,
        by: &'a Principal,
        deployments: &[Deployment],
    ) -> Result<ReviewRights<'a>, StoreError> {
        let name = if deployments.iter().any(Deployment::awaits_approval) {
            self.names(by, [by.id]).await?.of(by.id)
        } else {
            None
        };
        Ok(ReviewRights { by, name, now: self.now() })
    }
}
