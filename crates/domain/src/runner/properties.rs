//! Declares an object of a definition by its properties.

/// Declares a struct whose fields are properties. From each property's line follow the field, its serialization (an
/// absent property is left out, and a secret always), how it is read, and its schema with the documentation.
///
/// The text after `=` is a call of a method of [`super::fields::Fields`] without the property's name. `flatten` reads
/// the properties of another struct at the same place. If `, check` follows the struct's name, its method `check` sees the whole
/// object once it is read.
macro_rules! properties {
    ($(#[$meta:meta])* pub struct $name:ident $(, $checked:ident)? { $($body:tt)* }) => {
        $crate::runner::properties::properties!(
            @ { $(#[$meta])* } $name { $($checked)? } {} {} $($body)*
        );
    };
    (@ $head:tt $name:ident $checked:tt { $($fields:tt)* } { $($reads:tt)* }
        $(#[doc = $doc:literal])+
        pub $field:ident: Option<SecretString> = $method:ident($($argument:tt)*), $($rest:tt)*
    ) => {
        $crate::runner::properties::properties!(@ $head $name $checked {
            $($fields)*
            $(#[doc = $doc])+ #[serde(skip_serializing)] pub $field: Option<SecretString>,
        } { $($reads)* $field: [concat!($($doc),+)] $method($($argument)*), } $($rest)*);
    };
    (@ $head:tt $name:ident $checked:tt { $($fields:tt)* } { $($reads:tt)* }
        $(#[doc = $doc:literal])+
        pub $field:ident: Option<$type:ty> = $method:ident($($argument:tt)*), $($rest:tt)*
    ) => {
        $crate::runner::properties::properties!(@ $head $name $checked {
            $($fields)*
            $(#[doc = $doc])+
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub $field: Option<$type>,
        } { $($reads)* $field: [concat!($($doc),+)] $method($($argument)*), } $($rest)*);
    };
    (@ $head:tt $name:ident $checked:tt { $($fields:tt)* } { $($reads:tt)* }
        $(#[doc = $doc:literal])+ $(#[serde($($serde:tt)*)])?
        pub $field:ident: $type:ty = $method:ident($($argument:tt)*), $($rest:tt)*
    ) => {
        $crate::runner::properties::properties!(@ $head $name $checked {
            $($fields)*
            $(#[doc = $doc])+ $(#[serde($($serde)*)])? pub $field: $type,
        } { $($reads)* $field: [concat!($($doc),+)] $method($($argument)*), } $($rest)*);
    };
    (@ { $($head:tt)* } $name:ident { $($checked:ident)? } { $($fields:tt)* }
        { $($field:ident: [$doc:expr] $method:ident($($argument:tt)*),)+ }
        $($(#[$flat_meta:meta])+ pub $flat:ident: $flat_type:ident = flatten,)?
    ) => {
        $($head)*
        pub struct $name {
            $($fields)*
            $($(#[$flat_meta])+ #[serde(flatten)] pub $flat: $flat_type,)?
        }

        impl $name {
            pub(crate) fn read(fields: &mut $crate::runner::fields::Fields) -> Self {
                let read = Self {
                    $($flat: $flat_type::read(fields),)?
                    $($field: fields.about($doc).$method(stringify!($field), $($argument)*),)+
                };
                $(read.$checked(fields);)?
                read
            }
        }
    };
}
pub(crate) use properties;
