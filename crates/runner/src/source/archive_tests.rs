use super::*;
use crate::source::links;
use flate2::{Compression, write::GzEncoder};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use tar::Header;

/// One entry: kind, name as raw bytes, link target or content, mode.
type Row<'a> = (EntryType, &'a [u8], &'a [u8], u32);

fn file<'a>(name: &'a str, content: &'a str) -> Row<'a> {
    (EntryType::Regular, name.as_bytes(), content.as_bytes(), 0o644)
}

fn link<'a>(name: &'a str, target: &'a str) -> Row<'a> {
    (EntryType::Symlink, name.as_bytes(), target.as_bytes(), 0o777)
}

fn hard<'a>(name: &'a str, target: &'a str) -> Row<'a> {
    (EntryType::Link, name.as_bytes(), target.as_bytes(), 0o644)
}

fn special(kind: EntryType) -> Row<'static> {
    (kind, b"special", b"", 0o644)
}

/// Writes names into the header byte by byte, because the `tar` crate would refuse these names.
fn pack(rows: &[Row<'_>]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (kind, name, content, mode) in rows {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(*mode);
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        let is_link = kind.is_symlink() || kind.is_hard_link();
        if is_link {
            header.as_mut_bytes()[157..157 + content.len()].copy_from_slice(content);
        }
        let data = if is_link { &b""[..] } else { content };
        header.set_size(data.len() as u64);
        header.set_cksum();
        builder.append(&header, data).unwrap();
    }
    builder.into_inner().unwrap().finish().unwrap()
}

/// Unpacks into `<folder>/root`, with a canary beside it.
fn unpack_into(folder: &Path, bytes: &[u8], limits: Limits) -> Result<PathBuf, SourceError> {
    let root = folder.join("root");
    fs::create_dir(&root).unwrap();
    fs::write(folder.join("canary"), "alive").unwrap();
    unpack(bytes, &root, limits)?;
    links::check(&root)?;
    Ok(root)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_good_archive_comes_out_as_it_went_in_but_without_set_uid() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = pack(&[
        (EntryType::XGlobalHeader, b"pax_global_header", b"20 comment=0123abcd\n", 0o644),
        (EntryType::Directory, b"./", b"", 0o755),
        (EntryType::Directory, b"net/", b"", 0o000),
        file("./net/main.tf", "# net"),
        (EntryType::Regular, b"run.sh", b"#!/bin/sh", 0o6777),
        link("net/up.sh", "../run.sh"),
        hard("again.sh", "run.sh"),
        file("run.sh", "#!/bin/true"),
    ]);
    let root = unpack_into(folder.path(), &bytes, Limits::default()).unwrap();
    assert_eq!(names(&root), ["again.sh", "net", "run.sh"]);
    assert_eq!(fs::read_to_string(root.join("net/up.sh")).unwrap(), "#!/bin/true");
    assert_eq!(fs::read_to_string(root.join("again.sh")).unwrap(), "#!/bin/sh");
    assert_eq!(root.join("run.sh").metadata().unwrap().permissions().mode() & 0o7777, 0o644);
    assert_eq!(root.join("again.sh").metadata().unwrap().permissions().mode() & 0o7777, 0o755);
}

#[test]
fn hostile_archives_are_refused_and_touch_nothing_outside() {
    let corpus: [(&str, Vec<Row<'_>>); 20] = [
        ("parent", vec![file("../canary", "dead")]),
        ("parent in the middle", vec![file("a/../../canary", "dead")]),
        ("absolute", vec![file("/tmp/canyon-canary", "dead")]),
        ("parent as a folder", vec![(EntryType::Directory, b"../evil", b"", 0o755)]),
        ("link up", vec![link("x", "../canary")]),
        ("absolute link", vec![link("x", "/etc/passwd")]),
        ("link up from below", vec![link("a/b", "../../canary")]),
        ("link by way of a link", vec![link("a/l", ".."), link("m", "a/l/..")]),
        ("link to a link", vec![link("m", "n"), link("n", "../canary")]),
        ("through a link", vec![link("x", ".."), file("x/canary", "dead")]),
        ("through a link inside", vec![link("x", "."), file("x/y", "dead")]),
        ("a file over a link", vec![link("x", "../canary"), file("x", "dead")]),
        ("a folder over a file", vec![file("x", ""), file("x/y", "")]),
        ("hard link up", vec![hard("x", "../canary")]),
        ("absolute hard link", vec![hard("x", "/etc/passwd")]),
        ("hard link to a link", vec![link("l", "../canary"), hard("x", "l")]),
        ("fifo", vec![special(EntryType::Fifo)]),
        ("character device", vec![special(EntryType::Char)]),
        ("block device", vec![special(EntryType::Block)]),
        ("unknown kind", vec![special(EntryType::new(b'Z'))]),
    ];
    for (what, rows) in &corpus {
        let folder = tempfile::tempdir().unwrap();
        let answer = unpack_into(folder.path(), &pack(rows), Limits::default());
        assert!(answer.is_err(), "{what}");
        assert_eq!(names(folder.path()), ["canary", "root"], "{what}");
        assert_eq!(fs::read_to_string(folder.path().join("canary")).unwrap(), "alive", "{what}");
    }
    assert!(!Path::new("/tmp/canyon-canary").exists());
}

#[test]
fn an_archive_is_held_to_its_limits() {
    let many: Vec<String> = (0..11).map(|n| format!("f{n}")).collect();
    let many: Vec<Row<'_>> = many.iter().map(|name| file(name, "")).collect();
    let large = "x".repeat(5_000);
    let bomb = vec![b'0'; 20 * 1024 * 1024];
    let long_name = vec![b'n'; 70 * 1024];
    let cases: [(&str, Vec<u8>); 4] = [
        ("entries", pack(&many)),
        ("bytes", pack(&[file("a", &large), file("b", &large)])),
        ("ratio", pack(&[(EntryType::Regular, b"bomb", &bomb, 0o644)])),
        (
            "name",
            pack(&[(EntryType::GNULongName, b"././@LongLink", &long_name, 0o644), file("a", "")]),
        ),
    ];
    for (what, bytes) in cases {
        let small = Limits { entries: 10, bytes: 9_000, ..Limits::default() };
        let limits = if matches!(what, "ratio" | "name") { Limits::default() } else { small };
        let folder = tempfile::tempdir().unwrap();
        let error = unpack_into(folder.path(), &bytes, limits).unwrap_err();
        assert!(matches!(error, SourceError::Refused(_)), "{what}: {error}");
    }
}

#[test]
fn torn_or_foreign_bytes_are_refused() {
    let whole = pack(&[file("main.tf", &"x = 1\n".repeat(500))]);
    for (what, bytes) in
        [("empty", &b""[..]), ("not gzip", b"PK\x03\x04"), ("torn", &whole[..whole.len() / 2])]
    {
        let folder = tempfile::tempdir().unwrap();
        assert!(unpack_into(folder.path(), bytes, Limits::default()).is_err(), "{what}");
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(b"not a tar, but long enough to be taken for a header").unwrap();
    let folder = tempfile::tempdir().unwrap();
    assert!(unpack_into(folder.path(), &gzip.finish().unwrap(), Limits::default()).is_err());
}

#[test]
fn an_archive_with_another_digest_is_refused() {
    assert!(
        check_digest(b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
            .is_ok()
    );
    assert!(
        check_digest(b"x", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
            .is_err()
    );
}
