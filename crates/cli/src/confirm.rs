//! Asks for confirmation before a command destroys something.

use crate::error::CliError;
use crate::output::Output;
use rustix::termios::{QueueSelector, tcflush};
use std::io::{self, IsTerminal};
use tokio::sync::oneshot;

/// Whether the user can answer a question. The question is on stderr, so results may be redirected.
pub(crate) fn is_possible() -> bool {
    io::stdin().is_terminal() && is_stderr_terminal()
}

/// Whether the user sees what the command prints on stderr.
pub(crate) fn is_stderr_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Refuses a destructive action unless the user can be asked, or has given `--yes`.
///
/// # Errors
///
/// [`CliError::Usage`], whose message names the `action`.
pub(crate) fn require_yes(yes: bool, action: &str) -> Result<(), CliError> {
    if yes || is_possible() {
        return Ok(());
    }
    Err(CliError::usage_with_hint(
        format!("this would {action}, and there is no terminal to ask for confirmation"),
        "give --yes to do it without confirmation",
    ))
}

/// Refuses a second confirmation that names another thing than `name`, or that is missing where the user cannot be asked.
///
/// # Errors
///
/// [`CliError::Usage`], whose message names the `action`.
pub(crate) fn require_name(given: Option<&str>, name: &str, action: &str) -> Result<(), CliError> {
    match given {
        Some(given) if given != name => Err(CliError::usage_with_hint(
            format!("this would {action}, and `--confirm` names `{given}`"),
            format!("give --confirm {name} to do it"),
        )),
        None if !is_possible() => Err(CliError::usage_with_hint(
            format!(
                "this would {action}, and there is no terminal to ask for the second confirmation"
            ),
            format!("give --confirm {name} to do it without a question"),
        )),
        Some(_) | None => Ok(()),
    }
}

/// Waits until Ctrl-C is pressed.
pub(crate) async fn ctrl_c() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Asks whether to do `action`, and returns if the user answers `yes`. `interrupted` ends the question.
///
/// # Errors
///
/// [`CliError::NotConfirmed`] after any other answer or none; [`CliError::Interrupted`].
pub(crate) async fn ask(
    action: &str,
    interrupted: impl Future<Output = ()>,
    output: Output,
) -> Result<(), CliError> {
    let question = format!("{}? Only `yes` is accepted:", capitalized(action));
    ask_for(&question, "yes", interrupted, output).await
}

/// Asks the `question`, and returns if the user types `wanted`. `interrupted` ends the question.
///
/// # Errors
///
/// [`CliError::NotConfirmed`] after any other answer or none; [`CliError::Interrupted`].
pub(crate) async fn ask_for(
    question: &str,
    wanted: &str,
    interrupted: impl Future<Output = ()>,
    output: Output,
) -> Result<(), CliError> {
    // Input typed before the question is not an answer to it.
    let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    output.question(question);
    let (sender, answer) = oneshot::channel();
    // At its end the runtime would wait for a blocking thread of its own, and this read may never return.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line);
        let _ = sender.send(read.map_or_else(|_| String::new(), |_| line));
    });
    let line = tokio::select! {
        line = answer => line.unwrap_or_default(),
        () = interrupted => {
            output.notice("");
            return Err(CliError::Interrupted);
        }
    };
    if !line.ends_with('\n') {
        output.notice("");
    }
    if line.trim() == wanted { Ok(()) } else { Err(CliError::NotConfirmed) }
}

fn capitalized(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().into_iter().flat_map(char::to_uppercase).chain(rest.clone()).collect()
}
