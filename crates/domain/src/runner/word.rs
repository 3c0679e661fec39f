//! Fields that take one of a few words, such as `type`.

/// Declares an enum of fixed words with `ALL`, `as_str`, `FromStr`, `Display` and serde.
macro_rules! word_enum {
    (
        $(#[$doc:meta])* $name:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as it stands in a file.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::runner::word::UnknownWord;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                match text {
                    $($word => Ok(Self::$variant),)+
                    _ => Err($crate::runner::word::UnknownWord::new(text, &[$($word),+])),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use word_enum;

/// A word that is none of those which a field takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {allowed}; `{given}` is not known")]
pub struct UnknownWord {
    given: String,
    allowed: String,
}

impl UnknownWord {
    pub(crate) fn new(given: &str, allowed: &[&str]) -> Self {
        Self { given: crate::field_error::shown(given), allowed: listed(allowed) }
    }
}

/// The words with ticks around each, separated by commas.
pub(crate) fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
