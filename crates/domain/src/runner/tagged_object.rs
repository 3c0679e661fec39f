//! Declares an object of a definition whose `type` decides which other properties it has.

/// Whether a property is left out where the object is written.
pub(crate) trait Absent {
    fn is_absent(&self) -> bool;
}

impl Absent for String {
    fn is_absent(&self) -> bool {
        false
    }
}

impl<T> Absent for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

/// Declares the enum of the types, and the enum of the objects with a method that returns the type. Then each type: its
/// name, the value of `type`, and the properties as in `properties!`.
macro_rules! tagged_object {
    (
        $(#[$about_types:meta])+ $types:ident,
        $(#[$about_object:meta])+ $object:ident.$type_of:ident,
        $($(#[doc = $doc:literal])+ $variant:ident = $text:literal {
            $($(#[doc = $about:literal])+ $field:ident: $type:ty = $method:ident($($shape:expr)?),)*
        })+
    ) => {
        $crate::runner::string_enum::string_enum! {
            $(#[$about_types])+
            $types {
                $($(#[doc = $doc])+ $variant = $text,)+
            }
        }

        $(#[$about_object])+
        #[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(tag = "type")]
        pub enum $object {
            $($(#[doc = $doc])+ #[serde(rename = $text)] $variant {
                $(
                    $(#[doc = $about])+
                    #[serde(skip_serializing_if = "crate::runner::tagged_object::Absent::is_absent")]
                    $field: $type,
                )*
            },)+
        }

        impl $object {
            /// The type.
            pub fn $type_of(&self) -> $types {
                match self {
                    $(Self::$variant { .. } => $types::$variant,)+
                }
            }

            fn read_as(of_type: $types, fields: &mut $crate::runner::fields::Fields) -> Self {
                match of_type {
                    $($types::$variant => Self::$variant {
                        $($field: fields.about(concat!($($about),+)).$method(stringify!($field), $($shape)?),)*
                    },)+
                }
            }

            /// The JSON Schema of the object, by its type.
            pub fn schema() -> serde_json::Value {
                use $crate::runner::{fields::Fields, schema::{TypeSchema, one_of}};
                one_of([$(TypeSchema {
                    name: $text,
                    about: concat!($($doc),+),
                    properties: Fields::describe(|fields| Self::read_as($types::$variant, fields)),
                },)+])
            }
        }
    };
}
pub(crate) use tagged_object;
