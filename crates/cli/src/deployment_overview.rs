//! What runs, what waits, and what has failed lately: computed from deployments, for `canyon status`. Pure.

use crate::progress::is_awaited;
use crate::table;
use canyon_api::deployment::{Deployment, Waiting};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use uuid::Uuid;

/// How long a failure is shown.
const LATELY: SignedDuration = SignedDuration::from_hours(24);
/// How long before its failure a deployment that is shown was accepted: the list of failed ones is by acceptance.
const LONGEST_RUN: SignedDuration = SignedDuration::from_hours(7 * 24);
/// Clocks of several servers may differ by less than this.
const CLOCK_DIFFERENCE: SignedDuration = SignedDuration::from_mins(5);

/// Failed deployments that were accepted before this time are not shown at `now`.
pub(crate) fn failures_since(now: Timestamp) -> Option<Timestamp> {
    now.checked_sub(LATELY + LONGEST_RUN).ok()
}

/// A reader that has read everything at `read_at` misses no deployment if it continues with those accepted since then.
pub(crate) fn recent_since(read_at: Timestamp) -> Timestamp {
    read_at.checked_sub(CLOCK_DIFFERENCE).unwrap_or(Timestamp::MIN)
}

/// The deployments at one time, newest first.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Overview {
    /// Those whose job has begun.
    running: Vec<Deployment>,
    /// Those whose job has not begun.
    waiting: Vec<Deployment>,
    /// Those that failed within [`LATELY`].
    failed: Vec<Deployment>,
    /// Whether all deployments of these lists were read.
    complete: bool,
    /// All that were read, also those that are not shown.
    #[serde(skip)]
    all: BTreeMap<Uuid, Deployment>,
    /// When they were read.
    #[serde(skip)]
    read_at: Timestamp,
}

impl Overview {
    /// The overview at `now`. Ids sort by the time of acceptance.
    pub(crate) fn of(
        deployments: BTreeMap<Uuid, Deployment>,
        complete: bool,
        now: Timestamp,
    ) -> Self {
        let mut overview = Self { complete, read_at: now, ..Self::default() };
        for (id, deployment) in deployments.into_iter().rev() {
            let list = match (deployment.status.as_str(), deployment.completed_at) {
                ("failed", Some(at)) if now.duration_since(at) <= LATELY => {
                    Some(&mut overview.failed)
                }
                (_, Some(_)) => None,
                ("queued" | "launching", None) => Some(&mut overview.waiting),
                (_, None) if is_awaited(&deployment) => Some(&mut overview.waiting),
                (_, None) => Some(&mut overview.running),
            };
            if let Some(list) = list {
                list.push(deployment.clone());
            }
            overview.all.insert(id, deployment);
        }
        overview
    }

    /// Deployments that were accepted before this time were read, if they had not ended.
    pub(crate) fn knows_before(&self) -> Timestamp {
        recent_since(self.read_at)
    }

    /// Whether it shows no deployment.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Those that had not ended.
    pub(crate) fn unended(&self) -> impl Iterator<Item = Uuid> {
        self.running.iter().chain(&self.waiting).map(|deployment| deployment.id)
    }

    /// Those that failed lately, which do not change any more.
    pub(crate) fn failed(&self) -> impl Iterator<Item = &Deployment> {
        self.failed.iter()
    }

