//! Why a person may not sign in although the issuer has signed the token.

use super::MAX_GROUPS;
use crate::ids::IdentityProviderId;

/// Why a verified token does not let its holder sign in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAdmitted {
    /// Nothing says who the person is.
    #[error("the token has no `sub`")]
    NoSubject,
    /// It was made for another application.
    #[error("the token was made for another client: its `azp` is not the client of the provider")]
    OtherParty,
    /// It proves a right and not a person, such as an access token.
    #[error("the token is no ID token: its claim `typ` is not `ID`")]
    OtherKind,
    /// Nothing says when the issuer knew the groups.
    #[error("the token has no `iat`")]
    NoTime,
    /// The groups may have changed since.
    #[error("the token was issued more than an hour ago; get a new one")]
    TooOld,
    /// The issuer was not asked for groups, or left them out because there are too many (Entra ID does so).
    #[error(
        "the token has no claim `{0}`; have the issuer put the person's groups there, and only those that Canyon needs"
    )]
    NoGroups(String),
    /// The claim has another form.
    #[error("the claim `{0}` of the token is not a text or a list of texts")]
    NotTexts(String),
    /// More groups than an issuer should tell.
    #[error(
        "the claim `{0}` of the token has {1} groups, and at most {MAX_GROUPS} are accepted; have the issuer put only those there that Canyon needs"
    )]
    TooManyGroups(String, usize),
    /// No rule names one of the groups.
    #[error(
        "no rule of identity provider `{0}` gives a role to a group of this person: the claim `{1}` of the token has {2}"
    )]
    NoRole(IdentityProviderId, String, String),
}

/// The most groups that a refusal names.
const MAX_SHOWN: usize = 10;

/// The groups, for the person who has them: it has shown the token.
pub(super) fn shown(groups: &[&str]) -> String {
    let name = |group: &&str| {
        let short: String = group.chars().take(80).collect();
        format!("`{}`", short.escape_debug())
    };
    let names: Vec<_> = groups.iter().take(MAX_SHOWN).map(name).collect();
    match groups.len() {
        0 => "no group".to_owned(),
        count if count > MAX_SHOWN => {
            format!("{} and {} more", names.join(", "), count - MAX_SHOWN)
        }
        _ => names.join(", "),
    }
}
