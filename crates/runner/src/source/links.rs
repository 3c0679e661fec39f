//! Symbolic links in a source may point only at files of the same source.
//!
//! Otherwise a harmless looking `file("x")` could read the job's token file or another run's state (Tekton
//! CVE-2026-33211).

use super::SourceError;
use std::fs;
use std::path::{Component, Path};

/// Refuses a source with a link that leaves `root`, directly or through other links.
///
/// # Errors
///
/// [`SourceError::Refused`] names the link; [`SourceError::Disk`] when the folder cannot be read.
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

/// Whether the target of `link`, existing or not, is inside of `root`.
fn stays_inside(root: &Path, link: &Path) -> bool {
    let (Ok(target), Some(parent)) = (fs::read_link(link), link.parent()) else { return false };
    if target.is_absolute() {
        return false;
    }
    // Component by component, as the kernel resolves it: if `a` is a link, `a/..` is not the folder that contains `a`.
    let mut place = parent.to_owned();
    let mut missing = false;
    for component in target.components() {
        match component {
            Component::CurDir => continue,
            // The parent of a folder that does not exist yet is unknown.
            Component::ParentDir if missing => return false,
            Component::ParentDir => place = place.join(".."),
            Component::Normal(name) => place = place.join(name),
            Component::RootDir | Component::Prefix(_) => return false,
        }
        match place.canonicalize() {
            Ok(real) if real.starts_with(root) => place = real,
            Ok(_) => return false,
            // A dangling link on the path is checked as an entry of its own; a loop cannot be read at all.
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
    fn only_links_that_stay_inside_are_accepted() {
        let good = [("file", "x"), ("./dir/file", "x"), ("../root/file", "dir/x"), ("later", "x")];
        let bad = [
            ("/etc/passwd", "x"),
            ("..", "x"),
            ("../..", "dir/x"),
            ("dir/../../outside", "x"),
            // `up` is the root itself, so `up/..` is above it, although the text does not show that.
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
