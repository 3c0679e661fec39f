//! Enums of fixed strings, such as `type`.

/// Declares an enum of fixed strings with `ALL`, `as_str`, `FromStr`, `Display` and serde.
macro_rules! string_enum {
    (
        $(#[$doc:meta])* $name:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The string of the definition.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl $crate::runner::string_enum::OneOf for $name {
            const TEXTS: &'static [&'static str] = &[$($text),+];
        }

        impl std::str::FromStr for $name {
            type Err = $crate::runner::string_enum::UnknownValue;
            fn from_str(given: &str) -> Result<Self, Self::Err> {
                match given {
                    $($text => Ok(Self::$variant),)+
                    _ => Err($crate::runner::string_enum::UnknownValue::new(
                        given,
                        <Self as $crate::runner::string_enum::OneOf>::TEXTS,
                    )),
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
pub(crate) use string_enum;

/// An enum of fixed strings.
pub(crate) trait OneOf: std::str::FromStr<Err = UnknownValue> {
    /// The strings, in the order of the documentation.
    const TEXTS: &'static [&'static str];
}

/// A string that is not one of those that the field accepts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of {allowed}; `{given}` is not known")]
pub struct UnknownValue {
    given: String,
    allowed: String,
}

impl UnknownValue {
    pub(crate) fn new(given: &str, allowed: &[&str]) -> Self {
        Self { given: crate::field_error::shown(given), allowed: listed(allowed) }
    }
}

/// The strings in backticks, separated by commas.
pub(crate) fn listed(strings: &[&str]) -> String {
    strings.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(", ")
}
