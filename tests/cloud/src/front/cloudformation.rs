//! The actions that calls to `CloudFormation` need. (Service Authorization Reference, "Actions, resources, and
//! condition keys for AWS CloudFormation".)

use super::Account;
use super::call::Call;
use super::needs::Need;

/// Operations that name no stack.
const WITHOUT_STACK: [&str; 3] = ["GetTemplateSummary", "ListStacks", "ValidateTemplate"];
/// Operations whose template may name a transform, which is a resource of its own.
const TRANSFORMING: [&str; 3] = ["CreateChangeSet", "CreateStack", "UpdateStack"];

pub(super) fn needs(call: &Call, account: &Account) -> Vec<Need> {
    let action = format!("cloudformation:{}", call.operation);
    let form = call.form();
    let field = |name: &str| form.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    let Some(stack) = field("StackName").filter(|_| !WITHOUT_STACK.contains(&&*call.operation))
    else {
        return vec![Need::new(action, "*")];
    };
    let Account { id, region, .. } = account;
    let arn = if stack.starts_with("arn:") {
        stack.clone()
    } else {
        format!(
            "arn:aws:cloudformation:{region}:{id}:stack/{stack}/00000000-0000-0000-0000-000000000000"
        )
    };
    let mut needs = vec![Need::new(action.clone(), &*arn)];
    if TRANSFORMING.contains(&&*call.operation) {
        let transform =
            format!("arn:aws:cloudformation:{region}:aws:transform/Serverless-2016-10-31");
        needs.push(Need::new(action, transform));
        if field("Tags.member.1.Key").is_some() {
            needs.push(Need::new("cloudformation:TagResource", arn));
        }
    }
    needs
}
