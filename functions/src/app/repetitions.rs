//! Requests that the network delivers twice. The second delivery may come after a later change, and would undo it: it
//! could adopt an agent again that was adopted and then rejected.

use super::App;
use crate::app::error::AppError;
use canyon_api::nonce::REPEATED;
use canyon_domain::principal::Principal;
use canyon_store::api_rate_limit::{Decision, RateLimit};
use std::time::Duration;

/// A request with the same nonce is carried out once in a day.
const ONCE: RateLimit = RateLimit { burst: 1, interval: Duration::from_hours(24) };

impl App {
    /// Passes once for each nonce of a caller's requests.
    ///
    /// # Errors
    ///
    /// 409 when a request of this caller had the same nonce before.
    pub(crate) async fn refuse_repetition(
        &self,
        by: &Principal,
        nonce: &str,
    ) -> Result<(), AppError> {
        let name = format!("asks#{}#{}#{nonce}", by.org, by.caller());
        match self.table.allow(&name, ONCE, self.now()).await? {
            Decision::Allowed { .. } => Ok(()),
            Decision::RetryAfter(_) => {
                let message = "this request was carried out before, and is not carried out a second time: the network \
                    has delivered it twice. Check the result of the first one, and send a new request if you need \
                    another";
                Err(AppError::conflict(message).with_detail("code", REPEATED))
            }
        }
    }
}
