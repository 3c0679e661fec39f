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
    #[error("no rule of identity provider `{0}` gives a role to a group of this person")]
    NoRole(IdentityProviderId),
}
