//! A check for drift: what a plan of the module that was deployed last would change.

use super::Run;
use super::kept_plan::SHOW_TIME;
use crate::plan_changes;
use crate::session::ApiConnection;
use crate::tofu::Tofu;
use crate::workspace;
use canyon_api::drift::DriftReportBody;
use canyon_domain::failure::{Failure, FailureClass};

impl Run {
    /// Finds out what differs, after a plan.
    pub(super) async fn find_drift(
        &mut self,
        tofu: &Tofu,
        api: &ApiConnection,
        has_changes: bool,
    ) -> Result<(), Failure> {
        let unfound = |reason: String| {
            let message = format!("the plan was made, and what differs is not known: {reason}");
            Failure::new(FailureClass::Config, message)
        };
        if !api.knows_drift() {
            return Err(unfound("this Canyon is older than its runner".to_owned()));
        }
        let held = self.state.seen.as_ref().map_or(0, |seen| seen.facts.resources);
        let mut report = DriftReportBody { num_resources: held, ..DriftReportBody::default() };
        if has_changes {
            let path = self.workspace.path(workspace::PLAN);
            let path = path.to_string_lossy();
            let document = tofu.answer(&["show", "-json", "-no-color", &path], SHOW_TIME).await;
            let masked = |text: &str| self.transcript.log.masked(text);
            report = plan_changes::drift::read(&document.map_err(unfound)?, held, &masked)
                .map_err(|error| unfound(error.to_string()))?;
        }
        let text = match report.num_drifted {
            0 => "nothing differs from what was deployed last".to_owned(),
            1 => "1 resource differs from what was deployed last".to_owned(),
            several => format!("{several} resources differ from what was deployed last"),
        };
        self.transcript.log.step(&text);
        for change in &report.changes {
            let names = change.attributes.join(", ");
            self.transcript.log.line(&format!("  {}  {names}", change.address));
        }
        self.drift = Some(report);
        Ok(())
    }
}
