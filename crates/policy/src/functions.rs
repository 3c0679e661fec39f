//! Finds calls of functions that exist nowhere. The interpreter finds them only when it evaluates the call, which may be in
//! the first plan that has a certain resource.

use crate::PACKAGE;
use crate::fault::Fault;
use regorus::unstable::{
    BUILTINS, Expr, Literal, Module, Query, Ref, Rule, RuleAssign, RuleHead, Span,
};
use std::collections::{BTreeMap, BTreeSet};

/// A call: the function's name as it is written, and where.
struct Call {
    name: String,
    line: u32,
    column: u32,
}

/// The calls in `modules` of functions that neither Rego nor a module has.
pub(crate) fn unknown(modules: &[Ref<Module>]) -> Vec<Fault> {
    let defined: BTreeSet<_> = modules.iter().flat_map(|module| defined_by(module)).collect();
    let mut faults = Vec::new();
    for module in modules {
        let package = path_of(&module.package.refr).unwrap_or_default();
        let aliases = aliases(module);
        let mut calls = Calls::default();
        module.policy.iter().for_each(|rule| calls.of_rule(rule));
        for Call { name, line, column } in calls.found {
            let (first, rest) = name.split_once('.').unwrap_or((name.as_str(), ""));
            let imported = aliases.get(first).map(|target| format!("{target}.{rest}"));
            let is_known = name == "print"
                || BUILTINS.contains_key(name.as_str())
                || defined.contains(name.trim_start_matches("data."))
                || defined.contains(&format!("{package}.{name}"))
                || imported.is_some_and(|path| defined.contains(path.trim_end_matches('.')));
            if !is_known {
                let message = format!(
                    "there is no function `{name}`{}",
                    if is_left_out(&name) {
                        ": a policy has no network, no files and no clock"
                    } else {
                        ""
                    }
                );
                let module = Some(module.package.span.source.get_path().clone());
                faults.push(Fault { module, line, column, message });
            }
        }
    }
    faults
}

/// Whether a module of the package `canyon` has the rule.
pub(crate) fn declares(modules: &[Ref<Module>], rule: &str) -> bool {
    let path = format!("{PACKAGE}.{rule}");
    modules.iter().any(|module| defined_by(module).contains(&path))
}

/// Whether OPA has a function that Canyon leaves out on purpose.
fn is_left_out(name: &str) -> bool {
    ["http.", "net.lookup", "time.", "opa.runtime", "rand.", "uuid.", "io."]
        .iter()
        .any(|group| name.starts_with(group))
}

/// The full names of the rules of a module, without `data.`: a default and a value may be called by mistake, which the
/// interpreter reports better.
fn defined_by(module: &Module) -> Vec<String> {
    let package = path_of(&module.package.refr).unwrap_or_default();
    let heads = module.policy.iter().filter_map(|rule| match rule.as_ref() {
        Rule::Spec { head, .. } => match head {
            RuleHead::Compr { refr, .. }
            | RuleHead::Set { refr, .. }
            | RuleHead::Func { refr, .. } => path_of(refr),
        },
        Rule::Default { refr, .. } => path_of(refr),
    });
    heads.map(|name| format!("{package}.{name}")).collect()
}

/// What each imported name stands for, without `data.`.
fn aliases(module: &Module) -> BTreeMap<String, String> {
    let imports = module.imports.iter().filter_map(|import| {
        let path = path_of(&import.refr)?;
        let target = path.strip_prefix("data.")?.to_owned();
        let last = target.rsplit('.').next().unwrap_or_default().to_owned();
        let alias = import.r#as.as_ref().map_or(last, |span| span.text().to_owned());
        Some((alias, target))
    });
    imports.collect()
}

/// `a.b.c` of a reference; `None` if it has another form.
pub(crate) fn path_of(of: &Expr) -> Option<String> {
    match of {
        Expr::Var { span, .. } => Some(span.text().to_owned()),
        Expr::RefDot { refr, field, .. } => Some(format!("{}.{}", path_of(refr)?, field.0.text())),
        Expr::RefBrack { refr, index, .. } => {
            let Expr::String { value, .. } = index.as_ref() else { return path_of(refr) };
            Some(format!("{}.{}", path_of(refr)?, value.as_string().ok()?))
        }
        _ => None,
    }
}

