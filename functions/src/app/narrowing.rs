//! Changes of optional limits.

/// The change of an optional limit, such as one part of a scope.
#[derive(Clone, Debug)]
pub(crate) enum Narrowing<T> {
    /// The part stays as it is.
    Stays,
    /// The part is no longer restricted.
    Any,
    /// The part is restricted to this value.
    To(T),
}

impl<T> Narrowing<T> {
    /// The new value of a part whose value was `before`.
    pub(crate) fn of(self, before: Option<T>) -> Option<T> {
        match self {
            Self::Stays => before,
            Self::Any => None,
            Self::To(only) => Some(only),
        }
    }
}
