//! The upload quotas of an organization and of each of its callers. Archives are kept as long as a destroy or rollback
//! may need them, so the uploads of a caller in a loop would cost storage permanently.

use super::App;
use crate::app::error::AppError;
use canyon_domain::principal::Principal;
use canyon_store::api_rate_limit::{Decision, RateLimit};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// MiB for each day: 256 archives of the largest size.
const IN_A_DAY: u32 = 16 * 1024;
const OF_AN_ORGANIZATION: RateLimit = RateLimit {
    burst: IN_A_DAY,
    interval: Duration::from_millis(24 * 60 * 60 * 1_000 / IN_A_DAY as u64),
};

/// Half of that, so that one caller leaves room for the others.
const OF_A_CALLER: RateLimit = RateLimit {
    burst: IN_A_DAY / 2,
    interval: Duration::from_millis(24 * 60 * 60 * 1_000 / (IN_A_DAY / 2) as u64),
};

impl App {
    /// Counts an upload of `size` bytes, rounded up to whole MiB.
    ///
    /// # Errors
    ///
    /// 429 if the caller or its organization has uploaded too much recently, with the time after which there is quota for
    /// this upload.
    pub(crate) async fn take_upload(&self, by: &Principal, size: u64) -> Result<(), AppError> {
        let units = u32::try_from(size.div_ceil(MIB)).unwrap_or(u32::MAX);
        let of_org = format!("uploads#{}", by.org);
        let of_caller = format!("{of_org}#{}", by.id);
        for (name, allowance, who, most) in [
            (of_caller, OF_A_CALLER, "this caller", "8 GiB"),
            (of_org, OF_AN_ORGANIZATION, "this organization", "16 GiB"),
        ] {
            let allowed = self.table.allow_units(&name, allowance, units, self.now()).await?;
            if let Decision::RetryAfter(pause) = allowed {
                let message = format!(
                    "{who} has uploaded {most} of modules within a day, which is the most; upload less often, or have \
                     modules fetched from Git"
                );
                return Err(AppError::too_many(message, pause));
            }
        }
        Ok(())
    }
}
