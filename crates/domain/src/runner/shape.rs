//! The accepted values of texts.

/// The accepted values of a text field.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Completes the sentence "must be ...".
    pub(crate) rule: &'static str,
    /// Maximum number of characters.
    pub(crate) max: usize,
    /// Whether a text is accepted, apart from its length.
    pub(crate) fits: fn(&str) -> bool,
    /// Whether the published API, if it has the field, accepts a text that `fits` refuses.
    pub(crate) published: Option<fn(&str) -> bool>,
    /// The `format` of JSON Schema, if there is one for these texts.
    pub(crate) format: Option<&'static str>,
}

impl Shape {
    /// Whether `text` is accepted.
    pub(crate) fn holds(&self, text: &str) -> bool {
        text.chars().count() <= self.max && (self.fits)(text)
    }

    /// The same for a field that the published API does not have.
    pub(crate) const fn strict(&self) -> Self {
        Self { published: None, ..*self }
    }

    /// Whether the published API accepts `text`, which does not fit.
    pub(super) fn accepts_as_published(&self, text: &str) -> bool {
        text.len() <= MAX_PUBLISHED_LENGTH && self.published.is_some_and(|accepts| accepts(text))
    }
}

/// Maximum length, in bytes, of a text whose length the published API does not limit. A definition is one
/// item of the table.
const MAX_PUBLISHED_LENGTH: usize = 65_536;