/// Where a reference begins: the span of `a.b` is that of its dot.
fn begin_of(of: &Expr) -> &Span {
    match of {
        Expr::RefDot { refr, .. } | Expr::RefBrack { refr, .. } => begin_of(refr),
        other => other.span(),
    }
}

#[derive(Default)]
struct Calls {
    found: Vec<Call>,
}

impl Calls {
    fn of_rule(&mut self, rule: &Rule) {
        let (head, bodies) = match rule {
            Rule::Spec { head, bodies, .. } => (head, bodies),
            Rule::Default { value, .. } => return self.of(value),
        };
        match head {
            RuleHead::Compr { refr, assign, .. } => {
                self.of(refr);
                self.of_assign(assign.as_ref());
            }
            RuleHead::Set { refr, key, .. } => {
                self.of(refr);
                if let Some(key) = key {
                    self.of(key);
                }
            }
            RuleHead::Func { args, assign, .. } => {
                for arg in args {
                    self.of(arg);
                }
                self.of_assign(assign.as_ref());
            }
        }
        for body in bodies {
            self.of_assign(body.assign.as_ref());
            self.of_query(&body.query);
        }
    }

    fn of_assign(&mut self, assign: Option<&RuleAssign>) {
        if let Some(assign) = assign {
            self.of(&assign.value);
        }
    }

    fn of_query(&mut self, query: &Query) {
        for statement in &query.stmts {
            match &statement.literal {
                Literal::SomeVars { .. } => {}
                Literal::SomeIn { key, value, collection, .. } => {
                    if let Some(key) = key {
                        self.of(key);
                    }
                    self.of(value);
                    self.of(collection);
                }
                Literal::Expr { expr, .. } | Literal::NotExpr { expr, .. } => self.of(expr),
                Literal::Every { domain, query, .. } => {
                    self.of(domain);
                    self.of_query(query);
                }
            }
            for with in &statement.with_mods {
                self.of(&with.r#as);
            }
        }
    }

    fn of(&mut self, expr: &Expr) {
        match expr {
            Expr::String { .. }
            | Expr::RawString { .. }
            | Expr::Number { .. }
            | Expr::Bool { .. }
            | Expr::Null { .. }
            | Expr::Var { .. } => {}
            Expr::Array { items, .. } | Expr::Set { items, .. } => {
                for item in items {
                    self.of(item);
                }
            }
            Expr::Object { fields, .. } => {
                for (_, key, value) in fields {
                    self.of(key);
                    self.of(value);
                }
            }
            Expr::ArrayCompr { term, query, .. } | Expr::SetCompr { term, query, .. } => {
                self.of(term);
                self.of_query(query);
            }
            Expr::ObjectCompr { key, value, query, .. } => {
                self.of(key);
                self.of(value);
                self.of_query(query);
            }
            Expr::Call { fcn, params, .. } => {
                if let Some(name) = path_of(fcn) {
                    let begin = begin_of(fcn);
                    let (line, column) = (begin.line, begin.col);
                    self.found.push(Call { name, line, column });
                }
                for param in params {
                    self.of(param);
                }
            }
            Expr::UnaryExpr { expr, .. } => self.of(expr),
            Expr::RefDot { refr, .. } => self.of(refr),
            Expr::RefBrack { refr, index, .. } => {
                self.of(refr);
                self.of(index);
            }
            Expr::BinExpr { lhs, rhs, .. }
            | Expr::BoolExpr { lhs, rhs, .. }
            | Expr::ArithExpr { lhs, rhs, .. }
            | Expr::AssignExpr { lhs, rhs, .. } => {
                self.of(lhs);
                self.of(rhs);
            }
            Expr::Membership { key, value, collection, .. } => {
                if let Some(key) = key {
                    self.of(key);
                }
                self.of(value);
                self.of(collection);
            }
        }
    }
}
