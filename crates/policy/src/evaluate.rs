//! Evaluates a policy against a plan.

use crate::fault::Fault;
use crate::functions::declares;
use crate::{DENY, PACKAGE, WARN};
use canyon_domain::policy::{Findings, MAX_LOGGED};
use regorus::{Engine, Value};
use std::collections::BTreeMap;
use std::fmt::Display;

/// The longest message in bytes. Where it is kept beside the log, the reader shortens it further.
const LONGEST: usize = 16 * 1024;
/// The most bytes of all messages of a rule. The rest is only counted.
const MOST: usize = 1024 * 1024;

/// What the policy of `modules` says of `plan`, the JSON of `tofu show -json`. `context` is `data.canyon_context`.
///
/// It takes as much time and memory as the policy wants, and ends the process if a function calls itself without end: the
/// caller evaluates it in a process of its own.
///
/// # Errors
///
/// [`Fault`] if the policy does not compile, or cannot be evaluated.
pub fn evaluate(
    modules: &BTreeMap<String, String>,
    context: &serde_json::Value,
    plan: &str,
) -> Result<Findings, Fault> {
    let mut engine = Engine::new();
    // Its output is for people who write a policy, and a plan may have secrets.
    engine.set_gather_prints(true);
    for (name, text) in modules {
        engine.add_policy(name.clone(), text.clone()).map_err(fault)?;
    }
    let data = serde_json::json!({ "canyon_context": context }).to_string();
    engine.add_data_json(&data).map_err(fault)?;
    let plan = Value::from_json_str(plan)
        .map_err(|error| Fault::of_whole(format!("the plan is not JSON: {error}")))?;
    engine.set_input(plan);
    let (denied, num_denied) = messages(&mut engine, DENY)?;
    let (warnings, num_warnings) = messages(&mut engine, WARN)?;
    Ok(Findings { denied, warnings, num_denied, num_warnings })
}

fn fault(error: impl Display) -> Fault {
    Fault::read(&error.to_string())
}

/// The first messages of a rule, unmasked, and how many it has. A rule that is not declared, or is undefined for this plan, has none.
fn messages(engine: &mut Engine, rule: &str) -> Result<(Vec<String>, u32), Fault> {
    let path = format!("data.{PACKAGE}.{rule}");
    if !declares(engine.get_modules(), rule) {
        return Ok((Vec::new(), 0));
    }
    let value = engine.eval_rule(path.clone()).map_err(fault)?;
    let members: Vec<&Value> = match &value {
        Value::Undefined => Vec::new(),
        Value::Array(members) => members.iter().collect(),
        Value::Set(members) => members.iter().collect(),
        _ => {
            return Err(Fault::of_whole(format!(
                "`{path}` is no set and no array of messages: {rule} contains msg if {{ ... }}"
            )));
        }
    };
    let all = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let (mut found, mut room) = (Vec::new(), MOST);
    for member in members {
        let message = text(member).ok_or_else(|| {
            Fault::of_whole(format!(
                "`{path}` has a member that is neither a text nor an object with the text `msg`"
            ))
        })?;
        // Not shortened here: a secret that is cut is not masked any more.
        let bytes = message.len();
        let message =
            if bytes <= LONGEST { message } else { format!("(a message of {bytes} bytes)") };
        if found.len() < MAX_LOGGED && message.len() <= room {
            room -= message.len();
            found.push(message);
        }
    }
    Ok((found, all))
}

/// A message: a text, or the `msg` of an object, as conftest has them.
fn text(of: &Value) -> Option<String> {
    let message = match of {
        Value::Object(members) => members.get(&Value::from("msg"))?,
        other => other,
    };
    message.as_string().ok().map(ToString::to_string)
}

#[cfg(test)]
#[path = "evaluate_tests.rs"]
mod tests;
