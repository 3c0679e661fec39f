//! The environment variables of this process.

/// An environment variable; an empty one counts as absent.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
