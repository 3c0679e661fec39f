//! Requests the deployments of due schedules on a laptop. On AWS a rule of EventBridge does that each minute.

use canyon_functions::App;
use canyon_functions::app::announcements::NoBus;
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// How often it looks. A pass without a due schedule costs one query.
const PASS_INTERVAL: Duration = Duration::from_secs(1);

/// Runs until it is dropped. A pass that fails is logged, and the next one does its work.
pub(crate) async fn run(app: App) {
    let mut tick = tokio::time::interval(PASS_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tick.tick().await;
        if let Err(error) = app.run_due_schedules(&NoBus).await {
            tracing::warn!(reason = error.message(), "cannot read the due schedules; retrying");
        }
    }
}
