//! The program that uses the engine. Its owner sets the engine's settings, each program by other names.

use super::settings::Host;

/// The program that launches on the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineUser {
    /// An agent, for runners of type `docker-agent`. Its owner limits what runners may have.
    #[default]
    Agent,
    /// `canyon local`, for runners of type `docker`. Its owner also defines the runners.
    CanyonLocal,
}

impl EngineUser {
    /// What to check if the engine does not answer.
    pub(super) fn engine_hint(self, host: &Host) -> &'static str {
        match (self, host) {
            (_, Host::Tls(..)) => {
                "check that the engine runs, and that it trusts the certificates in DOCKER_CERT_PATH"
            }
            (Self::Agent, Host::Unix(_)) => {
                "check that the engine runs, that this user may open its socket, and `host`"
            }
            (Self::Agent, Host::Plain(_)) => {
                "check that the engine runs and listens there, and `host`"
            }
            (Self::CanyonLocal, Host::Unix(_)) => {
                "start the engine (systemctl start docker), let the user of `canyon local` open its socket, or \
                 start `canyon local` with DOCKER_HOST"
            }
            (Self::CanyonLocal, Host::Plain(_)) => {
                "start the engine, or start `canyon local` with another DOCKER_HOST"
            }
        }
    }

    pub(super) fn no_image(self) -> &'static str {
        match self {
            Self::Agent => {
                "no runner image is set: set `image` of the Docker dispatcher, or `job.image` of the runner"
            }
            Self::CanyonLocal => {
                "no runner image is set: start `canyon local` with --runner-image, or set `job.image` of the runner"
            }
        }
    }

    /// Where the image is named.
    pub(super) fn check_image(self) -> &'static str {
        match self {
            Self::Agent => "check `image`",
            Self::CanyonLocal => "check `job.image` of the runner, or --runner-image",
        }
    }

    /// What to do if the registry asks for credentials, or does not accept those of the settings.
    pub(super) fn registry_access(self, has_credentials: bool) -> &'static str {
        match (self, has_credentials) {
            (Self::Agent, true) => "check `registry_username` and `registry_password`",
            (Self::Agent, false) => "set `registry_username` and `registry_password`",
            (Self::CanyonLocal, _) => {
                "check its name, and pull it yourself with your own credentials: docker pull IMAGE"
            }
        }
    }

    /// How to give a job more memory.
    pub(super) fn raise_memory(self) -> &'static str {
        match self {
            Self::Agent => {
                "raise `job.memory_limit` of the runner, or `memory_limit` of the Docker dispatcher, \
                 whichever is lower"
            }
            Self::CanyonLocal => "raise `job.memory_limit` of the runner",
        }
    }

    /// How to allow jobs to use the machine's credentials at its cloud, if there is a way.
    pub(super) fn acknowledge_credentials(self) -> &'static str {
        match self {
            Self::Agent => {
                ". If jobs are to have these credentials: \
                 CANYON_JOB_DISPATCHER_DATA_ACKNOWLEDGE_HOST_CREDENTIALS=true"
            }
            Self::CanyonLocal => "",
        }
    }
}
