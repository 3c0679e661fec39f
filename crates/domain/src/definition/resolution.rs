//! From the name of a resource to the container job, or the module, that makes it: chooses its definition, and follows references.
//!
//! Definitions without a container job (`config`, for example) are evaluated here. The outputs of container jobs are those of
//! their last success: the caller reads them, and resolves again ([`ResolveError::Unread`]).

use super::container_job;
use super::criterion::MatchTarget;
pub use super::evaluation::Outputs;
use super::evaluation::{AGENT_URL, Evaluated, MAX_RESOLVED, escaped, outputs_of, spend};
use super::matching::{ChooseError, choose};
use super::module_job::{self, DefinedModule};
use super::placeholder::{self, OutputReference, Part};
use super::placement::Placement;
use super::resolve_error::MAX_DEPTH;
pub use super::resolve_error::ResolveError;
use super::{Definition, DefinitionId, Driver, DriverWork, secrets};
use crate::container::ContainerJob;
use crate::field_error::FieldErrors;
use crate::ids::{EnvUuid, OrgId};
use crate::resource_name::ResourceName;
use crate::run_context::{ESCAPED_OPENING, OPENING};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// The inputs of a template that make secret outputs.
const SECRET_TEMPLATES: &str = "templates.secrets";

/// Who sees a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Exposure {
    /// It is stored and shown.
    Shown,
    /// It is sealed.
    Secret,
}

/// The values and the secrets of a driver's inputs.
type Inputs = (Map<String, Value>, Map<String, Value>);

/// What is known of the organization and the environment.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// The definitions, with the values of their secrets.
    pub definitions: &'a [Definition],
    /// The organization.
    pub org: &'a OrgId,
    /// The environment.
    pub target: MatchTarget<'a>,
    /// The environment's uuid.
    pub environment: EnvUuid,
    /// The outputs of resources that were read.
    pub outputs: &'a BTreeMap<ResourceName, ResourceOutputs>,
}

/// The outputs of a resource.
#[derive(Clone, Default)]
pub struct ResourceOutputs {
    /// Those that every reader of the environment sees.
    pub open: Outputs,
    /// The sensitive ones.
    pub secret: Outputs,
}

/// Without the values.
impl fmt::Debug for ResourceOutputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.open.keys().chain(self.secret.keys())).finish()
    }
}

/// What makes a resource.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The definition.
    pub definition: DefinitionId,
    /// The job.
    pub job: ResourceJob,
    /// Where it runs.
    pub placement: Placement,
    /// Whether the runner tries what the program will need before it starts that.
    pub checks: bool,
}

/// The job that makes a resource.
#[derive(Clone, Debug)]
pub enum ResourceJob {
    /// A container job.
    Container(Box<ContainerJob>),
    /// A module.
    Module(Box<DefinedModule>),
}

#[cfg(test)]
impl ResourceJob {
    pub(super) fn container(self) -> ContainerJob {
        match self {
            Self::Container(job) => *job,
            Self::Module(module) => panic!("{module:?} is no container job"),
        }
    }
}

/// The job that makes `name`, from its inputs `params`.
///
/// # Errors
///
/// [`ResolveError`]; after [`ResolveError::Unread`], with more outputs the next call goes further.
pub fn resolve(
    name: &ResourceName,
    params: &Map<String, Value>,
    known: Known<'_>,
) -> Result<Resolved, ResolveError> {
    let (stack, done, left) = (Vec::new(), BTreeMap::new(), MAX_RESOLVED);
    let mut resolver = Resolver { known, stack, done, left };
    let definition = choose(known.definitions, name, known.target)?;
    let unusable = |reason: String| unusable(definition, name, reason);
    if definition.driver.work() == DriverWork::Nothing {
        return Err(unusable(format!(
            "its driver `{}` runs nothing; other definitions can refer to its outputs",
            definition.driver
        )));
    }
    resolver.stack.push(name.clone());
    let (values, secret) = resolver.inputs(definition, name)?;
    let refused = |faults: FieldErrors| unusable(faults_text(&faults));
    let (job, place) = if definition.driver.work() == DriverWork::Module {
        let (read, faults) = module_job::read(&values, &secret, Some(params));
        let (module, place) = read.ok_or_else(|| refused(faults))?;
        (ResourceJob::Module(Box::new(module)), place)
    } else {
        let (read, faults) = container_job::read(definition.driver, &values, &secret, Some(params));
        let (job, place) = read.ok_or_else(|| refused(faults))?;
        (ResourceJob::Container(Box::new(job)), place)
    };
    let mut placement =
        Placement { cluster: place.cluster.clone(), job: place, ..Placement::default() };
    let mut checks = false;
    if let Some(config) = definition.driver.config() {
        checks = resolver.place(config, &mut placement, definition, name)?;
    }
    Ok(Resolved { definition: definition.id.clone(), job, placement, checks })
}

