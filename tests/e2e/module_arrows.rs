//! Which modules of a crate use each other: arrows go one way inside a crate, too.
//!
//! A module is a file in `src` with its folder. What is only for tests does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, ItemMod, ItemUse, UseTree};

/// The modules that each module uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The names below the crate's root that a file uses.
struct Used {
    /// How many `super` lead to the root.
    depth: usize,
    names: BTreeSet<String>,
}

impl Used {
    fn add(&mut self, path: &[String]) {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let skipped = match path.first().map(String::as_str) {
            Some("crate") => 1,
            Some("super") if supers == self.depth => supers,
            _ => return,
        };
        self.names.extend(path.get(skipped).cloned());
    }

    fn add_tree(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.add_tree(&part.tree, path);
                path.pop();
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.add_tree(item, path));
            }
            UseTree::Name(name) => self.add(&[&path[..], &[name.ident.to_string()]].concat()),
            UseTree::Rename(name) => self.add(&[&path[..], &[name.ident.to_string()]].concat()),
            UseTree::Glob(_) => self.add(path),
        }
    }
}

impl<'a> Visit<'a> for Used {
    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        if !item.attrs.iter().any(is_for_tests) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if !item.attrs.iter().any(is_for_tests) {
            self.add_tree(&item.tree, &mut Vec::new());
        }
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let names: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.add(&names);
        visit::visit_path(self, path);
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
}

/// The Rust files of a folder and of its folders.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let files = files.into_iter().filter(|file| file.extension().is_some_and(|end| end == "rs"));
    files.chain(folders.iter().flat_map(|folder| self::files(folder))).collect()
}

fn arrows(src: &Path) -> Arrows {
    let mut found = Arrows::new();
    for file in files(src) {
        let within = file.strip_prefix(src).unwrap().with_extension("");
        let path: Vec<_> = within.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
        let is_for_tests = |part: &String| part == "tests" || part.ends_with("_tests");
        if matches!(path[0].as_str(), "lib" | "main" | "bin") || path.iter().any(is_for_tests) {
            continue;
        }
        let mut used = Used { depth: path.len(), names: BTreeSet::new() };
        used.visit_file(&syn::parse_file(&fs::read_to_string(&file).unwrap()).unwrap());
        found.entry(path[0].clone()).or_default().append(&mut used.names);
    }
    let modules: BTreeSet<_> = found.keys().cloned().collect();
    for (module, used) in &mut found {
        used.retain(|other| other != module && modules.contains(other));
    }
    found
}

/// The modules that are used by `module`, by these, and so on.
fn reached<'a>(arrows: &'a Arrows, module: &'a str) -> BTreeSet<&'a str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![module]);
    while let Some(module) = next.pop() {
        next.extend(
            arrows[module].iter().map(String::as_str).filter(|other| reached.insert(*other)),
        );
    }
    reached
}

/// The largest sets of modules that all reach each other.
fn circles(arrows: &Arrows) -> BTreeSet<Vec<&str>> {
    let reached_by: BTreeMap<_, _> =
        arrows.keys().map(|module| (module.as_str(), reached(arrows, module))).collect();
    let with = |module: &str| {
        let others = reached_by[module].iter().copied();
        others.filter(|other| reached_by[other].contains(module)).collect::<Vec<_>>()
    };
    reached_by.keys().map(|module| with(module)).filter(|circle| circle.len() > 1).collect()
}

#[test]
fn modules_of_a_crate_use_each_other_in_one_direction() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let crates = fs::read_dir(root.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let others = ["functions", "launcher", "launcher/dispatch"].map(|name| root.join(name));
    let mut found = Vec::new();
    for folder in crates.chain(others) {
        let arrows = arrows(&folder.join("src"));
        let name = folder.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
        found.extend(circles(&arrows).into_iter().map(|circle| format!("{name}: {circle:?}")));
    }
    found.sort();
    assert_eq!(found, [""; 0], "a module uses one that uses it");
}

#[test]
fn a_circle_is_found_whichever_way_a_module_is_named() {
    let arrows_of = |text: &str, depth| {
        let mut used = Used { depth, names: BTreeSet::new() };
        used.visit_file(&syn::parse_file(text).unwrap());
        used.names
    };
    for (text, depth) in [
        ("use crate::b::C;", 1),
        ("use crate::{d, b::{C, D}};", 2),
        ("use super::b;", 1),
        ("fn f() { super::super::b::g() }", 2),
        ("fn f(c: &crate::b::C) {}", 3),
    ] {
        assert!(arrows_of(text, depth).contains("b"), "{text}");
    }
    for (text, depth) in [("use super::b;", 2), ("#[cfg(test)] mod tests { use crate::b; }", 1)] {
        assert!(!arrows_of(text, depth).contains("b"), "{text}");
    }
    let arrows = [("a", vec!["b"]), ("b", vec!["c"]), ("c", vec!["a", "d"]), ("d", vec![])];
    let arrows = arrows
        .map(|(module, used)| (module.to_owned(), used.into_iter().map(str::to_owned).collect()));
    assert_eq!(circles(&arrows.into()), BTreeSet::from([vec!["a", "b", "c"]]));
}
