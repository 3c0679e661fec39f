//! Values in HCL, as Terraform users write them in `.tfvars` files and after `-var`. They refer to nothing else but
//! `${context.KEY}`, which Canyon replaces in each run.

use canyon_domain::json::{Json, JsonNumber};
use canyon_domain::run_context::{ESCAPED_OPENING, OPENING};
use hcl_edit::Number;
use hcl_edit::expr::{Expression, ObjectKey, TraversalOperator, UnaryOperator};
use hcl_edit::parser::{self, Error};
use hcl_edit::repr::Formatted;
use hcl_edit::structure::Structure;
use hcl_edit::template::Element;
use std::collections::BTreeMap;

/// Why a text is no value. It never repeats the text, which may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoValue {
    /// The syntax is wrong.
    #[error("line {line}, column {column}: not valid HCL")]
    Syntax { line: usize, column: usize },
    /// It is more than a value.
    #[error(
        "a value cannot have variables, functions, operators or `${{…}}` except `${{context.KEY}}`; write `$${{` for the text \
         `${{`"
    )]
    Computed,
    /// A `.tfvars` file has a block.
    #[error("it has a block `{0}`, and may have only `name = value`")]
    Block(String),
}

impl From<&Error> for NoValue {
    fn from(error: &Error) -> Self {
        let location = error.location();
        Self::Syntax { line: location.line(), column: location.column() }
    }
}

/// The value `text`, such as `{ zones = ["a", "b"] }`.
pub(crate) fn value(text: &str) -> Result<Json, NoValue> {
    read(&parser::parse_expr(text).map_err(|error| NoValue::from(&error))?)
}

/// The values of a `.tfvars` file by name.
pub(crate) fn values(text: &str) -> Result<BTreeMap<String, Json>, NoValue> {
    let body = parser::parse_body(text).map_err(|error| NoValue::from(&error))?;
    let each = body.iter().map(|structure| match structure {
        Structure::Attribute(attribute) => {
            Ok((attribute.key.as_str().to_owned(), read(&attribute.value)?))
        }
        Structure::Block(block) => Err(NoValue::Block(block.ident.as_str().to_owned())),
    });
    each.collect()
}

fn read(expression: &Expression) -> Result<Json, NoValue> {
    match expression {
        Expression::Null(_) => Ok(Json::Null),
        Expression::Bool(value) => Ok(Json::Bool(*value.value())),
        Expression::Number(number) => digits(number).map(Json::Number),
        Expression::String(text) => Ok(Json::String(literal(text.value()))),
        Expression::StringTemplate(template) => text_of(template.iter()).map(Json::String),
        Expression::HeredocTemplate(heredoc) => text_of(heredoc.template.iter()).map(Json::String),
        Expression::Array(items) => {
            items.iter().map(read).collect::<Result<_, _>>().map(Json::Array)
        }
        Expression::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| Ok((key_of(key)?, read(value.expr())?)));
            fields.collect::<Result<_, _>>().map(Json::Object)
        }
        Expression::Parenthesis(inner) => read(inner.inner()),
        Expression::UnaryOp(operation) if *operation.operator.value() == UnaryOperator::Neg => {
            match read(&operation.expr)? {
                Json::Number(number) => negative(&number).map(Json::Number),
                _ => Err(NoValue::Computed),
            }
        }
        Expression::UnaryOp(_)
        | Expression::Variable(_)
        | Expression::Conditional(_)
        | Expression::FuncCall(_)
        | Expression::Traversal(_)
        | Expression::BinaryOp(_)
        | Expression::ForExpr(_) => Err(NoValue::Computed),
    }
}

fn key_of(key: &ObjectKey) -> Result<String, NoValue> {
    match key {
        ObjectKey::Ident(name) | ObjectKey::Expression(Expression::Variable(name)) => {
            Ok(name.as_str().to_owned())
        }
        ObjectKey::Expression(expression) => match read(expression)? {
            // Canyon replaces nothing in names.
            Json::String(text) => Ok(text.replace(ESCAPED_OPENING, OPENING)),
            Json::Number(number) => Ok(number.as_str().to_owned()),
            _ => Err(NoValue::Computed),
        },
    }
}

/// The number with every digit that was written.
fn digits(number: &Formatted<Number>) -> Result<JsonNumber, NoValue> {
    let written = number.as_repr().and_then(|text| JsonNumber::new(text.trim()));
    // HCL allows zeros in front, and JSON does not.
    let number = written.or_else(|| JsonNumber::new(&number.value().to_string()));
    number.ok_or(NoValue::Computed)
}

fn negative(number: &JsonNumber) -> Result<JsonNumber, NoValue> {
    let text = match number.as_str().strip_prefix('-') {
        Some(positive) => positive.to_owned(),
        None => format!("-{}", number.as_str()),
    };
    JsonNumber::new(&text).ok_or(NoValue::Computed)
}

