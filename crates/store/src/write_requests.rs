//! Hints about a write request to the table, from its bytes. Other text may match too.

use crate::keys::due_at;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::deployment;
    use canyon_domain::ids::OrgUuid;
    use uuid::Uuid;

    #[test]
    fn the_deployments_that_a_request_names_are_found_in_it() {
        let (of, ids) =
            (OrgUuid(Uuid::from_u128(7)), [1, 2].map(|n| DeploymentId(Uuid::from_u128(n))));
        let keys = ids.map(|id| deployment(of, id).pk);
        let request = format!(
            r##"{{"a":{{"S":"{}"}},"b":"{}","c":"x#dep#","d":"#dep#0#"}}"##,
            keys[0], keys[1]
        );
        assert_eq!(deployments_in(request.as_bytes()).collect::<Vec<_>>(), ids);
        assert_eq!(deployments_in(keys[0].as_bytes()).collect::<Vec<_>>(), ids[..1]);
        assert_eq!(deployments_in(b"#dep").count(), 0);
    }

    #[test]
    fn a_request_makes_something_due_if_one_of_its_due_times_has_come() {
        let now = Timestamp::from_millisecond(1_700_000_000_000).unwrap();
        let request = |times: &[i64]| {
            let item = |ms: &i64| {
                let at = due_at(Timestamp::from_millisecond(*ms).unwrap());
                format!(
                    r#"{{"Put":{{"Item":{{"gsi2pk":{{"S":"due#1"}},"gsi2sk":{{"S":"{at}"}}}}}}}}"#
                )
            };
            times.iter().map(item).collect::<String>().into_bytes()
        };
        let (past, future) = (1_699_999_999_999, 1_700_000_000_001);
        assert!(makes_due(&request(&[past]), now));
        assert!(makes_due(&request(&[1_700_000_000_000]), now));
        assert!(makes_due(&request(&[future, past]), now));
        assert!(!makes_due(&request(&[future, future]), now));
        assert!(!makes_due(&request(&[]), now));
        assert!(!makes_due(br#"{"Key":{"gsi2sk"#, now));
    }
}
