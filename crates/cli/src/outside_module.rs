//! A child module outside of the folder that is uploaded: OpenTofu would not find it in the job.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// A child module that the upload leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OutsideModule {
    /// The file that names it.
    pub(crate) file: String,
    /// Its source, as the file has it.
    pub(crate) source: String,
    /// The argument of `--module` that uploads both.
    pub(crate) instead: String,
}

/// The first child module of the module in `below` that is outside of `folder`. A file that cannot be read names none: the
/// upload says so.
pub(crate) fn of(folder: &Path, below: Option<&str>) -> Option<OutsideModule> {
    let root = folder.canonicalize().ok()?;
    let below = Path::new(below.unwrap_or_default());
    let entries = fs::read_dir(root.join(below)).ok()?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "tf" || end == "tofu"));
    files.sort();
    files.iter().find_map(|path| {
        let text = fs::read_to_string(path).ok()?;
        let (source, levels) = text.lines().filter_map(local_source).find_map(|source| {
            let levels = levels_above(&below.join(source));
            (levels > 0).then_some((source, levels))
        })?;
        let top = root.ancestors().nth(levels)?;
        // Collected from its parts, so that an empty `below` adds no slash.
        let module: PathBuf =
            root.strip_prefix(top).ok()?.components().chain(below.components()).collect();
        let file = path.file_name()?.to_string_lossy().into_owned();
        let instead = format!("{}//{}", shown(top), module.display());
        Some(OutsideModule { file, source: source.to_owned(), instead })
    })
}

/// The source in a line such as `source = "../lib"`, or `module "lib" { source = "../lib" }`.
fn local_source(line: &str) -> Option<&str> {
    let (_, value) = line.split_once("source")?;
    let value = value.trim_start().strip_prefix('=')?;
    let (source, _) = value.trim_start().strip_prefix('"')?.split_once('"')?;
    source.starts_with("../").then_some(source)
}

/// How many folders above its beginning a path leads at most.
fn levels_above(path: &Path) -> usize {
    let (mut depth, mut above) = (0_usize, 0);
    for part in path.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::ParentDir if depth > 0 => depth -= 1,
            Component::ParentDir => above += 1,
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    above
}

/// A folder as the user would name it: relative if it is below the present one.
fn shown(folder: &Path) -> String {
    let here = std::env::current_dir().and_then(|here| here.canonicalize());
    match here.ok().and_then(|here| folder.strip_prefix(here).ok().map(Path::to_owned)) {
        Some(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Some(below) => format!("./{}", below.display()),
        None => folder.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_that_the_upload_leaves_out_is_found_with_the_folder_that_has_both() {
        let top = tempfile::tempdir().unwrap();
        let path = top.path().canonicalize().unwrap();
        let write = |name: &str, text: &str| {
            fs::create_dir_all(path.join(name).parent().unwrap()).unwrap();
            fs::write(path.join(name), text).unwrap();
        };
        write("app/a.tf", "module \"in\" {\n  source = \"./net\"\n}\n");
        write("app/b.tf", "module \"out\" {\n  source= \"../lib\" # shared\n}\n");
        write("deep/x/main.tf", "module \"in\" { source = \"../../lib\" }\n");
        let found = of(&path.join("app"), None).unwrap();
        assert_eq!((found.file.as_str(), found.source.as_str()), ("b.tf", "../lib"));
        assert_eq!(found.instead, format!("{}//app", path.display()));
        assert_eq!(of(&path, Some("app")), None, "the folder has both");
        let deep = of(&path.join("deep/x"), None).unwrap();
        assert_eq!(deep.instead, format!("{}//deep/x", path.display()));
        assert_eq!(of(&path.join("deep"), Some("x")).unwrap().instead, deep.instead);
    }
}
