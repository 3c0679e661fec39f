//! The names of principals, which records show after the tokens and service accounts are gone.

use crate::ids::PrincipalId;
use serde::{Deserialize, Serialize};

/// The maximum length of a name, in characters. The rest is left out.
const MAX_NAME: usize = 100;

/// A principal's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownPrincipal {
    /// The principal.
    pub id: PrincipalId,
    /// Its name, for users: a person's name, the id of a service account, or the description of a token.
    pub name: String,
}

impl KnownPrincipal {
    /// A principal with this name, which comes from outside. `None` if nothing of the name can be shown.
    pub fn new(id: PrincipalId, name: &str) -> Option<Self> {
        let shown: String = name.chars().filter(|char| is_shown(*char)).take(MAX_NAME).collect();
        let shown = shown.trim();
        (!shown.is_empty()).then(|| Self { id, name: shown.to_owned() })
    }
}

/// Control characters, and those that only change the direction of text or have no width, could make one name look like
/// another (Unicode Technical Report 36, section 2.5).
fn is_shown(char: char) -> bool {
    let is_format = matches!(char, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}' | '\u{feff}');
    !char.is_control() && !is_format
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn a_name_is_one_short_line() {
        let name =
            |text: &str| KnownPrincipal::new(PrincipalId(Uuid::nil()), text).map(|it| it.name);
        assert_eq!(name("Ada\u{1b}[2J\nLovelace ").as_deref(), Some("Ada[2JLovelace"));
        assert_eq!(name(&"ä".repeat(300)), Some("ä".repeat(100)));
        assert_eq!(name("\u{202e}ada\u{200b}").as_deref(), Some("ada"));
        assert_eq!(name(" \n"), None);
    }
}
