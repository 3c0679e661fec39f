//! Changes that a network carries twice. The second one may come after a later change, which it would undo: an agent that
//! was adopted, and rejected then, would be adopted again.

use super::App;
use crate::app::error::AppError;
use canyon_api::ask::REPEATED;
use canyon_domain::principal::Principal;
use canyon_store::allowance::{Allowance, Allowed};
use std::time::Duration;

/// A change with one word is carried out once in a day.
const ONCE: Allowance = Allowance { burst: 1, interval: Duration::from_hours(24) };

impl App {
    /// Passes once for each word of a caller's requests.
    ///
    /// # Errors
    ///
    /// 409 when a request of this caller has brought the word before.
    pub(crate) async fn refuse_repetition(
        &self,
        by: &Principal,
        word: &str,
    ) -> Result<(), AppError> {
        let name = format!("asks#{}#{}#{word}", by.org, by.caller());
        match self.table.allow(&name, ONCE, self.now()).await? {
            Allowed::Yes { .. } => Ok(()),
            Allowed::After(_) => {
                let message = "this very request came before, and is not carried out a second time: something on the \
                    network has repeated it. Look what the first one did, and ask anew if that is not enough";
                Err(AppError::conflict(message).with_detail("code", REPEATED))
            }
        }
    }
}
