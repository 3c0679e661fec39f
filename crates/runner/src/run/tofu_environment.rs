//! OpenTofu's environment in each phase, and the credentials that it has in it.

use super::Run;
use crate::source::oci::Tools;
use crate::tofu::{Ended, Tofu};
use crate::{environment, executable, verdict};
use canyon_domain::failure::{Failure, Phase};
use canyon_domain::job_identity::TokenPhase;
use canyon_domain::module_source::ModuleSource;
use std::ffi::OsString;

impl Run {
    pub(super) fn environment(&self, phase: TokenPhase) -> Vec<(OsString, OsString)> {
        let read_token = self.read_token.as_ref();
        let (settings, workspace) = (&self.settings, &self.workspace);
        environment::of_tofu(settings, workspace, &self.job, read_token, phase)
    }

    /// Fetches the child modules with the job's credentials for git, and takes these away again.
    ///
    /// `get` starts no program of the module. `init` does: OpenTofu asks the key provider `external` for the key of an
    /// encrypted state, and that is a program.
    pub(super) async fn get_modules(&mut self, tofu: &mut Tofu) -> Result<(), Failure> {
        let Some(access) = self.access.take() else { return Ok(()) };
        if access.is_empty() {
            return Ok(());
        }
        let mut variables = self.environment(TokenPhase::Plan);
        variables.extend(access.variables_in(tofu.module(), &variables));
        tofu.set_environment(variables);
        let fetched = self.get(tofu).await;
        access.remove_keys();
        tofu.set_environment(self.environment(TokenPhase::Plan));
        fetched.map_err(|mut failure| {
            if let Some(hint) = access.hint(&failure.message) {
                failure.message = format!("{}; {hint}", failure.message);
            }
            failure
        })
    }

    async fn get(&mut self, tofu: &mut Tofu) -> Result<(), Failure> {
        const GET: [&str; 3] = ["get", "-no-color", "-json"];
        let mut ended = self.step(tofu, Phase::Init, &GET).await?;
        if ended == Ended::Exited(1) && self.transcript.refused_an_option() {
            // Terraform's `get` has no option `-json`.
            ended = self.step(tofu, Phase::Init, &GET[..2]).await?;
        }
        self.expect(tofu, Phase::Init, ended, &[0])
    }

    /// Writes the tokens of `phase` and sets OpenTofu's environment for it.
    pub(super) async fn identify(
        &mut self,
        tofu: &mut Tofu,
        phase: TokenPhase,
    ) -> Result<(), Failure> {
        if self.enter(phase).await? {
            tofu.set_environment(self.environment(phase));
        }
        Ok(())
    }

    /// What fetches a package of an OCI registry. A program that gives the registry's credentials may need the job's
    /// identity.
    pub(super) async fn tools_of_source(&mut self) -> Result<Option<Tools>, Failure> {
        if !matches!(self.job.bundle.module.source, ModuleSource::Oci(_)) {
            return Ok(None);
        }
        let program = executable::find(self.job.executable, &self.settings)?;
        self.enter(TokenPhase::Plan).await?;
        let environment = self.environment(TokenPhase::Plan);
        Ok(Some(Tools { program, environment, scratch: self.workspace.path("oci") }))
    }

    /// Writes the tokens of `phase`. Returns whether the job has an identity.
    async fn enter(&mut self, phase: TokenPhase) -> Result<bool, Failure> {
        let Some(identity) = &mut self.identity else { return Ok(false) };
        let log = &mut self.transcript.log;
        if let Err(failure) = identity.enter(phase, &self.stop, log).await {
            let stopped = self.stop.is_requested();
            return Err(if stopped { verdict::cancelled(Phase::Plan, false) } else { failure });
        }
        Ok(true)
    }
}
