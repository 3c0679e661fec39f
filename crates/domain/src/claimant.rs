//! The runner that claims an attempt.

/// The runner that claims an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimant<'a> {
    /// The random number that it generated for itself.
    pub drawn: &'a str,
    /// The name of the machine, pod or task that it runs in, as the runner reports it; not verified.
    pub host: Option<&'a str>,
    /// The name of the user that it runs as, as OpenTofu writes it into its locks.
    pub user: Option<&'a str>,
    /// The newest format of jobs that it understands ([`crate::job::FORMAT`]).
    pub job_format: u32,
}

impl<'a> From<&'a str> for Claimant<'a> {
    fn from(drawn: &'a str) -> Self {
        Self { drawn, host: None, user: None, job_format: crate::job::FORMAT }
    }
}
