//! Unpacks a gzipped tar that may be hostile.
//!
//! The `tar` crate refuses to write outside of the folder, but it has no limits, and it follows links that the
//! archive contains. This module writes files first and links last, so it never writes through a link.

use super::SourceError;
use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use tar::{Archive, Entry, EntryType};

/// The limits of an archive.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most entries of every kind.
    pub entries: usize,
    /// The most bytes, unpacked.
    pub bytes: u64,
    /// The most unpacked bytes for one packed byte. Text shrinks to a tenth, a bomb to a thousandth.
    pub ratio: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { entries: 20_000, bytes: 512 * 1024 * 1024, ratio: 200 }
    }
}

/// Below this size the ratio is not checked: tar pads small files with zeros.
const RATIO_FROM: u64 = 16 * 1024 * 1024;
/// The most bytes of a name or an extended header, which are held in memory.
const MAX_META: u64 = 64 * 1024;

/// Checks that `bytes` have the SHA-256 `digest`.
///
/// # Errors
///
/// [`SourceError::Unusable`] if the archive in the storage is not the one that was uploaded.
pub fn check_digest(bytes: &[u8], digest: &str) -> Result<(), SourceError> {
    if hex::encode(Sha256::digest(bytes)) == digest {
        Ok(())
    } else {
        Err(SourceError::Unusable(format!(
            "the fetched archive is not sha256:{digest}; upload it again"
        )))
    }
}

/// Unpacks `bytes` into the empty folder `root`.
///
/// # Errors
///
/// [`SourceError::Refused`] for an archive that breaks a rule, with the entry's name; [`SourceError::Disk`] when the
/// file system refuses a write.
pub fn unpack(bytes: &[u8], root: &Path, limits: Limits) -> Result<(), SourceError> {
    let most = limits.bytes.min(RATIO_FROM.max(limits.ratio.saturating_mul(bytes.len() as u64)));
    check_meta(bytes, most, limits)?;
    let mut archive = Archive::new(bounded(bytes, most));
    let mut links = Vec::new();
    for (count, entry) in archive.entries().map_err(broken)?.enumerate() {
        if count >= limits.entries {
            return Err(too_many(limits));
        }
        place(entry.map_err(broken)?, root, &mut links)?;
    }
    for (path, target) in links {
        let parent = path.parent().unwrap_or(root);
        make_folder(root, parent)?;
        symlink(target, &path).map_err(SourceError::disk("make a link"))?;
    }
    Ok(())
}

fn bounded(bytes: &[u8], most: u64) -> impl Read {
    Bounded { inner: MultiGzDecoder::new(bytes), left: most }
}

/// A reader that fails, instead of ending early, when there is more data than allowed.
struct Bounded<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(count as u64).ok_or_else(|| {
            io::Error::other("it is larger than 512 MiB unpacked, or far larger than packed")
        })?;
        Ok(count)
    }
}

/// Checks the headers first: the `tar` crate would read long names and extended headers into memory as a whole.
fn check_meta(bytes: &[u8], most: u64, limits: Limits) -> Result<(), SourceError> {
    let mut archive = Archive::new(bounded(bytes, most));
    for (count, entry) in archive.entries().map_err(broken)?.raw(true).enumerate() {
        let entry = entry.map_err(broken)?;
        let kind = entry.header().entry_type();
        let is_meta = kind.is_gnu_longname()
            || kind.is_gnu_longlink()
            || kind.is_pax_local_extensions()
            || kind.is_pax_global_extensions();
        if is_meta && entry.size() > MAX_META {
            return Err(SourceError::Refused(
                "the archive has a name longer than 64 KiB".to_owned(),
            ));
        }
        // Each entry may have a name and an extended header of its own.
        if count >= limits.entries.saturating_mul(3) {
            return Err(too_many(limits));
        }
    }
    Ok(())
}

fn place<R: Read>(
    mut entry: Entry<'_, R>,
    root: &Path,
    links: &mut Vec<(PathBuf, PathBuf)>,
) -> Result<(), SourceError> {
    let name = entry.path().map_err(broken)?.into_owned();
    let refuse = |reason: &str| {
        let shown = name.display().to_string();
        Err(SourceError::Refused(format!(
            "the archive's entry `{}` {reason}",
            shown.escape_debug()
        )))
    };
    let kind = entry.header().entry_type();
    if kind.is_pax_global_extensions() {
        return Ok(()); // `git archive` writes the commit there.
    }
    let Some(path) = inside(root, &name) else {
        return refuse("lies outside of the archive");
    };
    match kind {
        EntryType::Directory => make_folder(root, &path),
        // The root itself can only be a folder.
        _ if path == root => refuse("has no name"),
        EntryType::Regular | EntryType::Continuous => {
            make_folder(root, path.parent().unwrap_or(root))?;
            write_file(&mut entry, &path)
        }
        EntryType::Symlink => match entry.link_name().map_err(broken)? {
            Some(target) if target.is_relative() => {
                links.push((path, target.into_owned()));
                Ok(())
            }
            _ => refuse("is a link that points outside of the archive"),
        },
        EntryType::Link => {
            let target = entry.link_name().map_err(broken)?;
            let Some(target) = target.and_then(|target| inside(root, &target)) else {
                return refuse("is a hard link that points outside of the archive");
            };
            // Links are made last, so the target is a file of this archive or nothing.
            if !target.symlink_metadata().is_ok_and(|found| found.is_file()) {
                return refuse("is a hard link to a file that did not come before it");
            }
            make_folder(root, path.parent().unwrap_or(root))?;
            fs::hard_link(target, &path).map_err(SourceError::disk("make a hard link"))
        }
        _ => refuse("is neither a file, nor a folder, nor a link"),
    }
}

/// `root/name`, if `name` is relative and has no `..`.
fn inside(root: &Path, name: &Path) -> Option<PathBuf> {
    let mut path = root.to_owned();
    for component in name.components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// Makes `folder` and its parents. What exists already must be a folder, and not a link.
fn make_folder(root: &Path, folder: &Path) -> Result<(), SourceError> {
    let Ok(below) = folder.strip_prefix(root) else { return Ok(()) };
    let mut path = root.to_owned();
    for part in below.components() {
        path.push(part);
        match path.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                return Err(SourceError::Refused(format!(
                    "the archive has `{}` both as a folder and as something else",
                    below.display().to_string().escape_debug()
                )));
            }
            Err(_) => fs::create_dir(&path).map_err(SourceError::disk("make a folder"))?,
        }
    }
    Ok(())
}

/// Writes a file without set-uid, set-gid and sticky bits, and always readable for OpenTofu.
fn write_file<R: Read>(entry: &mut Entry<'_, R>, path: &Path) -> Result<(), SourceError> {
    let mode = entry.header().mode().unwrap_or(0o644) & 0o755 | 0o600;
    // If a name comes twice, the later content counts, as with `tar -x`.
    if path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        fs::remove_file(path).map_err(SourceError::disk("replace a file"))?;
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = file.map_err(SourceError::disk("make a file"))?;
    io::copy(entry, &mut file).map_err(broken).map(drop)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn broken(error: io::Error) -> SourceError {
    SourceError::Refused(format!("the archive cannot be unpacked: {error}"))
}

fn too_many(limits: Limits) -> SourceError {
    SourceError::Refused(format!("the archive has more than {} entries", limits.entries))
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
