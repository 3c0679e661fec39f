//! The name of a resource of an environment: `type.class#id`.

use crate::dns_label::is_dns_label;
use crate::ids::EnvUuid;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{fmt, str::FromStr};

/// The class, and the id, of a resource whose name leaves it out.
const DEFAULT_CLASS: &str = "default";
const DEFAULT_ID: &str = "main";
/// Maximum length of a name as a whole, in bytes.
const MAX_NAME: usize = 150;

/// The name of a resource, unique in its environment.
///
/// ```
/// use canyon_domain::resource_name::ResourceName;
///
/// let photos: ResourceName = "s3#photos".parse()?;
/// assert_eq!(photos.to_string(), "s3.default#photos");
/// assert_eq!(photos, "s3.default#photos".parse()?);
/// assert_eq!("s3".parse::<ResourceName>()?.to_string(), "s3.default#main");
/// # Ok::<(), canyon_domain::resource_name::InvalidResourceName>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceName {
    resource_type: String,
    class: String,
    id: String,
}

/// Why a text is no name of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be TYPE, TYPE#ID or TYPE.CLASS#ID, such as `s3#photos`: each part has lower case letters, digits and hyphens, at most \
     63, and starts and ends with a letter or digit; an id may also have dots; at most {MAX_NAME} bytes together"
)]
pub struct InvalidResourceName;

impl ResourceName {
    /// What it is, such as `s3`.
    pub fn resource_type(&self) -> &str {
        &self.resource_type
    }

    /// Which variant of the type it is.
    pub fn class(&self) -> &str {
        &self.class
    }

    /// Which one of its type and class it is.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl ResourceName {
    /// 16 bytes that are different for each resource of each environment.
    pub fn digest_in(&self, environment: EnvUuid) -> [u8; 16] {
        let digest = Sha256::digest(format!("{environment}#{self}"));
        let mut short = [0; 16];
        short.copy_from_slice(&digest[..16]);
        short
    }

    /// What names the state of the resource, as the uuid of an environment names that of its module.
    pub fn state_id(&self, environment: EnvUuid) -> EnvUuid {
        EnvUuid(uuid::Builder::from_custom_bytes(self.digest_in(environment)).into_uuid())
    }
}

impl FromStr for ResourceName {
    type Err = InvalidResourceName;

    fn from_str(text: &str) -> Result<Self, InvalidResourceName> {
        let (what, id) = text.split_once('#').unwrap_or((text, DEFAULT_ID));
        let (resource_type, class) = what.split_once('.').unwrap_or((what, DEFAULT_CLASS));
        let is_id = id.split('.').all(is_dns_label);
        if text.len() > MAX_NAME || !is_dns_label(resource_type) || !is_dns_label(class) || !is_id {
            return Err(InvalidResourceName);
        }
        Ok(Self {
            resource_type: resource_type.to_owned(),
            class: class.to_owned(),
            id: id.to_owned(),
        })
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}#{}", self.resource_type, self.class, self.id)
    }
}

impl TryFrom<String> for ResourceName {
    type Error = InvalidResourceName;

    fn try_from(text: String) -> Result<Self, InvalidResourceName> {
        text.parse()
    }
}

impl From<ResourceName> for String {
    fn from(name: ResourceName) -> Self {
        name.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_name_is_refused() {
        for text in [
            "", "#a", "s3#", "S3#a", "s3.#a", "s3.a.b#c", "s3#a#b", "s3# a", "-s3", "s3#.a",
            "s3#a..b",
        ] {
            assert_eq!(text.parse::<ResourceName>(), Err(InvalidResourceName), "{text}");
        }
        assert!(format!("s3#{}", "a.".repeat(80)).parse::<ResourceName>().is_err());
    }

    proptest! {
        #[test]
        fn a_name_reads_back(text in "[a-z0-9.#-]{1,20}") {
            if let Ok(name) = text.parse::<ResourceName>() {
                prop_assert_eq!(name.to_string().parse(), Ok(name));
            }
        }
    }
}
