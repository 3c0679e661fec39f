//! Numbers of resources in texts.

use std::fmt;

/// A number of resources, as in `1 resource` and `2 resources`.
///
/// ```
/// use canyon_domain::resource_count::Resources;
/// assert_eq!([Resources(0), Resources(1)].map(|count| count.to_string()), ["0 resources", "1 resource"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources(pub u32);

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count) = self;
        write!(f, "{count} resource{}", if *count == 1 { "" } else { "s" })
    }
}
