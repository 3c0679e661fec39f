//! Uploaded modules.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Largest archive, in bytes.
pub const MAX_ARCHIVE_BYTES: usize = 64 * 1024 * 1024;

/// Largest archive that every installation transfers through the API itself, in bytes. If the API
/// runs on Lambda, a larger one goes directly to the object store: a request or response of Lambda
/// has at most 6 MB, and base64 adds a third.
pub const MAX_DIRECT_BYTES: usize = 4 * 1024 * 1024;

/// Media type of a run's module in an answer. The published contract requires this name.
pub const GZIP: &str = "application/x-gzip";

/// A request for a presigned URL to upload an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ArchiveUploadBody {
    /// Size of the archive in bytes.
    #[schema(minimum = 1, maximum = 67_108_864)]
    pub size_bytes: u64,
}

/// A presigned URL, with which a client may upload an archive once or more. No `Debug`: the URL is
/// a secret until it expires.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ArchiveUpload {
    /// The URL for a `PUT` without a token of Canyon.
    pub url: String,
    /// Headers that the request must have exactly. They bind the URL to the archive's SHA-256.
    pub headers: BTreeMap<String, String>,
    /// Time until which an upload may begin.
    #[schema(value_type = String, format = DateTime)]
    pub expires_at: Timestamp,
}
