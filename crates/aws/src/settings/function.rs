//! Which settings each function needs. The template gives a function no other settings.

/// The functions of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// Answers requests of API Gateway.
    Api,
    /// Publishes the documents of the issuers, behind API Gateway too.
    Issuer,
    /// Handles events of the event buses.
    Events,
    /// Handles records of the table's stream.
    Launcher,
    /// Handles due deployments, each minute.
    Sweep,
}

impl Function {
    /// The launcher and the sweep sign for runners. The issuer publishes the public keys. The API, which answers
    /// requests of the internet, has neither right.
    pub(super) fn knows_signing_keys(self) -> bool {
        match self {
            Self::Launcher | Self::Sweep | Self::Issuer => true,
            Self::Api | Self::Events => false,
        }
    }

    /// The API signs for jobs. The issuer publishes the public keys.
    pub(super) fn knows_job_signing_keys(self) -> bool {
        match self {
            Self::Api | Self::Issuer => true,
            Self::Launcher | Self::Sweep | Self::Events => false,
        }
    }

    /// Whether the function uses the table and the bucket.
    pub(super) fn stores(self) -> bool {
        match self {
            Self::Api | Self::Events | Self::Launcher | Self::Sweep => true,
            Self::Issuer => false,
        }
    }

    /// Whether the function seals or opens secrets with the master key.
    pub(super) fn seals(self) -> bool {
        match self {
            Self::Api | Self::Launcher | Self::Sweep => true,
            Self::Events | Self::Issuer => false,
        }
    }

    /// Whether the function sends events.
    pub(super) fn needs_bus(self) -> bool {
        match self {
            Self::Events | Self::Launcher | Self::Sweep => true,
            Self::Api | Self::Issuer => false,
        }
    }
}
