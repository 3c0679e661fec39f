//! How many descriptors this process may have: files and connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The most that is asked for. Jobs of this process inherit it, and some programs go through all that they may have.
const WANTED: u64 = 16 * 1024;

/// Raises the soft limit, which is low for the sake of programs that use select(2), as far as the hard one allows.
/// Returns the limit that holds.
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
