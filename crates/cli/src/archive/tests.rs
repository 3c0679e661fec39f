use super::*;
use std::os::unix::fs::symlink;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

fn names(archive: &Archive) -> Vec<String> {
    let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(archive.bytes.as_slice()));
    let entries = tar.entries().unwrap();
    entries.map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect()
}

#[test]
fn the_same_content_packs_to_the_same_bytes() {
    let one = folder(&[("main.tf", "a"), ("b/x.tf", "b")]);
    let two = folder(&[("b/x.tf", "b"), ("main.tf", "a")]);
    let old = std::time::SystemTime::UNIX_EPOCH;
    File::open(two.path().join("main.tf")).unwrap().set_modified(old).unwrap();
    let packed = pack(one.path()).unwrap();
    assert_eq!(packed, pack(two.path()).unwrap());
    assert_eq!(packed.digest, hex::encode(Sha256::digest(&packed.bytes)));
    fs::write(two.path().join("main.tf"), "c").unwrap();
    assert_ne!(packed.digest, pack(two.path()).unwrap().digest);
}

#[test]
fn state_caches_and_ignored_files_are_left_out() {
    let folder = folder(&[
        ("main.tf", ""),
        (".terraform.lock.hcl", ""),
        (".terraform/providers/x", ""),
        (".git/config", ""),
        ("terraform.tfstate", ""),
        ("terraform.tfstate.backup", ""),
        (".terraform.tfstate.lock.info", ""),
        ("sub/prod.tfstate", ""),
        ("crash.log", ""),
        ("crash.1.log", ""),
        ("docs/guide.md", ""),
        ("docs/keep.tf", ""),
        ("z.tmp", ""),
        (".terraformignore", "*.tmp\ndocs/*\n!docs/keep.tf\n"),
    ]);
    let expected = [".terraform.lock.hcl", ".terraformignore", "docs/keep.tf", "main.tf"];
    assert_eq!(names(&pack(folder.path()).unwrap()), expected);
}

#[test]
fn a_link_is_kept_inside_and_refused_when_it_leaves() {
    let good = folder(&[("shared/vars.tf", "")]);
    symlink("shared/vars.tf", good.path().join("vars.tf")).unwrap();
    assert_eq!(names(&pack(good.path()).unwrap()), ["shared/vars.tf", "vars.tf"]);
    let outside = folder(&[("secret", "")]);
    let name = outside.path().file_name().unwrap();
    let up = Path::new("..").join(name).join("secret");
    for target in [Path::new("/etc/passwd"), &up, Path::new(".."), Path::new("nothing")] {
        let bad = folder(&[("main.tf", "")]);
        symlink(target, bad.path().join("link")).unwrap();
        let error = pack(bad.path()).unwrap_err();
        assert!(matches!(error, ArchiveError::Refused { .. }), "{target:?}: {error}");
    }
    // An indirect escape: `a/..` is not this folder when `a` is a link to another folder.
    let bad = folder(&[("main.tf", ""), ("deep/er/x", "")]);
    symlink("deep/er", bad.path().join("a")).unwrap();
    symlink("a/../../..", bad.path().join("b")).unwrap();
    assert!(matches!(pack(bad.path()), Err(ArchiveError::Refused { .. })));
}

#[test]
fn a_module_over_the_size_limit_is_refused_early() {
    let mut bounded = Bounded(vec![0; MAX_BYTES]);
    let error = bounded.write(b"x").unwrap_err();
    assert!(matches!(read_error(Path::new("x"), error), ArchiveError::TooLarge));
}
