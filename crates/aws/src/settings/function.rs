//! What each function needs. What it does not need, it is not told.

/// The functions of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Answers API Gateway.
    Api,
    /// Publishes the documents of the issuers, behind API Gateway too.
    Issuer,
    /// Takes events from the buses.
    Events,
    /// Takes records of the table's stream.
    Launcher,
    /// Looks each minute at what is due.
    Sweep,
}

impl Function {
    /// The launcher and the sweep sign for runners; the issuer publishes the public halves. The API, which takes all
    /// that the internet sends, has neither right.
    pub(super) fn knows_signing_keys(self) -> bool {
        match self {
            Self::Launcher | Self::Sweep | Self::Issuer => true,
            Self::Api | Self::Events => false,
        }
    }

    /// The API signs for jobs; the issuer publishes the public halves.
    pub(super) fn knows_job_signing_keys(self) -> bool {
        match self {
            Self::Api | Self::Issuer => true,
            Self::Launcher | Self::Sweep | Self::Events => false,
        }
    }

    /// The table and the bucket.
    pub(super) fn stores(self) -> bool {
        match self {
            Self::Api | Self::Events | Self::Launcher | Self::Sweep => true,
            Self::Issuer => false,
        }
    }

    pub(super) fn seals(self) -> bool {
        match self {
            Self::Api | Self::Launcher | Self::Sweep => true,
            Self::Events | Self::Issuer => false,
        }
    }

    pub(super) fn needs_bus(self) -> bool {
        match self {
            Self::Events | Self::Launcher | Self::Sweep => true,
            Self::Api | Self::Issuer => false,
        }
    }
}
