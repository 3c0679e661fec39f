//! Chooses the definition of a resource.
//!
//! Of the definitions of its type, one of whose criteria fits, the most specific one counts: first that which names the
//! resource's id, then the environment, then the project, then the type of the environment.

use super::criterion::{Criterion, MatchTarget};
use super::{Definition, DefinitionId};
use crate::resource_name::ResourceName;
use std::cmp::Reverse;

/// A definition that was considered for a resource.
#[derive(Clone, Debug)]
pub struct Considered<'d> {
    /// The definition.
    pub definition: &'d Definition,
    /// Its most specific criterion that fits.
    pub fitting: Option<&'d Criterion>,
    /// Why it was taken or not, as the rest of a sentence.
    pub reason: String,
    /// Whether it was taken.
    pub is_chosen: bool,
}

/// Why no definition could be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChooseError {
    /// None fits.
    #[error(
        "no resource definition fits `{name}`{}: see `canyon explain resource {project} {env} {name}`, or add one with \
         `canyon create -f FILE`", if *.others == 0 { " (there is none of its type)" } else { "" }
    )]
    None {
        /// The resource.
        name: Box<ResourceName>,
        /// How many definitions of its type there are.
        others: usize,
        /// The project.
        project: String,
        /// The environment.
        env: String,
    },
    /// Two fit equally well.
    #[error(
        "resource definitions `{0}` and `{1}` fit `{2}` equally well: make the criteria of one of them more specific"
    )]
    Equal(DefinitionId, DefinitionId, Box<ResourceName>),
}

/// Every definition of the resource's type: first the chosen one, then those that fit, then the others.
pub fn consider<'d>(
    definitions: &'d [Definition],
    name: &ResourceName,
    target: MatchTarget<'_>,
) -> Vec<Considered<'d>> {
    let of_type = definitions.iter().filter(|one| one.is_for(name.resource_type()));
    let mut all: Vec<_> = of_type.map(|definition| considered(definition, name, target)).collect();
    all.sort_by_key(|one| {
        (Reverse(one.fitting.map(Criterion::specificity)), one.definition.id.clone())
    });
    let best = all.first().and_then(|one| one.fitting).map(Criterion::specificity);
    let equal = all.iter().filter(|one| one.fitting.map(Criterion::specificity) == best).count();
    let Some(best) = best else { return all };
    let chosen = all[0].definition.id.clone();
    for one in all.iter_mut().filter(|one| one.fitting.is_some()) {
        let fits = one.fitting.map(ToString::to_string).unwrap_or_default();
        let is_best = one.fitting.map(Criterion::specificity) == Some(best);
        one.is_chosen = is_best && equal == 1;
        one.reason = match (is_best, equal) {
            (true, 1) => format!("fits by its criterion ({fits}), and no other is more specific"),
            (true, _) => format!("fits by its criterion ({fits}), as others do equally well"),
            (false, _) => {
                format!(
                    "fits by its criterion ({fits}), which is less specific than that of `{chosen}`"
                )
            }
        };
    }
    all
}

/// The definition of the resource `name` in the environment `target`.
///
/// # Errors
///
/// [`ChooseError`] if none fits, or two fit equally well.
pub fn choose<'d>(
    definitions: &'d [Definition],
    name: &ResourceName,
    target: MatchTarget<'_>,
) -> Result<&'d Definition, ChooseError> {
    let all = consider(definitions, name, target);
    let fitting: Vec<_> = all.iter().filter(|one| one.fitting.is_some()).collect();
    match (all.iter().find(|one| one.is_chosen), fitting.as_slice()) {
        (Some(chosen), _) => Ok(chosen.definition),
        (None, [first, second, ..]) => {
            let (first, second) = (&first.definition.id, &second.definition.id);
            Err(ChooseError::Equal(first.clone(), second.clone(), Box::new(name.clone())))
        }
        (None, _) => Err(ChooseError::None {
            name: Box::new(name.clone()),
            others: all.len(),
            project: target.project.to_string(),
            env: target.env.to_string(),
        }),
    }
}

fn considered<'d>(
    definition: &'d Definition,
    name: &ResourceName,
    target: MatchTarget<'_>,
) -> Considered<'d> {
    let fitting = definition.criteria.iter().filter(|one| one.mismatch(name, target).is_none());
    let fitting = fitting.max_by_key(|one| one.specificity());
    let mismatch =
        |one: &Criterion| one.mismatch(name, target).map(|reason| format!("({one}): {reason}"));
    let mismatches: Vec<_> = definition.criteria.iter().filter_map(mismatch).collect();
    let reason = match mismatches.as_slice() {
        [] => "has no criteria, so it fits nothing".to_owned(),
        all => format!("does not fit: {}", all.join("; ")),
    };
    Considered { definition, fitting, reason, is_chosen: false }
}

/// The definition of `others` that has a criterion of `definition` too, and the criterion: of two such definitions, neither
/// could be chosen.
pub fn rival<'d>(
    definition: &'d Definition,
    others: impl IntoIterator<Item = &'d Definition>,
) -> Option<(&'d DefinitionId, &'d Criterion)> {
    let mut rivals = others.into_iter().filter(|other| {
        other.id != definition.id && other.resource_type == definition.resource_type
    });
    rivals.find_map(|other| {
        let same = definition.criteria.iter().find(|one| other.criteria.contains(one))?;
        Some((&other.id, same))
    })
}
