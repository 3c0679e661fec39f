//! What a plan would delete or replace, from its deployment's event stream.

use crate::json_lines::JsonLines;
use canyon_api::attempt::Stream;
use canyon_api::client::Client;
use canyon_domain::resource_count::Resources;
use serde_json::Value;
use std::collections::BTreeSet;

/// About as many as a user reads before answering.
const MAX_SHOWN: usize = 20;

/// The first deletions and replacements of the newest plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deletions {
    lines: JsonLines,
    /// Action and address.
    shown: Vec<(&'static str, String)>,
    /// The resources of the state that the provider did not find.
    vanished: BTreeSet<String>,
    /// Whether another run of OpenTofu has begun, so that the next plan counts instead.
    is_stale: bool,
}

impl Deletions {
    /// Reads those of deployment `id`; none if its logs are encrypted or cannot be read now.
    pub(crate) async fn read(client: &Client, id: &str) -> Self {
        let (mut deletions, mut offset) = (Self::default(), 0);
        while let Ok(part) = client.log_part(id, Stream::Events, offset, 0).await {
            offset = part.next_offset;
            deletions.feed(&part.bytes);
            if part.complete || part.bytes.is_empty() {
                break;
            }
        }
        deletions
    }

    /// Adds the next bytes of the stream.
    fn feed(&mut self, bytes: &[u8]) {
        for event in self.lines.feed(bytes) {
            self.event(&event);
        }
    }

    fn event(&mut self, event: &Value) {
        match event["type"].as_str() {
            // The first line of each run of OpenTofu: another attempt plans again.
            Some("version") => self.is_stale = true,
            Some(kind @ ("planned_change" | "resource_drift")) => {
                if std::mem::take(&mut self.is_stale) {
                    (self.shown, self.vanished) = (Vec::new(), BTreeSet::new());
                }
                let action = match (kind, event["change"]["action"].as_str()) {
                    ("resource_drift", Some("delete")) => "not found",
                    ("planned_change", Some("delete")) => "delete",
                    ("planned_change", Some("replace")) => "replace",
                    _ => return,
                };
                let resource = &event["change"]["resource"];
                let address = resource["addr"].as_str().map(str::to_owned);
                if action != "not found" {
                    if self.shown.len() < MAX_SHOWN {
                        self.shown.extend(address.map(|address| (action, address)));
                    }
                // As the runner counts them: such files are gone with the former job's folder.
                } else if resource["implied_provider"] != "local" {
                    self.vanished.extend(address);
                }
            }
            _ => {}
        }
    }

    /// Whether the provider did not find some resources of the state.
    pub(crate) fn has_vanished(&self) -> bool {
        !self.vanished.is_empty()
    }

    /// Lines that describe what the plan would do to `environment`. `count` is Canyon's own count.
    pub(crate) fn describe(&self, environment: &str, count: u32) -> Vec<String> {
        // What the plan itself deletes comes first.
        let not_there = self.vanished.iter().map(|address| ("not found", address.clone()));
        let shown: Vec<_> = self.shown.iter().cloned().chain(not_there).take(MAX_SHOWN).collect();
        let end = if shown.is_empty() { "" } else { ":" };
        let vanished = u32::try_from(self.vanished.len()).unwrap_or(u32::MAX);
        let deleted = resources(count.saturating_sub(vanished));
        let not_found = match vanished {
            0 => String::new(),
            some => {
                format!(", and {} not found by the provider would leave the state", resources(some))
            }
        };
        let mut lines = vec![format!(
            "the plan deletes or replaces {deleted} of {environment}{not_found}{end}"
        )];
        let width = shown.iter().map(|(action, _)| action.len()).max().unwrap_or_default();
        let width = width.max("replace".len());
        // An address with a line break must not add lines.
        let line = |(action, address): &(&str, String)| {
            format!("  {action:<width$}  {}", address.replace('\n', "\u{fffd}"))
        };
        lines.extend(shown.iter().map(line));
        let more = usize::try_from(count).unwrap_or(usize::MAX).saturating_sub(shown.len());
        if more > 0 && !shown.is_empty() {
            lines.push(format!("  and {more} more"));
        }
        lines
    }
}

/// `1 resource`, `2 resources`.
pub(crate) fn resources(count: u32) -> String {
    Resources(count).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn planned(action: &str, address: &str) -> String {
        let change = json!({"action": action, "resource": {"addr": address}});
        format!("{}\n", json!({"type": "planned_change", "change": change}))
    }

    const VERSION: &str = "{\"type\":\"version\"}\n";

    fn described(stream: &str, count: u32) -> String {
        let mut deletions = Deletions::default();
        // In parts that end anywhere.
        for part in stream.as_bytes().chunks(7) {
            deletions.feed(part);
        }
        deletions.describe("shop/dev", count).join("\n")
    }

    #[test]
    fn only_what_is_deleted_or_replaced_is_listed() {
        let actions = ["create", "update", "replace", "move", "delete", "noop", "read", "forget"];
        let stream: String = actions.map(|action| planned(action, &format!("x.{action}"))).concat();
        insta::assert_snapshot!(described(&format!("not json\n{stream}"), 2), @r"
        the plan deletes or replaces 2 resources of shop/dev:
          replace  x.replace
          delete   x.delete
        ");
    }

    #[test]
    fn what_the_provider_did_not_find_is_named_as_such() {
        let drift = |action| planned(action, "x.gone").replace("planned_change", "resource_drift");
        let stream = [
            drift("update"),
            drift("delete"),
            planned("create", "x.gone"),
            planned("delete", "x.a"),
        ];
        insta::assert_snapshot!(described(&stream.concat(), 2), @r"
        the plan deletes or replaces 1 resource of shop/dev, and 1 resource not found by the provider would leave the state:
          delete     x.a
          not found  x.gone
        ");
    }

    #[test]
    fn twenty_are_listed_and_the_others_counted() {
        let stream: String = (0..30).map(|n| planned("delete", &format!("x.a[{n}]"))).collect();
        let text = described(&stream, 30);
        assert_eq!(text.lines().count(), 22, "{text}");
        assert!(text.ends_with("  delete   x.a[19]\n  and 10 more"), "{text}");
    }

    #[test]
    fn the_plan_of_the_last_attempt_counts() {
        let (first, second) = (planned("delete", "x.first"), planned("delete", "x.second"));
        let stream = format!("{VERSION}{first}{VERSION}{VERSION}{second}{VERSION}");
        insta::assert_snapshot!(described(&stream, 1), @r"
        the plan deletes or replaces 1 resource of shop/dev:
          delete   x.second
        ");
    }

    #[test]
    fn an_encrypted_stream_leaves_the_count_alone() {
        let text = described("\u{1}\u{2}age-encryption.org/v1\n-> X25519\n", 3);
        assert_eq!(text, "the plan deletes or replaces 3 resources of shop/dev");
    }
}
