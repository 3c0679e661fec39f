//! Uploaded modules.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// The largest archive, in bytes.
pub const MAX_ARCHIVE: usize = 64 * 1024 * 1024;

/// The largest archive that every installation takes and gives through the API itself, in bytes. A
/// larger one goes past it where the API runs on Lambda: what Lambda hears and says has at most
/// 6 MB, and bytes become a third more in it, since they are written in base64.
pub const MAX_DIRECT: usize = 4 * 1024 * 1024;

/// As what a run's module is answered. (The published contract names it so.)
pub const GZIP: &str = "application/x-gzip";

/// A request to upload an archive past the API.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArchiveUploadBody {
    /// How many bytes it has.
    #[schema(minimum = 1, maximum = 67_108_864)]
    pub size_bytes: u64,
}

/// Where an archive may be uploaded, once or more, by whoever holds this. No `Debug`: the address
/// is a secret for as long as it is good.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArchiveUpload {
    /// The address. It takes a `PUT`, and no token of Canyon.
    pub url: String,
    /// Headers that the request must have, just so. They bind it to the archive's SHA-256.
    pub headers: BTreeMap<String, String>,
    /// Until when the upload may begin.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}
