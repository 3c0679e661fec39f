//! Which resources a change of the definitions concerns.

use super::criterion::MatchTarget;
use super::matching::choose;
use super::{Definition, DefinitionId};
use crate::ids::{EnvId, ProjectId};
use crate::inventory::Environment;
use crate::resource_name::ResourceName;

/// A resource that would get another definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Affected {
    /// Its project.
    pub project: ProjectId,
    /// Its environment.
    pub env: EnvId,
    /// The resource.
    pub resource: ResourceName,
    /// Its definition before.
    pub before: Option<DefinitionId>,
    /// Its definition after the change.
    pub after: Option<DefinitionId>,
}

/// The resources of `environment` whose definition differs between `before` and `after`.
pub fn affected(
    environment: &Environment,
    before: &[Definition],
    after: &[Definition],
) -> Vec<Affected> {
    let Environment { project_id, id, env_type_id, .. } = environment;
    let target = MatchTarget { env_type: env_type_id, project: project_id, env: id };
    let chosen = |among: &[Definition], name: &ResourceName| {
        choose(among, name, target).ok().map(|chosen| chosen.id.clone())
    };
    let compare = |name: &ResourceName| {
        let (before, after) = (chosen(before, name), chosen(after, name));
        let (project, env, resource) = (project_id.clone(), id.clone(), name.clone());
        (before != after).then_some(Affected { project, env, resource, before, after })
    };
    environment.resources.iter().filter_map(|resource| compare(&resource.name)).collect()
}
