//! Which name a misspelt one probably stands for.
//!
//! clap suggests every command whose letters are similar, for `destory` also `deploy`. A wrong command that runs does
//! harm, so only the closest names are suggested, and only within a few typing errors.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The names with the fewest typing errors (a letter too many, too few, wrong, or swapped with the next): at most one in
/// three letters.
pub(crate) fn closest<'n>(given: &str, names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    let limit = (given.chars().count() / 3).max(1);
    let errors = |name: &'n str| (strsim::osa_distance(given, name), name);
    let near: Vec<_> = names.into_iter().map(errors).filter(|(count, _)| *count <= limit).collect();
    let least = near.iter().map(|(count, _)| *count).min();
    near.into_iter().filter(|(count, _)| Some(*count) == least).map(|(_, name)| name).collect()
}

/// Commands of other programs, and ours that do the same.
const OF_OTHERS: [(&str, &str); 2] = [("up", "deploy"), ("down", "destroy")];

/// What Rust says of a text that is no number, and what `canyon` says.
const OF_NUMBERS: [(&str, &str); 4] = [
    ("invalid digit found in string", "it is not a whole number from 0 on"),
    ("cannot parse integer from empty string", "it is empty, and not a number"),
    ("number too large to fit in target type", "the number is too large"),
    ("number would be zero for non-zero type", "the number must be at least 1"),
];

/// The text of an error about a number; none for any other error.
pub(crate) fn without_rust_words(error: &clap::Error) -> Option<String> {
    let text = error.render().to_string();
    let (rust, ours) = OF_NUMBERS.iter().find(|(rust, _)| text.contains(rust))?;
    (error.kind() == ErrorKind::ValueValidation).then(|| text.replace(rust, ours))
}

/// The same error with only the closest commands as suggestions.
pub(crate) fn narrow(mut error: clap::Error) -> clap::Error {
    let text = |value: Option<&ContextValue>| match value {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    };
    let of_others = text(error.get(ContextKind::InvalidSubcommand));
    if let [(_, ours)] =
        OF_OTHERS.iter().filter(|(name, _)| of_others == [*name]).collect::<Vec<_>>()[..]
    {
        let ours = ContextValue::Strings(vec![(*ours).to_owned()]);
        error.insert(ContextKind::SuggestedSubcommand, ours);
        return error;
    }
    let suggested = text(error.get(ContextKind::SuggestedSubcommand));
    if let [given] = text(error.get(ContextKind::InvalidSubcommand)).as_slice()
        && !suggested.is_empty()
    {
        let kept = closest(given, suggested.iter().map(String::as_str));
        let kept: Vec<String> = kept.into_iter().map(str::to_owned).collect();
        // clap would print an empty list.
        error.remove(ContextKind::SuggestedSubcommand);
        if !kept.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(kept));
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Cli;
    use clap::Parser as _;

    #[test]
    fn a_misspelt_command_suggests_only_the_closest_ones() {
        for (given, expected) in [
            ("destory", Some("a similar subcommand exists: 'destroy'\n")),
            ("deplyo", Some("a similar subcommand exists: 'deploy'\n")),
            ("delte", Some("a similar subcommand exists: 'delete'\n")),
            ("rolback", Some("a similar subcommand exists: 'rollback'\n")),
            ("stauts", Some("a similar subcommand exists: 'status'\n")),
            ("remove", None),
            ("terminate", None),
        ] {
            let error = narrow(Cli::try_parse_from(["canyon", given]).unwrap_err()).to_string();
            let tip =
                error.split_once("tip: ").map(|(_, tip)| tip.split_inclusive('\n').next().unwrap());
            assert_eq!(tip, expected, "{given}: {error}");
        }
    }

    #[test]
    fn equally_close_names_are_all_suggested() {
        assert_eq!(closest("prod3", ["prod1", "prod2", "dev"]), ["prod1", "prod2"]);
        assert_eq!(closest("de", ["dev", "test"]), ["dev"]);
        assert!(closest("staging", ["production", "dev"]).is_empty());
    }
}
