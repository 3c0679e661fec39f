//! The agent's log, on the standard error stream.

use crate::settings::layers::Layer;
use tracing_subscriber::EnvFilter;

/// Starts to log, in the format and at the level of `layer`.
pub fn start(layer: &Layer) {
    let get = |key: &str| layer.0.get(key).map(|given| given.value.as_str());
    let filter = EnvFilter::try_new(get("log").unwrap_or("info"));
    let filter = filter.unwrap_or_else(|_| EnvFilter::new("info"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false);
    // If the program has set up its own logging before, it keeps it.
    let _ = match get("log_format") {
        Some("json") => {
            log.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
        }
        _ => log.with_ansi(false).try_init(),
    };
}
