//! Fields that are objects with free names.

use super::Fields;
use crate::field_error::{join, shown};
use crate::runner::schema;
use crate::runner::shape::Shape;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

impl Fields<'_> {
    /// Texts by name.
    pub(crate) fn text_map(
        &mut self,
        name: &'static str,
        most: usize,
        key: &Shape,
        shape: &Shape,
    ) -> Option<BTreeMap<String, String>> {
        self.note(name, || schema::map(most, key, &schema::text(shape)));
        let mut read = BTreeMap::new();
        for (entry, value) in self.entries(name, most, key)? {
            let at = join(name, &shown(&entry));
            if let Some(text) = self.shaped(&at, value, shape) {
                read.insert(entry, text);
            }
        }
        Some(read)
    }

    /// Objects by name.
    pub(crate) fn object_map<T>(
        &mut self,
        name: &'static str,
        most: usize,
        key: &Shape,
        read: impl Fn(&mut Fields) -> T,
    ) -> Option<BTreeMap<String, T>> {
        self.note(name, || schema::map(most, key, &Fields::describe(&read)));
        let mut found = BTreeMap::new();
        for (entry, value) in self.entries(name, most, key)? {
            let path = join(&self.path, &join(name, &shown(&entry)));
            if let Some(one) = Fields::read(value, &path, self.errors, &read) {
                found.insert(entry, one);
            }
        }
        Some(found)
    }

    /// The entries, whose names were checked.
    fn entries(
        &mut self,
        name: &'static str,
        most: usize,
        key: &Shape,
    ) -> Option<Map<String, Value>> {
        let map = self.any_object(name)?;
        if map.len() > most {
            self.fault(name, format!("must have at most {most} entries"));
            return None;
        }
        for entry in map.keys().filter(|entry| !key.holds(entry)) {
            let at = join(name, &shown(entry));
            let rule = format!("{}, of at most {} characters", key.rule, key.max);
            let reason = format!("has a name that cannot be used: it must be {rule}");
            if key.accepts_as_published(entry) {
                self.warn(&at, reason);
            } else {
                self.fault(&at, reason);
            }
        }
        Some(map)
    }
}
