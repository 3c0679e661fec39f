//! The inputs of a deployment: secret ones are sealed before anything is stored, and a job gets the values of its run.

use super::App;
use super::deploy::{DeploymentRequest, Idempotency};
use super::variable_sets::{KeptForJob, missing_store};
use crate::app::error::AppError;
use canyon_domain::causes::Causes;
use canyon_domain::container::{ContainerJob, ContainerTask};
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::OrgUuid;
use canyon_domain::inputs::sealing_context;
use canyon_domain::inventory::Environment;
use canyon_domain::job::Bundle;
use canyon_domain::json::Json;
use canyon_domain::run_context::{RunContext, is_template};
use canyon_domain::variable_scope::VariableScope;
use canyon_domain::variables::VariableKind;
use canyon_domain::variables::job::{JobVariable, StoredVariable};
use canyon_domain::variables::secret_json::SecretJson;
use std::collections::BTreeMap;
use std::error::Error;

/// The secret inputs of a deployment by name, sealed.
pub(super) type SealedInputs = BTreeMap<String, String>;

impl App {
    /// Seals the secret inputs of a deployment.
    pub(super) async fn seal_inputs(
        &self,
        org: OrgUuid,
        secret_inputs: &BTreeMap<String, SecretJson>,
        environment: &Environment,
    ) -> Result<SealedInputs, AppError> {
        if secret_inputs.is_empty() {
            return Ok(SealedInputs::new());
        }
        let keys = self.master_keys.get().await?;
        let seal = |(name, value): (&String, &SecretJson)| {
            let context = sealing_context(org, environment.uuid, name);
            let text = value.expose().to_string();
            let sealed = keys.seal(&context, text.as_bytes(), self.entropy.as_ref());
            Ok((name.clone(), sealed.map_err(|error| broken(name, &error))?))
        };
        secret_inputs.iter().map(seal).collect()
    }

    /// The idempotency key of a request. With secret inputs, the digest of its body could reveal a short one.
    pub(super) async fn keyed(
        &self,
        order: &DeploymentRequest,
        idempotency: Option<&Idempotency>,
    ) -> Result<Option<Idempotency>, AppError> {
        let Some(idempotency) = idempotency else { return Ok(None) };
        if order.secret_inputs.is_empty() {
            return Ok(Some(idempotency.clone()));
        }
        let keys = self.master_keys.get().await?;
        Ok(Some(Idempotency { body: keys.digest(&idempotency.body), ..idempotency.clone() }))
    }

    /// Moves the secret inputs of a bundle to the variables of its job, where they take precedence over kept ones.
    pub(super) async fn open_inputs(
        &self,
        org: OrgUuid,
        environment: &Environment,
        bundle: &mut Bundle,
        kept: &mut KeptForJob,
    ) -> Result<(), AppError> {
        let sealed_inputs = std::mem::take(&mut bundle.sealed_inputs);
        if sealed_inputs.is_empty() {
            return Ok(());
        }
        let keys = self.master_keys.get().await?;
        let is_input = |kind: VariableKind, name: &String| {
            kind == VariableKind::Terraform && sealed_inputs.contains_key(name)
        };
        kept.variables.retain(|one| !is_input(one.kind, &one.name));
        kept.stored_variables.retain(|one| !is_input(one.kind, &one.name));
        for (name, sealed) in sealed_inputs {
            let context = sealing_context(org, environment.uuid, &name);
            let text = keys.open(&context, &sealed).map_err(|error| broken(&name, &error))?;
            let text =
                String::from_utf8(text).map_err(|error| broken(&name, &error.utf8_error()))?;
            let value = Json::parse(&text).map_err(|error| broken(&name, &error))?.into();
            let Environment { project_id, id, .. } = environment;
            let from = VariableScope::Environment(project_id.clone(), id.clone());
            let (kind, secret, is_input) = (VariableKind::Terraform, true, true);
            kept.variables.push(JobVariable { kind, name, value, secret, from, is_input });
        }
        Ok(())
    }

    /// Adds the secrets to which a container job or the module of a definition refers, to the variables that its runner reads in secret stores.
    ///
    /// The inner error says which store is missing.
    pub(super) async fn refer_to_stores(
        &self,
        org: OrgUuid,
        environment: &Environment,
        bundle: &Bundle,
        kept: &mut KeptForJob,
    ) -> Result<Result<(), String>, AppError> {
        let job = bundle.container.as_ref().map(|ContainerTask { job, .. }| job);
        let of_job = job.into_iter().flat_map(ContainerJob::secret_references);
        let of_module = bundle.resource.iter().flat_map(|task| &task.references);
        let of_module = of_module.map(|(name, reference)| (name.clone(), reference));
        let references: Vec<_> = of_job.chain(of_module).collect();
        if references.is_empty() {
            return Ok(Ok(()));
        }
        let stores = self.configurations_of(org, references.iter().map(|(_, one)| *one)).await?;
        for (name, reference) in references {
            let Some(store) = stores.get(&reference.store).cloned() else {
                let missing = missing_store(&reference.store);
                return Ok(Err(match job {
                    Some(_) => format!("`container.{name}` {missing}"),
                    None => format!("the variable `{name}` of its definition {missing}"),
                }));
            };
            let Environment { project_id, id, .. } = environment;
            let from = VariableScope::Environment(project_id.clone(), id.clone());
            let (kind, reference) = (VariableKind::Terraform, reference.clone());
            kept.variables.retain(|one| one.kind != kind || one.name != name);
            kept.stored_variables.retain(|one| one.kind != kind || one.name != name);
            kept.stored_variables.push(StoredVariable { kind, name, reference, store, from });
        }
        Ok(Ok(()))
    }

    /// Replaces references to the run in the inputs and the container job of a deployment, and in the kept variables that are no
    /// secrets. One request, if there is a reference.
    pub(super) async fn fill_in(
        &self,
        org: OrgUuid,
        deployment: &Deployment,
        environment: &Environment,
        bundle: &mut Bundle,
        kept: &mut [JobVariable],
    ) -> Result<(), AppError> {
        let is_open = |one: &&mut JobVariable| !one.secret && is_template(one.value.expose());
        let kept: Vec<_> = kept.iter_mut().filter(is_open).collect();
        let inputs = &mut bundle.module.inputs;
        let job = bundle.container.as_mut().map(|task| &mut task.job);
        let job = job.filter(|job| job.has_templates());
        let files = bundle.resource.as_mut().filter(|task| task.has_templates());
        if kept.is_empty() && job.is_none() && files.is_none() && !inputs.values().any(is_template)
        {
            return Ok(());
        }
        let organization = self.table.organization(org).await?;
        let organization =
            organization.ok_or_else(|| AppError::conflict("the organization is gone"))?;
        let context = RunContext {
            org: organization.id,
            project: deployment.project.clone(),
            env: deployment.env.clone(),
            env_type: environment.env_type_id.clone(),
            deployment: deployment.id,
            runner: deployment.runner.clone(),
        };
        context.expand_all(inputs);
        if let Some(job) = job {
            job.expand(&context);
        }
        if let Some(files) = files {
            files.expand(&context);
        }
        for variable in kept {
            variable.value = context.expand(variable.value.expose()).into();
        }
        Ok(())
    }
}

fn broken(name: &str, error: &(dyn Error + 'static)) -> AppError {
    tracing::error!(name, error = %Causes(error), "a secret input cannot be used");
    AppError::internal()
}
