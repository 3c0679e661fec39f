//! Why a resource cannot be made by the definitions.

use super::DefinitionId;
use super::matching::ChooseError;
use crate::resource_name::ResourceName;

/// The longest chain of references.
pub(super) const MAX_DEPTH: usize = 16;

/// Why a resource cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// It has no definition.
    #[error(transparent)]
    Choose(#[from] ChooseError),
    /// The outputs of this resource must be read first.
    #[error("the outputs of `{0}` are not read yet")]
    Unread(ResourceName),
    /// Definitions refer to each other.
    #[error("resource definitions refer to each other in a circle: {}", path(.0))]
    Cycle(Vec<ResourceName>),
    /// A chain is too long.
    #[error("resource definitions refer to each other over more than {MAX_DEPTH} steps: {}", path(.0))]
    TooDeep(Vec<ResourceName>),
    /// A reference is to nothing.
    #[error("resource definition `{definition}` refers to output `{output}` of `{resource}`, which has {}", named(.known))]
    NoOutput {
        /// The definition.
        definition: DefinitionId,
        /// The resource that it refers to.
        resource: Box<ResourceName>,
        /// The output.
        output: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A reference to a secret output stands where it would be shown.
    #[error(
        "resource definition `{definition}` refers in `{path}` to output `{output}` of `{resource}`, which is secret: refer to it in \
         `secret_refs`, as the whole `value`"
    )]
    Exposed {
        /// The definition.
        definition: DefinitionId,
        /// Where the reference is.
        path: String,
        /// The resource that it refers to.
        resource: Box<ResourceName>,
        /// The output.
        output: String,
    },
    /// The definition cannot be used for this resource.
    #[error("resource definition `{definition}` cannot be used for `{resource}`: {reason}")]
    Unusable {
        /// The definition.
        definition: DefinitionId,
        /// The resource.
        resource: Box<ResourceName>,
        /// Why.
        reason: String,
    },
}

fn path(of: &[ResourceName]) -> String {
    of.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" → ")
}

fn named(known: &[String]) -> String {
    match known {
        [] => "no outputs".to_owned(),
        known => format!("the outputs `{}`", known.join("`, `")),
    }
}
