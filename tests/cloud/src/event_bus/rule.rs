//! A rule, parsed and checked.

use super::schedule;
use super::transform::Input;
use crate::pattern::Pattern;
use crate::stack::{RetryPolicy, Rule};
use crate::target::Target;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Subscription {
    pub(super) arn: String,
    pub(super) name: String,
    bus: String,
    pattern: Option<Pattern>,
    /// The interval of its schedule.
    pub(super) every: Option<Duration>,
    pub(super) targets: Vec<Arc<Destination>>,
}

/// A target of a rule.
pub(super) struct Destination {
    pub(super) arn: String,
    pub(super) target: Arc<dyn Target>,
    pub(super) retry: RetryPolicy,
    pub(super) queue: Option<String>,
    pub(super) input: Input,
}

impl Subscription {
    pub(super) fn read(
        rule: &Rule,
        account: &str,
        region: &str,
        known: &BTreeMap<String, Arc<dyn Target>>,
    ) -> Result<Self, String> {
        let wrong = |error: String| format!("rule {}: {error}", rule.name);
        let bus = bus_name(rule.bus.as_deref().unwrap_or("default"));
        let within = if bus == "default" { String::new() } else { format!("{bus}/") };
        let arn = rule.arn.clone().unwrap_or_else(|| {
            format!("arn:aws:events:{region}:{account}:rule/{within}{}", rule.name)
        });
        let pattern = rule.pattern.as_ref().map(Pattern::read).transpose().map_err(wrong)?;
        let every = rule.schedule.as_deref().map(schedule::read).transpose().map_err(wrong)?;
        if pattern.is_none() && every.is_none() {
            return Err(wrong("it has neither a pattern nor a schedule".to_owned()));
        }
        let mut targets = Vec::new();
        for target in &rule.targets {
            let found = known.get(&target.arn).cloned();
            let found = found.ok_or_else(|| wrong(format!("nothing plays {}", target.arn)))?;
            targets.push(Arc::new(Destination {
                arn: target.arn.clone(),
                target: found,
                retry: target.retry_policy.unwrap_or_default(),
                queue: target.dlq.as_ref().map(|queue| queue.arn().to_owned()),
                input: Input::read(target).map_err(wrong)?,
            }));
        }
        Ok(Self { arn, name: rule.name.clone(), bus: bus.to_owned(), pattern, every, targets })
    }

    pub(super) fn takes(&self, bus: &str, event: &Value) -> bool {
        self.bus == bus && self.pattern.as_ref().is_some_and(|pattern| pattern.matches(event))
    }
}

/// The name of a bus that is given by name or ARN.
pub(super) fn bus_name(bus: &str) -> &str {
    bus.rsplit(":event-bus/").next().unwrap_or(bus)
}