    /// The overview for people, within `width` columns.
    pub(crate) fn text(&self, now: Timestamp, width: Option<usize>) -> String {
        let mut text = String::new();
        let mut section = |title: &str,
                           head: [&str; 6],
                           list: &[Deployment],
                           row: &dyn Fn(&Deployment) -> [String; 2]| {
            let _ = writeln!(
                text,
                "{}{title}: {}",
                if text.is_empty() { "" } else { "\n" },
                list.len()
            );
            let rows = list.iter().map(|deployment| {
                let [since, last] = row(deployment);
                [
                    deployment.id.to_string(),
                    environment(deployment),
                    mode(deployment),
                    deployment.status.clone(),
                    since,
                    table::printable(&one_line(&last)),
                ]
                .to_vec()
            });
            let head = head.map(str::to_owned).to_vec();
            if !list.is_empty() {
                let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
                text.push_str(&table::fit(&rows, width));
            }
        };
        let age = |at: Timestamp| age(now.duration_since(at));
        section(
            "running",
            ["ID", "ENVIRONMENT", "MODE", "STATUS", "FOR", "PHASE"],
            &self.running,
            &|running| {
                let attempt = running.attempts.last();
                let since = attempt.map_or(running.created_at, |attempt| attempt.launched_at);
                [
                    age(since),
                    attempt.map_or_else(|| "-".to_owned(), |attempt| attempt.phase.clone()),
                ]
            },
        );
        section(
            "waiting",
            ["ID", "ENVIRONMENT", "MODE", "STATUS", "FOR", "REASON"],
            &self.waiting,
            &|waits| {
                let since =
                    waits.waiting.as_ref().map_or(waits.created_at, |waiting| waiting.since);
                [age(since), reason(waits).unwrap_or("-").to_owned()]
            },
        );
        section(
            "failed in the last 24 hours",
            ["ID", "ENVIRONMENT", "MODE", "STATUS", "AGO", "MESSAGE"],
            &self.failed,
            &|failed| {
                let ended = failed.completed_at.unwrap_or(failed.created_at);
                let message = Some(failed.status_message.as_str()).filter(|text| !text.is_empty());
                [age(ended), message.unwrap_or("-").to_owned()]
            },
        );
        if !self.complete {
            text.push_str("\nthere are more deployments, which were not read\n");
        }
        text
    }

    /// What has changed since `before`. Without it, everything that has not ended counts as a change.
    pub(crate) fn changes(&self, before: Option<&Self>) -> Vec<Change<'_>> {
        let changes = self.all.values().filter_map(|deployment| {
            let former = before.and_then(|before| before.all.get(&deployment.id));
            let is_news = match (before, former) {
                (None, _) => deployment.completed_at.is_none(),
                (Some(_), None) => true,
                (Some(_), Some(former)) => {
                    former.status != deployment.status || reason(former) != reason(deployment)
                }
            };
            is_news.then_some(Change {
                former: former.map(|former| former.status.clone()),
                deployment,
            })
        });
        changes.collect()
    }
}

/// A deployment that is new, or has another status or another reason to wait.
pub(crate) struct Change<'o> {
    former: Option<String>,
    deployment: &'o Deployment,
}

impl Change<'_> {
    /// The change as a line for people.
    pub(crate) fn line(&self, now: Timestamp) -> String {
        let Self { deployment, .. } = self;
        let why = self.why().map_or_else(String::new, |why| format!(": {why}"));
        let line = format!(
            "{now:.0}  {}  {}  {}  {}{why}",
            deployment.id,
            environment(deployment),
            mode(deployment),
            deployment.status,
        );
        table::printable(&one_line(&line))
    }

    /// The change for programs.
    pub(crate) fn json(&self, now: Timestamp) -> Value {
        let Self { deployment, former } = self;
        json!({
            "at": now, "id": deployment.id, "project_id": deployment.project_id, "env_id": deployment.env_id,
            "mode": deployment.mode, "plan_only": deployment.plan_only, "status": deployment.status,
            "previous_status": former, "reason": self.why(),
        })
    }

    fn why(&self) -> Option<&str> {
        let message = Some(self.deployment.status_message.as_str()).filter(|text| !text.is_empty());
        reason(self.deployment).or(message)
    }
}

fn reason(deployment: &Deployment) -> Option<&str> {
    deployment.waiting.as_ref().map(|Waiting { reason, .. }| reason.as_str())
}

fn environment(deployment: &Deployment) -> String {
    format!("{}/{}", deployment.project_id, deployment.env_id)
}

/// What a deployment does, for a table.
pub(crate) fn mode(deployment: &Deployment) -> String {
    let is_plan = deployment.plan_only && deployment.mode != "state";
    let plan = if is_plan { " (plan)" } else { "" };
    format!("{}{plan}", deployment.mode)
}

/// Keeps text from elsewhere in its row.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// A duration in its largest unit, as `kubectl` writes ages.
fn age(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_its_largest_unit() {
        let ages = [-5, 0, 119, 120, 7_199, 7_200, 172_799, 172_800];
        let shown = ages.map(|seconds| age(SignedDuration::from_secs(seconds)));
        assert_eq!(shown, ["0s", "0s", "119s", "2m", "119m", "2h", "47h", "2d"]);
    }
}
