//! How many descriptors this process may have: files and connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The highest limit that is requested. Jobs inherit the limit, and some programs iterate over all possible descriptors.
const WANTED: u64 = 16 * 1024;

/// Raises the soft limit as far as the hard limit allows. The soft limit is low for programs that use select(2). Returns
/// the limit that applies.
pub(crate) fn raise() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min(WANTED);
    let now = limit.current.unwrap_or(u64::MAX);
    if now >= most {
        return now;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..limit }) {
        Ok(()) => most,
        Err(error) => {
            tracing::warn!(%error, limit = now, "cannot raise the limit of open files");
            now
        }
    }
}
