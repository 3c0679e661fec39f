//! Groups that rules for approvals name.

use super::App;
use crate::app::error::AppError;
use canyon_domain::approval::ApprovalRule;
use canyon_domain::field_error::FieldErrors;
use canyon_domain::principal::Principal;
use std::collections::{BTreeMap, BTreeSet};

impl App {
    /// Refuses a rule for approvals with a group that no token can have: a sign-in keeps only the groups for which its identity
    /// provider has a rule. One read for each provider that the rule names. A later change of a provider is not checked: from
    /// then on, no sign-in has the group.
    ///
    /// # Errors
    ///
    /// 400 with the path of each such group.
    pub(super) async fn check_approver_groups(
        &self,
        by: &Principal,
        rule: Option<&ApprovalRule>,
    ) -> Result<(), AppError> {
        let groups = rule.map(|rule| rule.approvers.groups.as_slice()).unwrap_or_default();
        let mut providers = BTreeMap::new();
        for id in groups.iter().map(|named| &named.provider).collect::<BTreeSet<_>>() {
            if let Some(found) = self.table.identity_provider(by.org, id).await? {
                providers.insert(id, found);
            }
        }
        let mut faults = FieldErrors::default();
        for (at, named) in groups.iter().enumerate() {
            let reason = match providers.get(&named.provider) {
                None => format!(
                    "there is no identity provider `{}`; see: canyon list identity-providers",
                    named.provider
                ),
                Some(found) if !found.knows(&named.group) => format!(
                    "identity provider `{}` has no rule for the group `{}`, so a sign-in does not keep it; add a rule to it, at \
                     least with the role `viewer`",
                    named.provider, named.group
                ),
                Some(_) => continue,
            };
            faults.add(format!("approval.approvers.groups[{at}]"), reason);
        }
        Ok(faults.into_result(())?)
    }
}
