//! Packs a module's folder into a gzipped tar whose bytes depend only on the folder's content.
//!
//! Canyon stores the archive by its SHA-256, so a module is uploaded once. For that, the packer sorts
//! the entries and writes neither times nor owners. It leaves out state, provider caches, version
//! control and what `.terraformignore` names. It refuses a link that leaves the folder: such a link
//! would upload a file by mistake.

use flate2::{Compression, GzBuilder};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use sha2::{Digest, Sha256};
use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tar::{EntryType, Header};

/// The largest archive that Canyon accepts.
const MAX_BYTES: usize = 64 << 20;

/// What no module needs, and what may contain state. The lines of `.terraformignore` follow these.
const ALWAYS_IGNORED: [&str; 6] =
    [".terraform/", ".git/", "*.tfstate", "*.tfstate.*", "crash.log", "crash.*.log"];

/// A packed module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Archive {
    /// SHA-256 of the bytes, in hexadecimal.
    pub(crate) digest: String,
    /// The gzipped tar.
    pub(crate) bytes: Vec<u8>,
}

/// Why a folder cannot be packed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    /// A file or folder in it cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// It contains an entry that must not be packed.
    #[error("`{}` {reason}; remove it, or list it in .terraformignore", path.display())]
    Refused {
        /// The entry.
        path: PathBuf,
        /// What is wrong with it, as the rest of a sentence.
        reason: &'static str,
    },
    /// The archive would be larger than [`MAX_BYTES`].
    #[error(
        "the packed module has more than 64 MiB; list what the module does not need in .terraformignore"
    )]
    TooLarge,
}

/// Packs `folder`.
pub(crate) fn pack(folder: &Path) -> Result<Archive, ArchiveError> {
    let root = folder.canonicalize().map_err(|source| read_error(folder, source))?;
    let ignored = ignored(&root)?;
    // With the operating system's name or the time, two archives of one module would differ.
    let gzip = GzBuilder::new().mtime(0).operating_system(255);
    let target = gzip.write(Bounded(Vec::new()), Compression::default());
    let mut packer = Packer { root, ignored, tar: tar::Builder::new(target) };
    packer.folder(Path::new(""))?;
    let bytes = packer.tar.into_inner().and_then(flate2::write::GzEncoder::finish);
    let Bounded(bytes) = bytes.map_err(|source| read_error(folder, source))?;
    Ok(Archive { digest: hex::encode(Sha256::digest(&bytes)), bytes })
}

fn ignored(root: &Path) -> Result<Gitignore, ArchiveError> {
    let file = root.join(".terraformignore");
    let mut rules = GitignoreBuilder::new(root);
    let mut fault = ALWAYS_IGNORED.iter().find_map(|line| rules.add_line(None, line).err());
    if file.exists() {
        fault = fault.or_else(|| rules.add(&file));
    }
    let built = fault.map_or_else(|| rules.build(), Err);
    built.map_err(|error| read_error(&file, io::Error::other(error)))
}

fn read_error(path: &Path, source: io::Error) -> ArchiveError {
    // Only `Bounded` returns this kind.
    if source.kind() == io::ErrorKind::FileTooLarge {
        return ArchiveError::TooLarge;
    }
    ArchiveError::Read { path: path.to_owned(), source }
}

/// A buffer that refuses to grow beyond [`MAX_BYTES`], so that a mistaken `--module /` ends early.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Packer<W: Write> {
    root: PathBuf,
    ignored: Gitignore,
    tar: tar::Builder<W>,
}

impl<W: Write> Packer<W> {
    fn folder(&mut self, below: &Path) -> Result<(), ArchiveError> {
        let folder = self.root.join(below);
        let entries = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut names: Vec<_> = entries
            .map_err(|source| read_error(&folder, source))?
            .into_iter()
            .map(|entry| entry.file_name())
            .collect();
        names.sort();
        names.into_iter().try_for_each(|name| self.entry(&below.join(name)))
    }

    fn entry(&mut self, name: &Path) -> Result<(), ArchiveError> {
        let path = self.root.join(name);
        let metadata = path.symlink_metadata().map_err(|source| read_error(&path, source))?;
        if self.ignored.matched(name, metadata.is_dir()).is_ignore() {
            return Ok(());
        }
        let kind = metadata.file_type();
        if kind.is_dir() {
            self.folder(name)
        } else if kind.is_symlink() {
            self.link(name, &path)
        } else if kind.is_file() {
            self.file(name, &path, &metadata)
        } else {
            Err(ArchiveError::Refused { path, reason: "is neither a file, a folder nor a link" })
        }
    }

    fn file(&mut self, name: &Path, path: &Path, metadata: &Metadata) -> Result<(), ArchiveError> {
        let executable = metadata.permissions().mode() & 0o100 != 0;
        let mut header = header(EntryType::Regular, if executable { 0o755 } else { 0o644 });
        header.set_size(metadata.len());
        let packed = File::open(path).and_then(|file| {
            // If the file grows meanwhile, the excess must not overwrite the next entry.
            self.tar.append_data(&mut header, name, io::Read::take(file, metadata.len()))
        });
        packed.map_err(|source| read_error(path, source))
    }

    fn link(&mut self, name: &Path, path: &Path) -> Result<(), ArchiveError> {
        let refused = |reason| ArchiveError::Refused { path: path.to_owned(), reason };
        let target = fs::read_link(path).map_err(|source| read_error(path, source))?;
        if target.is_absolute() {
            return Err(refused("is a link to an absolute path"));
        }
        // Canonicalized, because `a/..` is not the folder of `a` when `a` is itself a link.
        let end = path.canonicalize().map_err(|_| refused("is a link to nothing"))?;
        if !end.starts_with(&self.root) {
            return Err(refused("is a link that leaves the module's folder"));
        }
        let mut header = header(EntryType::Symlink, 0o777);
        self.tar.append_link(&mut header, name, &target).map_err(|source| read_error(path, source))
    }
}

fn header(kind: EntryType, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_size(0);
    header
}

#[cfg(test)]
mod tests;
