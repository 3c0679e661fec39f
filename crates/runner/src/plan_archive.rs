//! A kept plan as one archive: OpenTofu's plan file, and the files that planning has made in the module's folder.
//!
//! A data source such as `archive_file` writes while OpenTofu plans, and the provider reads that file while it applies. The job
//! that applies a kept plan starts with the module as it was fetched, so it needs these files.

use crate::source::SourceError;
use crate::source::archive::{Limits, unpack};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tar::{Builder, EntryType, Header};

/// The name of the plan file in the archive.
const PLAN: &str = "plan.bin";
/// The folder of the files in the archive.
const FILES: &str = "files";
/// Maximum number of files in a module's folder that are looked at.
const MAX_FILES: usize = 20_000;

/// The files in a folder, to find out which of them change.
#[derive(Clone, Debug, Default)]
pub struct FolderRecord(BTreeMap<PathBuf, (u64, Option<SystemTime>)>);

impl FolderRecord {
    /// Records the files below `folder`, and follows no links.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read, or has too many files.
    pub fn of(folder: &Path) -> io::Result<Self> {
        let (mut found, mut folders) = (BTreeMap::new(), vec![PathBuf::new()]);
        while let Some(below) = folders.pop() {
            for entry in fs::read_dir(folder.join(&below))? {
                let entry = entry?;
                let (path, metadata) = (below.join(entry.file_name()), entry.metadata()?);
                if metadata.is_dir() {
                    folders.push(path);
                } else if metadata.is_file() {
                    found.insert(path, (metadata.len(), metadata.modified().ok()));
                }
                if found.len() + folders.len() > MAX_FILES {
                    let message = format!("the module's folder has more than {MAX_FILES} files");
                    return Err(io::Error::other(message));
                }
            }
        }
        Ok(Self(found))
    }

    /// The files that `later` has, and this does not have or has otherwise.
    fn changed_in(&self, later: &Self) -> Vec<PathBuf> {
        let is_new = |path: &&PathBuf| self.0.get(*path) != later.0.get(*path);
        later.0.keys().filter(is_new).cloned().collect()
    }
}

/// Packs the plan file at `plan`, and what has changed in `folder` since `before`, as a gzipped tar.
///
/// # Errors
///
/// When a file cannot be read.
pub fn pack(plan: &Path, folder: &Path, before: &FolderRecord) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    append(&mut archive, Path::new(PLAN), plan)?;
    for path in before.changed_in(&FolderRecord::of(folder)?) {
        append(&mut archive, &Path::new(FILES).join(&path), &folder.join(&path))?;
    }
    archive.into_inner()?.finish()
}

/// The header has no owner and no time: they say something about the machine, and nothing about the plan.
fn append(archive: &mut Builder<GzEncoder<Vec<u8>>>, name: &Path, path: &Path) -> io::Result<()> {
    let content = fs::read(path)?;
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(content.len() as u64);
    header.set_mode(0o600);
    archive.append_data(&mut header, name, content.as_slice())
}

/// Unpacks an archive of [`pack`] into the new folder `scratch`, and moves the plan file to `plan` and the files into `folder`.
///
/// # Errors
///
/// [`SourceError`] if it is no such archive, or a file cannot be written.
pub fn restore(
    bytes: &[u8],
    scratch: &Path,
    plan: &Path,
    folder: &Path,
) -> Result<(), SourceError> {
    let disk = SourceError::disk("write the kept plan");
    fs::create_dir(scratch).map_err(disk)?;
    unpack(bytes, scratch, Limits::default())?;
    fs::rename(scratch.join(PLAN), plan).map_err(disk)?;
    let files = scratch.join(FILES);
    if !files.exists() {
        return Ok(());
    }
    for path in FolderRecord::of(&files).map_err(disk)?.0.into_keys() {
        let parent = path.parent().unwrap_or(Path::new(""));
        make_folders(folder, parent).map_err(disk)?;
        fs::rename(files.join(&path), folder.join(&path)).map_err(disk)?;
    }
    Ok(())
}

/// Makes the folders of `below` in `root`, unless one of them is a link.
fn make_folders(root: &Path, below: &Path) -> io::Result<()> {
    let mut path = root.to_owned();
    for part in below.components() {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(io::Error::other(format!("`{}` is no folder", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir(&path)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn what_planning_has_made_comes_back_with_the_plan() {
        let home = tempfile::tempdir().unwrap();
        let [planned, applied] = ["planned", "applied"].map(|name| home.path().join(name));
        for folder in [&planned, &applied] {
            write(folder, "main.tf", "a");
            write(folder, "sub/old.zip", "old");
        }
        let before = FolderRecord::of(&planned).unwrap();
        write(&planned, "sub/old.zip", "new one");
        write(&planned, "build/deep/made.zip", "made");
        std::os::unix::fs::symlink("/etc/passwd", planned.join("link")).unwrap();
        let plan = home.path().join("plan.bin");
        fs::write(&plan, "the plan").unwrap();
        let packed = pack(&plan, &planned, &before).unwrap();
        let restored = home.path().join("restored.bin");
        restore(&packed, &home.path().join("scratch"), &restored, &applied).unwrap();
        assert_eq!(fs::read_to_string(restored).unwrap(), "the plan");
        let read = |name| fs::read_to_string(applied.join(name)).unwrap();
        assert_eq!([read("sub/old.zip"), read("build/deep/made.zip")], ["new one", "made"]);
        assert!(!applied.join("link").exists());
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let home = tempfile::tempdir().unwrap();
        let [planned, applied, outside] =
            ["planned", "applied", "outside"].map(|name| home.path().join(name));
        for folder in [&planned, &applied, &outside] {
            fs::create_dir(folder).unwrap();
        }
        write(&planned, "sub/made", "made");
        let plan = home.path().join("plan.bin");
        fs::write(&plan, "the plan").unwrap();
        let packed = pack(&plan, &planned, &FolderRecord::default()).unwrap();
        std::os::unix::fs::symlink(&outside, applied.join("sub")).unwrap();
        let restored =
            restore(&packed, &home.path().join("scratch"), &home.path().join("p"), &applied);
        assert!(restored.is_err());
        assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
    }
}
