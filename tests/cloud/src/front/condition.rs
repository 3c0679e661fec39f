//! Conditions of a policy's statement: only the operators and keys that the templates use. (IAM user
//! guide, "IAM JSON policy elements: Condition operators".)

use crate::stack::Conditions;
use crate::wildcard;
use std::collections::BTreeMap;

/// The keys that `needs` fills in, in lower case. A key that ends with `:` stands for all that begin
/// with it.
const KEYS: [&str; 18] = [
    "aws:calledviafirst",
    "aws:requestedregion",
    "aws:securetransport",
    "dynamodb:leadingkeys",
    "events:detail-type",
    "events:source",
    "iam:awsservicename",
    "iam:passedtoservice",
    "iam:permissionsboundary",
    "kms:encryptioncontext:",
    "kms:encryptioncontextkeys",
    "kms:messagetype",
    "kms:schedulekeydeletionpendingwindowindays",
    "kms:signingalgorithm",
    "kms:viaservice",
    "s3:if-none-match",
    "s3:objectcreationoperation",
    "s3:prefix",
];

/// One key of one operator.
#[derive(Clone, Debug)]
pub(super) struct Test {
    key: String,
    operator: Operator,
    negated: bool,
    qualifier: Qualifier,
    if_exists: bool,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    Equals,
    EqualsIgnoreCase,
    Like,
    AtLeast,
    Null,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Qualifier {
    Single,
    All,
    Any,
}

pub(super) fn read(conditions: &Conditions) -> Result<Vec<Test>, String> {
    let mut tests = Vec::new();
    for (operator, keys) in conditions {
        for (key, values) in keys {
            let key = key.to_lowercase();
            let known =
                |name: &&str| key == **name || (name.ends_with(':') && key.starts_with(*name));
            if !KEYS.iter().any(known) {
                return Err(format!("the condition key `{key}` is not known to the front"));
            }
            tests.push(Test::read(operator, key, values.texts())?);
        }
    }
    Ok(tests)
}

impl Test {
    fn read(name: &str, key: String, values: Vec<String>) -> Result<Self, String> {
        let (qualifier, rest) = match name.split_once(':') {
            Some(("ForAllValues", rest)) => (Qualifier::All, rest),
            Some(("ForAnyValue", rest)) => (Qualifier::Any, rest),
            _ => (Qualifier::Single, name),
        };
        let (rest, if_exists) =
            rest.strip_suffix("IfExists").map_or((rest, false), |rest| (rest, true));
        let (operator, negated) = match rest {
            "StringEquals" => (Operator::Equals, false),
            "StringNotEquals" => (Operator::Equals, true),
            "StringEqualsIgnoreCase" | "Bool" => (Operator::EqualsIgnoreCase, false),
            "StringNotEqualsIgnoreCase" => (Operator::EqualsIgnoreCase, true),
            // "ArnEquals and ArnLike behave the same."
            "StringLike" | "ArnLike" | "ArnEquals" => (Operator::Like, false),
            "StringNotLike" | "ArnNotLike" | "ArnNotEquals" => (Operator::Like, true),
            "NumericGreaterThanEquals" => (Operator::AtLeast, false),
            "Null" => (Operator::Null, false),
            _ => return Err(format!("the condition operator `{name}` is not known to the front")),
        };
        Ok(Self { key, operator, negated, qualifier, if_exists, values })
    }

    pub(super) fn holds(&self, context: &BTreeMap<String, Vec<String>>) -> bool {
        // Every call to real AWS is over TLS; this listener does not use it.
        let transport = ["true".to_owned()];
        let found = match self.key.as_str() {
            "aws:securetransport" => Some(transport.as_slice()),
            key => context.get(key).map(Vec::as_slice),
        };
        if matches!(self.operator, Operator::Null) {
            let absent = found.is_none().to_string();
            return self.values.contains(&absent);
        }
        let Some(found) = found.filter(|values| !values.is_empty()) else {
            // A missing key does not match; negated operators and `ForAllValues` then hold.
            return self.if_exists || self.negated || self.qualifier == Qualifier::All;
        };
        let one = |value: &String| {
            self.values.iter().any(|wanted| self.compare(wanted, value)) != self.negated
        };
        match self.qualifier {
            Qualifier::Any => found.iter().any(one),
            Qualifier::Single | Qualifier::All => found.iter().all(one),
        }
    }

    fn compare(&self, wanted: &str, value: &str) -> bool {
        match self.operator {
            Operator::Equals => wanted == value,
            Operator::EqualsIgnoreCase => wanted.eq_ignore_ascii_case(value),
            Operator::Like => wildcard::matches(wanted, value),
            Operator::AtLeast => {
                let number = |text: &str| text.parse::<i64>().ok();
                number(value).zip(number(wanted)).is_some_and(|(value, wanted)| value >= wanted)
            }
            Operator::Null => false,
        }
    }
}
