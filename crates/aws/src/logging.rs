//! The log of a function: one JSON line for each event.

use tracing_subscriber::EnvFilter;

/// At `warn`, the Kubernetes client logs the whole answer that it cannot parse, which a cluster can
/// make arbitrarily long.
const DEFAULT_FILTER: &str = "info,kube_client=error";

/// Starts logging. `CANYON_LOG` sets the filter; the default is `info`.
pub fn start() {
    let filter =
        EnvFilter::try_from_env("CANYON_LOG").unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    // CloudWatch adds the time to each line.
    let log = tracing_subscriber::fmt().json().without_time().with_current_span(true);
    let _ = log.with_span_list(false).with_env_filter(filter).flatten_event(true).try_init();
}

/// Returns the value; on an error, ends the process with one line that states the reason.
pub fn or_exit<T, E: std::fmt::Display>(made: Result<T, E>) -> T {
    match made {
        Ok(made) => made,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "Lambda shows this stream for a failed start")]
            {
                eprintln!("canyon cannot start: {error}");
            }
            std::process::exit(1);
        }
    }
}
