//! The log of a function: a JSON line for each thing that happened.

use tracing_subscriber::EnvFilter;

/// Kubernetes' client repeats at `warn` the whole answer that it cannot read, which is as long as the
/// cluster likes.
const QUIET: &str = "info,kube_client=error";

/// Begins to log. `CANYON_LOG` says how much (`info` without it).
pub fn start() {
    let filter = EnvFilter::try_from_env("CANYON_LOG").unwrap_or_else(|_| EnvFilter::new(QUIET));
    // CloudWatch puts the time to each line.
    let log = tracing_subscriber::fmt().json().without_time().with_current_span(true);
    let _ = log.with_span_list(false).with_env_filter(filter).flatten_event(true).try_init();
}

/// What was made, or the end of the process with one line that says why not.
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
