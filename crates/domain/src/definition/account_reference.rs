//! The accounts that a definition names: the members `account` anywhere in the values of its driver.

use super::template::without_fields;
use super::{Definition, Driver};
use crate::account::AccountId;
use crate::yaml;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// The accounts that `definition` names. A text that a job can only know when it runs names none.
pub fn accounts_of(definition: &Definition) -> BTreeSet<AccountId> {
    let mut found = BTreeSet::new();
    collect_members(&definition.values, &mut found);
    if definition.driver == Driver::Template
        && let Some(Value::Object(templates)) = definition.values.get("templates")
    {
        for text in templates.values().filter_map(Value::as_str) {
            if let Ok(template) = yaml::parse::<Value>(&without_fields(text), "template") {
                collect(&template, &mut found);
            }
        }
    }
    found
}

fn collect_members(members: &Map<String, Value>, found: &mut BTreeSet<AccountId>) {
    for (name, member) in members {
        match member {
            Value::String(text) if name == "account" => {
                found.extend(AccountId::of_reference(text));
            }
            other => collect(other, found),
        }
    }
}

fn collect(value: &Value, found: &mut BTreeSet<AccountId>) {
    match value {
        Value::Object(members) => collect_members(members, found),
        Value::Array(items) => items.iter().for_each(|item| collect(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn accounts(driver: &str, values: &Value) -> Vec<String> {
        let body = json!({
            "id": "one", "name": "one", "type": "config", "driver_type": driver, "driver_inputs": { "values": values },
        });
        let definition = Definition::parse(body).unwrap();
        let found = accounts_of(&definition);
        found.into_iter().map(String::from).collect()
    }

    #[test]
    fn an_account_is_named_at_any_depth_and_by_each_form_once() {
        let values = json!({
            "account": "first",
            "cluster": { "account": "my-org/second", "name": "third" },
            "list": [{ "account": "${context.org.id}/second" }, { "account": { "account": "fourth" } }],
            "text": "account: fifth",
        });
        assert_eq!(accounts("humanitec/echo", &values), ["first", "fourth", "second"]);
    }

    #[test]
    fn what_names_no_account_is_left_out() {
        let values = json!({
            "b": { "account": "" },
            "c": { "account": "${resources.config.outputs.account}" },
            "d": { "account": 7 },
            "e": { "accounts": "second" },
        });
        assert_eq!(accounts("humanitec/echo", &values), Vec::<String>::new());
    }

    #[test]
    fn the_texts_of_a_template_name_accounts_too() {
        let text = "cluster:\n  account: my-org/first\n  name: {{ .driver.values.name }}\n";
        let values =
            json!({ "templates": { "outputs": text, "secrets": { "account": "second" } } });
        assert_eq!(accounts("humanitec/template", &values), ["first", "second"]);
        let broken = json!({ "templates": { "outputs": "account: [" } });
        assert_eq!(accounts("humanitec/template", &broken), Vec::<String>::new());
    }
}
