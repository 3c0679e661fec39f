//! The flags of the commands that run a deployment.

use canyon_domain::deployment::Priority;

/// How to run it, and whether to watch it.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct RunFlags {
    /// Stop after the plan
    #[arg(long)]
    pub(super) plan_only: bool,
    /// Delete, replace and destroy without asking for confirmation
    #[arg(long)]
    pub(crate) yes: bool,
    /// End the run before its apply if its plan deletes or replaces more resources than this; those
    /// that the provider does not find count too
    #[arg(long, value_name = "N")]
    pub(super) max_deletions: Option<u32>,
    /// Plan only this resource or module and what it depends on, as `tofu plan -target`; may be repeated. For exceptions: what
    /// is left out stays as it is
    #[arg(long, value_name = "ADDRESS")]
    pub(super) target: Vec<String>,
    /// Replace this resource, as `tofu plan -replace`; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    pub(super) replace: Vec<String>,
    /// How many operations OpenTofu runs at once [default: OpenTofu's, 10]
    #[arg(long, value_name = "N")]
    pub(super) parallelism: Option<u16>,
    /// Use the state that is in the runner's storage, although the last run did not write it; for
    /// administrators
    #[arg(long)]
    pub(super) accept_state: bool,
    /// Which deployments it precedes when more are waiting than agents can launch
    #[arg(long, value_enum, value_name = "WHICH")]
    pub(super) priority: Option<GivenPriority>,
    /// Run it on this machine, whatever agents its runner has: `canyon` is the agent for this deployment alone. With
    /// `--local=false`, never; by default only if no agent of its runner has ever connected
    #[cfg(feature = "local")]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) local: Option<bool>,
    /// Run it with this named role of its runner at the clouds
    #[arg(long, value_name = "ROLE")]
    pub(super) role: Option<String>,
    /// Why it needs that role; readers of the deployment see it
    #[arg(long, value_name = "TEXT", requires = "role")]
    pub(super) reason: Option<String>,
    /// Have people approve its plan, also where no rule of the environment asks for that
    #[arg(long, conflicts_with = "plan_only")]
    pub(super) require_approval: bool,
    /// Replace the deployments of the same source that still wait, if they were requested so too
    #[arg(long, conflicts_with = "plan_only")]
    pub(super) supersede_queued: bool,
    /// Print the deployment's id and do not wait for its end
    #[arg(long)]
    pub(super) no_wait: bool,
    /// Stop waiting after this many seconds; the deployment continues
    #[arg(long, value_name = "SECONDS", conflicts_with = "no_wait")]
    pub(super) timeout: Option<u64>,
    /// `age` public key to encrypt all outputs to; may be repeated
    #[arg(long, value_name = "AGE1...")]
    pub(super) outputs_recipient: Vec<String>,
    /// `age` public key to encrypt the logs to; may be repeated
    #[arg(long, value_name = "AGE1...")]
    pub(super) logs_recipient: Vec<String>,
    /// The same key returns the same deployment for 24 hours; without it, the command uses a random one
    #[arg(long, value_name = "KEY")]
    pub(super) idempotency_key: Option<String>,
}

impl RunFlags {
    /// The flag that a run on this machine cannot follow: it needs this process until its end, and ends with it.
    #[cfg(feature = "local")]
    pub(super) fn contradiction_of_local(&self) -> Option<&'static str> {
        let given = [
            ("--no-wait", self.no_wait),
            ("--timeout", self.timeout.is_some()),
            ("--idempotency-key", self.idempotency_key.is_some()),
        ];
        given.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
    }
}

/// See [`Priority`].
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum GivenPriority {
    Background,
    Normal,
    High,
}

impl From<GivenPriority> for Priority {
    fn from(given: GivenPriority) -> Self {
        match given {
            GivenPriority::Background => Self::Background,
            GivenPriority::Normal => Self::Normal,
            GivenPriority::High => Self::High,
        }
    }
}