fn text_of<'e>(elements: impl Iterator<Item = &'e Element>) -> Result<String, NoValue> {
    elements
        .map(|element| match element {
            Element::Literal(text) => Ok(literal(text.value())),
            Element::Interpolation(interpolation) => reference(&interpolation.expr),
            Element::Directive(_) => Err(NoValue::Computed),
        })
        .collect()
}

/// A text that Canyon must not read as a reference: HCL has read its `$${` as `${`.
fn literal(text: &str) -> String {
    text.replace(OPENING, ESCAPED_OPENING)
}

/// A reference to the run. The API knows which there are.
fn reference(expression: &Expression) -> Result<String, NoValue> {
    let Expression::Traversal(traversal) = expression else { return Err(NoValue::Computed) };
    let Expression::Variable(root) = &traversal.expr else { return Err(NoValue::Computed) };
    let attribute = |operator: &TraversalOperator| match operator {
        TraversalOperator::GetAttr(name) => Some(name.as_str().to_owned()),
        _ => None,
    };
    let path: Option<Vec<_>> =
        traversal.operators.iter().map(|one| attribute(one.value())).collect();
    match path {
        Some(path) if root.as_str() == "context" => Ok(format!("{OPENING}{}}}", path.join("."))),
        Some(_) | None => Err(NoValue::Computed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_terraform_reads_it() {
        let long = "123456789012345678901234567890.10";
        for (text, json) in [
            (r#""a\n\"b\" $${c}""#, r#""a\n\"b\" ${c}""#),
            ("true", "true"),
            ("null", "null"),
            ("-5", "-5"),
            ("007", "7"),
            ("1e3", "1e3"),
            (long, long),
            (r#"["a", 1, [true],]"#, r#"["a",1,[true]]"#),
            (r#"{a="1", "b c" = 2, d: null, 3 = (4)}"#, r#"{"3":4,"a":"1","b c":2,"d":null}"#),
            ("{\n  a = 1 # one\n  b = { c = [] }\n}", r#"{"a":1,"b":{"c":[]}}"#),
            (r#"{"json": [1, {"x": "é"}]}"#, r#"{"json":[1,{"x":"é"}]}"#),
        ] {
            assert_eq!(value(text).map(|it| it.to_string()).as_deref(), Ok(json), "{text}");
        }
    }

    #[test]
    fn a_file_is_read_with_comments_and_heredocs() {
        let text = "# comment\nregion = \"eu\" // more\n/* and */\nkey = <<EOT\nline 1\n  line 2\nEOT\n\
                    cut = <<-EOT\n    a\n      b\n    EOT\n";
        let found = values(text).unwrap();
        assert_eq!(found["region"], "eu".into());
        assert_eq!(found["key"], "line 1\n  line 2\n".into());
        assert_eq!(found["cut"], "a\n  b\n".into());
        assert_eq!(values("").unwrap(), BTreeMap::new());
    }

    #[test]
    fn a_reference_to_the_run_passes_and_an_escaped_one_stays_text() {
        for (text, json) in [
            (r#""app-${context.env.id}""#, r#""app-${context.env.id}""#),
            (r#"["${ context.project.id }"]"#, r#"["${context.project.id}"]"#),
            (r#""$${context.env.id}""#, r#""$\\{context.env.id}""#),
            (r#""$${context.a}${context.env.id}""#, r#""$\\{context.a}${context.env.id}""#),
            ("<<E\n${context.env.id}\nE", r#""${context.env.id}\n""#),
            (r#"{ "$${context.a}" = 1 }"#, r#"{"${context.a}":1}"#),
        ] {
            assert_eq!(value(text).unwrap().to_string(), json, "{text}");
        }
        for text in
            ["context.env.id", "\"${context}\"", "\"${context[0]}\"", "\"${context.a + 1}\""]
        {
            assert_eq!(value(text), Err(NoValue::Computed), "{text}");
        }
    }

    #[test]
    fn what_is_more_than_a_value_is_refused_without_repeating_it() {
        for text in [
            "s3cret",
            "upper(\"s3cret\")",
            "\"${s3cret}\"",
            "1 + 2",
            "!true",
            "[for s3cret in []: 1]",
            "<<E\n${s3cret}\nE",
        ] {
            assert_eq!(value(text), Err(NoValue::Computed), "{text}");
        }
        let syntax = values("a = 1\nb = [\"s3cret\", \n").unwrap_err();
        assert!(matches!(syntax, NoValue::Syntax { .. }) && !syntax.to_string().contains("s3cret"));
        assert_eq!(values("variable \"a\" {}"), Err(NoValue::Block("variable".to_owned())));
        assert!(matches!(values("a = 1\na = 2\n"), Err(NoValue::Syntax { line: 2, .. })));
    }
}
