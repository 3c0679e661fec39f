//! What a step of a deployment leads to.

/// The outcome of a step.
pub(crate) enum StepOutcome {
    /// Nothing more is to be done now.
    Settled,
    /// The deployment has changed, by this step or another process: decide again.
    Changed,
}
