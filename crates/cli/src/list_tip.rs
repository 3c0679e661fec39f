//! `canyon get runners`: the command that lists is another one.

use crate::examples;
use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The same error; with a tip about `canyon list`, if `canyon get` got the name of a list and no id.
pub(crate) fn of_list(mut error: clap::Error, given: &[String]) -> clap::Error {
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let after_get = given.iter().skip_while(|one| **one != "get").nth(1);
    let lists = examples::command();
    let lists = lists.find_subcommand("list").into_iter().flat_map(clap::Command::get_subcommands);
    if error.kind() == ErrorKind::MissingRequiredArgument
        && let Some(list) = lists.map(clap::Command::get_name).find(|list| Some(list) == after_get)
    {
        let tip = StyledStr::from(format!("`canyon list {list}` shows all of them"));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Cli;
    use clap::Parser as _;

    #[test]
    fn get_with_the_name_of_a_list_and_no_id_names_the_list() {
        for (line, expected) in [
            ("get runners", Some("tip: `canyon list runners` shows all of them")),
            (
                "--org a get environments shop",
                Some("tip: `canyon list environments` shows all of them"),
            ),
            ("get runner", None),
            ("delete runners", None),
        ] {
            let given: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let arguments = std::iter::once("canyon".to_owned()).chain(given.clone());
            let error = Cli::try_parse_from(arguments).unwrap_err();
            let error = of_list(error, &given).to_string();
            let tip = error.lines().map(str::trim).find(|line| line.starts_with("tip:"));
            assert_eq!(tip, expected, "{line}: {error}");
        }
    }
}
