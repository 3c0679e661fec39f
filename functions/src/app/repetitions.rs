//! Requests that the network delivers twice. The second delivery may come after a later change, and would undo it: it
//! could adopt an agent again that was adopted and then rejected.

use super::App;
use crate::app::error::AppError;
use canyon_api::nonce::REPEATED;
use canyon_domain::principal::Principal;
use canyon_store::nonces::Nonce;

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
        match self.table.use_nonce(by.org, &by.caller(), nonce, self.now()).await? {
            Nonce::New => Ok(()),
            Nonce::Used => {
                let message = "this request was carried out before, and is not carried out a second time: the network \
                    has delivered it twice. Check the result of the first one, and send a new request if you need \
                    another";
                Err(AppError::conflict(message).with_detail("code", REPEATED))
            }
        }
    }
}
