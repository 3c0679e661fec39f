//! Options of a plan that a deployment passes to OpenTofu.

use crate::field_error::FieldErrors;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The most addresses in one list.
const MAX_ADDRESSES: usize = 50;
/// The longest address, in bytes.
const MAX_ADDRESS: usize = 500;
/// The most operations at once. OpenTofu's default is 10.
const MAX_PARALLELISM: u16 = 256;

/// Options of `tofu plan` and `tofu apply`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanOptions {
    /// `-target`: plan only these resources and modules, and what they depend on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<ResourceAddress>,
    /// `-replace`: replace these resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replace: Vec<ResourceAddress>,
    /// `-parallelism`: how many operations run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<u16>,
}

impl PlanOptions {
    /// Parses the options of a request, and notes the faults.
    pub fn read(
        targets: &[String],
        replace: &[String],
        parallelism: Option<u16>,
        faults: &mut FieldErrors,
    ) -> Self {
        if parallelism.is_some_and(|number| number == 0 || number > MAX_PARALLELISM) {
            faults.add("parallelism", format!("is a number from 1 to {MAX_PARALLELISM}"));
        }
        let targets = addresses("targets", targets, faults);
        let replace = addresses("replace", replace, faults);
        Self { targets, replace, parallelism }
    }

    /// Whether there are none.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the plan leaves out resources of the module.
    pub fn is_partial(&self) -> bool {
        !self.targets.is_empty()
    }

    /// The arguments of `plan`.
    pub fn of_plan(&self) -> Vec<String> {
        let targets = self.targets.iter().map(|address| format!("-target={address}"));
        let replace = self.replace.iter().map(|address| format!("-replace={address}"));
        targets.chain(replace).chain(self.of_apply()).collect()
    }

    /// The arguments of `apply`: the others are in the plan.
    pub fn of_apply(&self) -> Option<String> {
        self.parallelism.map(|number| format!("-parallelism={number}"))
    }
}

/// The addresses of a list, without the faulty ones, which are noted.
pub fn addresses(field: &str, given: &[String], faults: &mut FieldErrors) -> Vec<ResourceAddress> {
    if given.len() > MAX_ADDRESSES {
        faults.add(field, format!("has more than {MAX_ADDRESSES} addresses"));
    }
    let mut read = Vec::new();
    for (index, text) in given.iter().enumerate() {
        match ResourceAddress::try_from(text.clone()) {
            Ok(address) => read.push(address),
            Err(error) => faults.add(format!("{field}[{index}]"), error.to_string()),
        }
    }
    read
}

/// The address of a resource or of a module, such as `module.net["eu"].aws_vpc.main`. OpenTofu checks the rest of its form.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceAddress(String);

impl ResourceAddress {
    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is no address. It continues a sentence after the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "is not the address of a resource or a module, such as `aws_vpc.main` or `module.net[\"eu\"]`"
)]
pub struct InvalidAddress;

impl TryFrom<String> for ResourceAddress {
    type Error = InvalidAddress;
    fn try_from(text: String) -> Result<Self, InvalidAddress> {
        let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let has_parts = text.split_once('.').is_some_and(|(_, rest)| !rest.is_empty());
        let is_address = starts
            && has_parts
            && text.len() <= MAX_ADDRESS
            && !text.contains(|c: char| c.is_control());
        if is_address { Ok(Self(text)) } else { Err(InvalidAddress) }
    }
}

impl From<ResourceAddress> for String {
    fn from(address: ResourceAddress) -> Self {
        address.0
    }
}

impl fmt::Display for ResourceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_arguments_and_nothing_else_does() {
        let mut faults = FieldErrors::default();
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let good = texts(&["aws_vpc.main", "module.net[\"eu west\"].x.y[0]", "data.http.a"]);
        let options = PlanOptions::read(&good, &texts(&["a.b"]), Some(3), &mut faults);
        assert!(faults.is_empty());
        let expected = [
            "-target=aws_vpc.main",
            "-target=module.net[\"eu west\"].x.y[0]",
            "-target=data.http.a",
            "-replace=a.b",
            "-parallelism=3",
        ];
        assert_eq!(options.of_plan(), expected);
        assert_eq!(options.of_apply().as_deref(), Some("-parallelism=3"));

        let long = format!("a.{}", "b".repeat(500));
        let bad = texts(&["", "-x", "a", "a.", "a.b\n", &long]);
        let many = vec!["a.b".to_owned(); 51];
        PlanOptions::read(&bad, &many, Some(0), &mut faults);
        let paths: Vec<_> = faults.iter().map(|fault| fault.path.clone()).collect();
        let mut expected = texts(&["parallelism"]);
        expected.extend((0..6).map(|index| format!("targets[{index}]")));
        expected.push("replace".to_owned());
        assert_eq!(paths, expected);
    }
}