fn unusable(definition: &Definition, name: &ResourceName, reason: String) -> ResolveError {
    ResolveError::Unusable {
        definition: definition.id.clone(),
        resource: Box::new(name.clone()),
        reason,
    }
}

fn faults_text(faults: &FieldErrors) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

struct Resolver<'a> {
    known: Known<'a>,
    stack: Vec<ResourceName>,
    done: BTreeMap<ResourceName, Rc<Evaluated>>,
    /// How many more bytes references may stand for.
    left: usize,
}

impl Resolver<'_> {
    /// Where the job runs, as the outputs of `config` say. Returns whether they are checked first.
    fn place(
        &mut self,
        config: &str,
        placement: &mut Placement,
        of: &Definition,
        name: &ResourceName,
    ) -> Result<bool, ResolveError> {
        let config: ResourceName =
            config.parse().map_err(|error| unusable(of, name, format!("{error}")))?;
        let evaluated = match self.evaluate(&config) {
            // Without one, the job runs where the runner of the environment runs it.
            Err(ResolveError::Choose(ChooseError::None { name: missing, .. }))
                if *missing == config =>
            {
                Rc::default()
            }
            other => other?,
        };
        let Evaluated { outputs, secrets } = &*evaluated;
        let wrong = |what: &str| unusable(of, name, format!("`{config}` {what}"));
        match outputs.get("cluster") {
            Some(Value::Object(cluster)) => placement.cluster = Some(cluster.clone()),
            None | Some(Value::Null) => {}
            Some(_) => return Err(wrong("has an output `cluster` that is no object")),
        }
        let agent = secrets.get("agent_url").or_else(|| outputs.get("agent_url"));
        match agent {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if text.is_empty() => {}
            Some(Value::String(text)) => {
                let runner = text.strip_prefix(AGENT_URL).unwrap_or(text).parse();
                placement.agent =
                    Some(runner.map_err(|_| {
                        wrong("has an `agent_url` that is of no `humanitec/agent`")
                    })?);
            }
            Some(_) => return Err(wrong("has an output `agent_url` that is no text")),
        }
        match outputs.get("skip_permission_checks") {
            None | Some(Value::Null | Value::Bool(true)) => Ok(false),
            Some(Value::Bool(false)) => Ok(true),
            Some(_) => {
                Err(wrong("has an output `skip_permission_checks` that is neither true nor false"))
            }
        }
    }

    fn evaluate(&mut self, name: &ResourceName) -> Result<Rc<Evaluated>, ResolveError> {
        if let Some(done) = self.done.get(name) {
            return Ok(Rc::clone(done));
        }
        let is_cycle = self.stack.contains(name);
        if is_cycle || self.stack.len() >= MAX_DEPTH {
            let mut path = self.stack.clone();
            path.push(name.clone());
            return Err(if is_cycle {
                ResolveError::Cycle(path)
            } else {
                ResolveError::TooDeep(path)
            });
        }
        let definition = choose(self.known.definitions, name, self.known.target)?;
        if definition.driver.work() != DriverWork::Nothing {
            let outputs = self.known.outputs.get(name).cloned();
            let outputs = outputs.ok_or_else(|| ResolveError::Unread(name.clone()))?;
            let escaped = |outputs: Outputs| {
                outputs.into_iter().map(|(name, value)| (name, escaped(value))).collect()
            };
            let ResourceOutputs { open, secret } = outputs;
            let evaluated = Evaluated { outputs: escaped(open), secrets: escaped(secret) };
            return Ok(self.keep(name, evaluated));
        }
        self.stack.push(name.clone());
        let inputs = self.inputs(definition, name)?;
        self.stack.pop();
        let evaluated = outputs_of(definition, inputs, &mut self.left);
        let evaluated = evaluated.map_err(|reason| unusable(definition, name, reason))?;
        Ok(self.keep(name, evaluated))
    }

    fn keep(&mut self, name: &ResourceName, evaluated: Evaluated) -> Rc<Evaluated> {
        let evaluated = Rc::new(evaluated);
        self.done.insert(name.clone(), Rc::clone(&evaluated));
        evaluated
    }

    /// The inputs of the driver, with the values of their placeholders.
    fn inputs(
        &mut self,
        definition: &Definition,
        name: &ResourceName,
    ) -> Result<Inputs, ResolveError> {
        let (mut values, mut secret) = (definition.values.clone(), definition.secrets.clone());
        self.fill_in(&mut values, definition, name, Exposure::Shown)?;
        let mut filled = Ok(());
        secrets::each_leaf(&mut secret, "", &mut |_, leaf| {
            if filled.is_ok() && !secrets::close(leaf) {
                filled = self.fill_in(leaf, definition, name, Exposure::Secret);
                secrets::make_text(leaf);
            }
        });
        filled.map(|()| (values, secret))
    }

    /// Replaces the placeholders in the texts of `tree`.
    fn fill_in(
        &mut self,
        tree: &mut Map<String, Value>,
        definition: &Definition,
        name: &ResourceName,
        exposure: Exposure,
    ) -> Result<(), ResolveError> {
        placeholder::each_text_of::<ResolveError>(tree, "", &mut |path, text| {
            let written = text.as_str().unwrap_or_default();
            let parts = placeholder::parse(written)
                .map_err(|error| unusable(definition, name, error.to_string()))?;
            let is_secret = exposure == Exposure::Secret
                || (definition.driver == Driver::Template && path.starts_with(SECRET_TEMPLATES));
            let refers_to = |part: &Part| match part {
                Part::Output(reference) => Some(reference.clone()),
                Part::Text(_) | Part::Context(_) => None,
            };
            for reference in parts.iter().filter_map(refers_to).filter(|_| !is_secret) {
                self.refuse_secret(&reference, definition, name, path)?;
            }
            *text = self.value_of(&parts, definition, name)?;
            Ok(())
        })
    }

    fn value_of(
        &mut self,
        parts: &[Part],
        definition: &Definition,
        name: &ResourceName,
    ) -> Result<Value, ResolveError> {
        if let [Part::Output(reference)] = parts {
            return self.output(reference, definition, name);
        }
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Text(plain) => text.push_str(&plain.replace(OPENING, ESCAPED_OPENING)),
                Part::Context(key) => text.push_str(&self.context(key, name)),
                Part::Output(reference) => match self.output(reference, definition, name)? {
                    Value::String(plain) => text.push_str(&plain),
                    other => text.push_str(&other.to_string()),
                },
            }
        }
        Ok(Value::String(text))
    }

    /// What a key stands for. What only the run knows stays a reference, which the run fills in.
    fn context(&self, key: &str, name: &ResourceName) -> String {
        let Known { org, target, environment, .. } = self.known;
        match key {
            "res.id" => name.id().to_owned(),
            "res.guresid" => hex::encode(name.digest_in(environment)),
            key => match placeholder::canyons_key(key) {
                Some("org.id") => org.to_string(),
                Some("project.id") => target.project.to_string(),
                Some("env.id") => target.env.to_string(),
                Some("env_type.id") => target.env_type.to_string(),
                Some(of_run) => format!("{OPENING}{of_run}}}"),
                None => String::new(),
            },
        }
    }

    /// Refuses a reference to a secret output where its value would be shown.
    fn refuse_secret(
        &mut self,
        reference: &OutputReference,
        definition: &Definition,
        name: &ResourceName,
        path: &str,
    ) -> Result<(), ResolveError> {
        let other = referred(reference, definition, name)?;
        let evaluated = self.evaluate(&other)?;
        let Evaluated { outputs, secrets } = &*evaluated;
        let first = reference.path.first().map_or("", String::as_str);
        if outputs.contains_key(first) || !secrets.contains_key(first) {
            return Ok(());
        }
        let (definition, resource) = (definition.id.clone(), Box::new(other));
        let (path, output) = (format!("values.{path}"), first.to_owned());
        Err(ResolveError::Exposed { definition, path, resource, output })
    }

    fn output(
        &mut self,
        reference: &OutputReference,
        definition: &Definition,
        name: &ResourceName,
    ) -> Result<Value, ResolveError> {
        let path = &reference.path;
        let other = referred(reference, definition, name)?;
        let evaluated = self.evaluate(&other)?;
        let Evaluated { outputs, secrets } = &*evaluated;
        let names: Vec<_> = path.iter().map(String::as_str).collect();
        let found = secrets::at(outputs, &names).or_else(|| secrets::at(secrets, &names));
        let found = found.ok_or_else(|| ResolveError::NoOutput {
            definition: definition.id.clone(),
            resource: Box::new(other),
            output: path.join("."),
            known: outputs.keys().chain(secrets.keys()).cloned().collect(),
        })?;
        let is_within = spend(&mut self.left, found);
        is_within.map(|()| found.clone()).map_err(|reason| unusable(definition, name, reason))
    }
}

/// The resource that a reference of the definition of `name` is to.
fn referred(
    reference: &OutputReference,
    definition: &Definition,
    name: &ResourceName,
) -> Result<ResourceName, ResolveError> {
    let OutputReference { resource_type, class, id, .. } = reference;
    let class = class.as_deref().unwrap_or(name.class());
    let id = id.as_deref().unwrap_or(name.id());
    format!("{resource_type}.{class}#{id}").parse().map_err(|error| {
        unusable(definition, name, format!("it refers to a resource that {error}"))
    })
}
