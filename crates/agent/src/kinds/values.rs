//! Parses settings of a platform: booleans, lists, maps.

use crate::settings::boolean;
use crate::settings::dispatcher::DispatcherSettings;
use crate::settings::faults::Faults;
use secrecy::SecretString;
use serde_json::Value;
use std::collections::BTreeMap;
use std::str::FromStr;

/// Reads the settings of a platform, and collects faults.
pub(super) struct Values<'a> {
    settings: &'a DispatcherSettings,
    pub(super) faults: Faults,
}

impl<'a> Values<'a> {
    pub(super) fn of(settings: &'a DispatcherSettings) -> Self {
        Self { settings, faults: Faults::default() }
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.settings.get(name).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    pub(super) fn secret(&self, name: &str) -> Option<SecretString> {
        self.settings.secret(name)
    }

    /// A required setting. If it is missing, that is a fault with the `reason`.
    pub(super) fn required(&mut self, name: &str, reason: &str) -> String {
        let found = self.text(name);
        if found.is_none() {
            self.faults.missing(&self.settings.origin(name), reason);
        }
        found.unwrap_or_default()
    }

    pub(super) fn fault(&mut self, name: &str, reason: impl Into<String>) {
        self.faults.add(&self.settings.origin(name), reason);
    }

    /// Adds a fault if the setting is set, although it has no meaning here.
    pub(super) fn refuse(&mut self, name: &str, reason: &str) {
        if self.text(name).is_some() {
            self.fault(name, reason);
        }
    }

    pub(super) fn parsed<T: FromStr>(&mut self, name: &str, wanted: &str) -> Option<T> {
        let text = self.text(name)?;
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.fault(name, format!("is not {wanted}"));
        }
        parsed
    }

    pub(super) fn boolean(&mut self, name: &str) -> Option<bool> {
        let read = boolean(&self.text(name)?);
        if read.is_none() {
            self.fault(name, "is neither true nor false");
        }
        read
    }

    /// A list, separated by commas.
    pub(super) fn list(&self, name: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or_default();
        text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect()
    }

    /// A map: `NAME=VALUE,...`, or a JSON object.
    pub(super) fn map(&mut self, name: &str) -> BTreeMap<String, String> {
        let Some(text) = self.text(name) else { return BTreeMap::new() };
        let read = if text.trim_start().starts_with('{') {
            serde_json::from_str(&text).ok()
        } else {
            self.list(name)
                .iter()
                .map(|pair| {
                    pair.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))
                })
                .collect()
        };
        read.unwrap_or_else(|| {
            self.fault(name, "is neither NAME=VALUE,... nor a JSON object of strings");
            BTreeMap::new()
        })
    }

    /// Host names by address: `ADDRESS=NAME NAME,...`, or Kubernetes' own list of `ip` and `hostnames`.
    pub(super) fn aliases(&mut self, name: &str) -> BTreeMap<String, Vec<String>> {
        let Some(text) = self.text(name) else { return BTreeMap::new() };
        let read: Option<BTreeMap<_, _>> = if text.trim_start().starts_with('[') {
            let entries: Vec<Value> = serde_json::from_str(&text).unwrap_or_default();
            let alias = |entry: &Value| {
                let names = serde_json::from_value(entry.get("hostnames")?.clone()).ok()?;
                Some((entry.get("ip")?.as_str()?.to_owned(), names))
            };
            (!entries.is_empty()).then(|| entries.iter().map(alias).collect()).flatten()
        } else {
            let alias = |pair: &String| {
                let (address, names) = pair.split_once('=')?;
                let names = names.split_whitespace().map(str::to_owned).collect();
                Some((address.trim().to_owned(), names))
            };
            self.list(name).iter().map(alias).collect()
        };
        read.unwrap_or_else(|| {
            self.fault(
                name,
                "is neither ADDRESS=NAME NAME,... nor a JSON list of `ip` and `hostnames`",
            );
            BTreeMap::new()
        })
    }
}
