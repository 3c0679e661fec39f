//! Compiles a policy, to find its faults before it is stored.

use crate::fault::Fault;
use crate::functions::{declares, path_of, unknown};
use crate::nesting::{self, too_deep};
use crate::{DENY, PACKAGE, WARN};
use canyon_domain::field_error::FieldErrors;
use canyon_domain::policy::{MAX_BYTES, Policy, module_path};
use regorus::Engine;
use regorus::unstable::{Expr, Module, Ref};
use std::collections::BTreeMap;
use std::thread;

/// The compiler calls itself for each operator of a chain such as `1 + 1 + ...`: 64 KiB of them need less than this, and a text
/// of an administrator must not end the process. Memory that it does not use is not allocated.
const STACK: usize = 512 * 1024 * 1024;

/// Finds every fault of a policy, below `path`.
pub fn check(policy: &Policy, path: &str, faults: &mut FieldErrors) {
    let before = faults.iter().count();
    policy.check(path, faults);
    let bytes: usize = policy.modules.values().map(String::len).sum();
    // A text that is too large is not compiled.
    if bytes > MAX_BYTES || faults.iter().count() > before && policy.modules.is_empty() {
        return;
    }
    for fault in check_modules(&policy.modules) {
        match &fault.module {
            Some(module) => faults.add(module_path(path, module), fault.in_module()),
            None => faults.add(format!("{path}.modules"), fault.message),
        }
    }
}

/// The faults of modules. A module that cannot be parsed has one; what is between modules is checked when each can be parsed.
pub fn check_modules(modules: &BTreeMap<String, String>) -> Vec<Fault> {
    let modules = modules.clone();
    let checked = thread::Builder::new()
        .name("policy".to_owned())
        .stack_size(STACK)
        .spawn(move || found_in(&modules))
        .map(thread::JoinHandle::join);
    match checked {
        Ok(Ok(faults)) => faults,
        Ok(Err(_)) | Err(_) => vec![Fault::of_whole("cannot be compiled: the compiler has failed")],
    }
}

fn found_in(modules: &BTreeMap<String, String>) -> Vec<Fault> {
    let mut engine = Engine::new();
    let mut faults = Vec::new();
    for (name, text) in modules {
        if let Some((line, column)) = too_deep(text) {
            faults.push(Fault {
                module: Some(name.clone()),
                line,
                column,
                message: nesting::reason(),
            });
        } else if let Err(error) = engine.add_policy(name.clone(), text.clone()) {
            let fault = Fault::read(&error.to_string());
            // The interpreter's own limits of a text have no place.
            let (line, column) = (fault.line.max(1), fault.column.max(1));
            faults.push(Fault { module: Some(name.clone()), line, column, ..fault });
        }
    }
    let parsed = engine.get_modules().clone();
    faults.extend(parsed.iter().filter_map(wrong_package));
    if faults.is_empty() {
        faults.extend(unknown(&parsed));
    }
    if !faults.is_empty() {
        return faults;
    }
    let entry = [DENY, WARN].into_iter().find(|rule| declares(&parsed, rule));
    let Some(entry) = entry else {
        return vec![Fault::of_whole(format!(
            "has no rule `{DENY}` or `{WARN}` in the package `{PACKAGE}`, such as: \
             {DENY} contains msg if {{ ... }}"
        ))];
    };
    let compiled = engine.compile_with_entrypoint(&format!("data.{PACKAGE}.{entry}").into());
    compiled.err().map(|error| Fault::read(&error.to_string())).into_iter().collect()
}

/// The fault of a module whose package is neither `canyon` nor below it.
fn wrong_package(module: &Ref<Module>) -> Option<Fault> {
    let of: &Expr = &module.package.refr;
    let path = path_of(of).unwrap_or_default();
    if path == PACKAGE || path.starts_with(&format!("{PACKAGE}.")) {
        return None;
    }
    let span = of.span();
    Some(Fault {
        module: Some(span.source.get_path().clone()),
        line: span.line,
        column: span.col,
        message: format!("its package is `{PACKAGE}`, or one below it such as `{PACKAGE}.names`"),
    })
}

#[cfg(test)]
#[path = "compile_tests.rs"]
mod tests;
