//! The configuration files of a module.

use std::fs;
use std::io;
use std::path::Path;

/// How a configuration file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// `.tf`, `.tofu`
    Hcl,
    /// `.tf.json`, `.tofu.json`
    Json,
}

/// A configuration file.
#[derive(Clone, Debug)]
pub struct ModuleFile {
    /// Its name in the module's folder.
    pub name: String,
    /// How it is written.
    pub syntax: Syntax,
    /// Its text.
    pub text: String,
}

/// The configuration files in the folder `module`, by name. `None` if one cannot be read: OpenTofu then says why.
pub fn of(module: &Path) -> Option<Vec<ModuleFile>> {
    let mut files: Vec<_> = fs::read_dir(module).ok()?.collect::<io::Result<_>>().ok()?;
    // A pipe would block.
    files.retain(|file| file.path().is_file());
    files.sort_by_key(fs::DirEntry::file_name);
    let mut found = Vec::new();
    for file in files {
        let name = file.file_name().to_string_lossy().into_owned();
        if let Some(syntax) = syntax_of(&name) {
            found.push(ModuleFile { name, syntax, text: fs::read_to_string(file.path()).ok()? });
        }
    }
    Some(found)
}

fn syntax_of(name: &str) -> Option<Syntax> {
    let ends_with = |suffixes: [&str; 2]| suffixes.iter().any(|suffix| name.ends_with(suffix));
    if ends_with([".tf.json", ".tofu.json"]) {
        Some(Syntax::Json)
    } else {
        ends_with([".tf", ".tofu"]).then_some(Syntax::Hcl)
    }
}
