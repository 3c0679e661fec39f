//! The actions that calls to the other services need: `<service>:<Operation>`, on the resource that the
//! request names.

use super::call::Call;
use super::needs::Need;
use serde_json::Value;

/// Members that hold the ARN of the resource, the first of them counts.
const RESOURCES: [&str; 5] = ["taskDefinition", "task", "roleArn", "FunctionName", "TopicArn"];

pub(super) fn needs(call: &Call) -> Vec<Need> {
    let action = call.full_name();
    match action.as_str() {
        // "No permissions are required to perform this operation." (STS API reference)
        "sts:GetCallerIdentity" | "sts:AssumeRoleWithWebIdentity" => Vec::new(),
        "sts:AssumeRole" => {
            let form = call.form();
            let role = form.iter().find(|(name, _)| name == "RoleArn");
            vec![Need::new(action, role.map_or("*", |(_, arn)| arn.as_str()))]
        }
        // The query protocol names the topic in the form.
        "sns:Subscribe" => {
            let form = call.form();
            let topic = form.iter().find(|(name, _)| name == "TopicArn");
            vec![Need::new(action, topic.map_or("*", |(_, arn)| arn.as_str()))]
        }
        _ => vec![Need::new(action, resource(&call.json()))],
    }
}

fn resource(body: &Value) -> String {
    let named = RESOURCES.iter().find_map(|name| body[*name].as_str());
    named.filter(|name| name.starts_with("arn:")).unwrap_or("*").to_owned()
}
