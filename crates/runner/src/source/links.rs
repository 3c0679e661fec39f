//! Symbolic links in a source may point at its own files, and nowhere else.
//!
//! A link to the job's token file or to another run's state would be read by a harmless looking
//! `file("x")` (Tekton CVE-2026-33211).

use super::SourceError;
use std::fs;
use std::path::{Component, Path};

/// Refuses a source with a link that leaves `root`, directly or through other links.
///
/// # Errors
///
/// [`SourceError::Refused`] names the link.
pub fn check(root: &Path) -> Result<(), SourceError> {
    let read = SourceError::disk("read the source's folder");
    let canonical = root.canonicalize().map_err(read)?;
    let mut folders = vec![canonical.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(read)? {
            let entry = entry.map_err(read)?;
            let kind = entry.file_type().map_err(read)?;
            let path = entry.path();
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_symlink() && !stays_inside(&canonical, &path) {
                let shown = path.strip_prefix(&canonical).unwrap_or(&path);
                return Err(SourceError::Refused(format!(
                    "the link `{}` in the source points outside of it; remove it",
                    shown.display().to_string().escape_debug()
                )));
            }
        }
    }
    Ok(())
}

/// Whether what `link` points at, or would once it exists, lies in `root`.
fn stays_inside(root: &Path, link: &Path) -> bool {
    let (Ok(target), Some(parent)) = (fs::read_link(link), link.parent()) else { return false };
    if target.is_absolute() {
        return false;
    }
    // Step by step, as the kernel goes: `a/..` is not where `a` stands when `a` is a link.
    let mut place = parent.to_owned();
    let mut missing = false;
    for component in target.components() {
        match component {
            Component::CurDir => continue,
            // From a folder that does not exist yet nobody can say where `..` leads.
            Component::ParentDir if missing => return false,
            Component::ParentDir => place = place.join(".."),
            Component::Normal(name) => place = place.join(name),
            Component::RootDir | Component::Prefix(_) => return false,
        }
        match place.canonicalize() {
            Ok(real) if real.starts_with(root) => place = real,
            Ok(_) => return false,
            // A link that dangles is judged on its own; a loop is none that can be read.
            Err(_) => missing = true,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_links_that_stay_inside_are_let_in() {
        let good = [("file", "x"), ("./dir/file", "x"), ("../root/file", "dir/x"), ("later", "x")];
        let bad = [
            ("/etc/passwd", "x"),
            ("..", "x"),
            ("../..", "dir/x"),
            ("dir/../../outside", "x"),
            // `up` is the root itself, so `up/..` is above it, whatever the text looks like.
            ("dir/up/..", "x"),
            ("later/../../outside", "x"),
            ("../outside", "x"),
        ];
        for (target, link) in good.into_iter().chain(bad) {
            let folder = tempfile::tempdir().unwrap();
            let root = folder.path().join("root");
            fs::create_dir_all(root.join("dir")).unwrap();
            fs::write(root.join("file"), "").unwrap();
            fs::write(root.join("dir/file"), "").unwrap();
            fs::write(folder.path().join("outside"), "").unwrap();
            symlink("..", root.join("dir/up")).unwrap();
            symlink(target, root.join(link)).unwrap();
            let expected = good.contains(&(target, link));
            // `../root/file` from `dir` is `root/root/file`: missing, but inside.
            assert_eq!(check(&root).is_ok(), expected, "{link} -> {target}");
        }
    }
}
