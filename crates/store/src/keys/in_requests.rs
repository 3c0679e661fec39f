//! Hints about a write request to the table, from its bytes. Other text may match too.

use super::due_at;
use crate::table::GSI2;
use canyon_domain::ids::DeploymentId;
use jiff::Timestamp;

/// The deployments whose keys occur in a request to the table.
pub fn deployments_in(request: &[u8]) -> impl Iterator<Item = DeploymentId> {
    after(request, b"#dep#").filter_map(|rest| {
        let end = rest.iter().position(|byte| !(byte.is_ascii_hexdigit() || *byte == b'-'));
        let id = rest.get(..end.unwrap_or(rest.len()))?;
        std::str::from_utf8(id).ok()?.parse().ok()
    })
}

/// Whether a write request puts an item that is due by `now`: its sort key in `gsi2` is `now` or earlier. An update by an expression does
/// not count: Canyon's only one sets a later time.
pub fn makes_due(request: &[u8], now: Timestamp) -> bool {
    let now = due_at(now);
    let mark = format!(r#""{}":{{"S":""#, GSI2.sk);
    after(request, mark.as_bytes())
        .any(|key| key.get(..now.len()).is_none_or(|key| key <= now.as_bytes()))
}

/// The rest of the request after each occurrence of `mark`.
fn after<'a>(request: &'a [u8], mark: &[u8]) -> impl Iterator<Item = &'a [u8]> {
    let starts = request.windows(mark.len()).enumerate().filter(move |(_, part)| *part == mark);
    starts.filter_map(move |(start, _)| request.get(start + mark.len()..))
}
