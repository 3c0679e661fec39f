//! Fetching from real repositories, harmless and hostile.

use canyon_domain::module_source::{GitSource, ModuleSource};
use canyon_runner::git_access::GitAccess;
use canyon_runner::settings::Settings;
use canyon_runner::source::git_program::GitProgram;
use canyon_runner::source::{SourceError, git, links};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A work tree, and the bare repository from which the test fetches.
struct Repository {
    folder: tempfile::TempDir,
}

impl Repository {
    fn new() -> Self {
        let repository = Self { folder: tempfile::tempdir().unwrap() };
        repository.git(&["init", "--quiet", "--initial-branch=main", "."]);
        repository
    }

    fn tree(&self) -> PathBuf {
        let tree = self.folder.path().join("tree");
        fs::create_dir_all(&tree).unwrap();
        tree
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"])
            .args(arguments)
            .current_dir(self.tree())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn commit(&self, name: &str, content: &str) -> String {
        fs::write(self.tree().join(name), content).unwrap();
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message=x"]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// The address of a bare copy.
    fn bare(&self) -> (PathBuf, String) {
        let bare = self.folder.path().join("bare.git");
        let _ = fs::remove_dir_all(&bare);
        self.git(&["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
        let url = format!("file://{}", bare.display());
        (bare, url)
    }
}

fn settings() -> Settings {
    settings_with_path(env!("PATH"))
}

fn settings_with_path(path: &str) -> Settings {
    let variables = [
        ("CANYON_API_URL", "http://127.0.0.1:1"),
        ("CANYON_ORG", "local"),
        ("CANYON_DEPLOYMENT_ID", "0192aaaa-bbbb-7ccc-8ddd-eeeeffff0000"),
        ("CANYON_ATTEMPT", "1"),
        ("CANYON_CLAIM_CODE", "code"),
        ("PATH", path),
    ];
    Settings::read(&variables.map(|(name, value)| (name.into(), value.into()))).unwrap()
}

async fn fetch(url: &str, reference: Option<&str>, into: &Path) -> Result<String, SourceError> {
    let _ = fs::remove_dir_all(into);
    fs::create_dir(into).unwrap();
    let reference = reference.map(str::to_owned);
    let source = GitSource { url: url.to_owned(), subdirectory: None, reference };
    let settings = settings();
    let program = GitProgram::installed(&settings)?;
    let commit = git::fetch(&program, &source, into, &settings, &GitAccess::default()).await?;
    links::check(into)?;
    Ok(commit.to_string())
}

#[tokio::test]
async fn a_branch_a_tag_and_a_commit_in_full_or_abbreviated_are_found() {
    let repository = Repository::new();
    let first = repository.commit("main.tf", "# first");
    repository.git(&["tag", "--annotate", "--message=x", "v1.0"]);
    repository.git(&["checkout", "--quiet", "-b", "feature/x"]);
    let second = repository.commit("main.tf", "# second");
    repository.git(&["checkout", "--quiet", "main"]);
    let third = repository.commit("main.tf", "# third");
    let (_, url) = repository.bare();
    let into = repository.folder.path().join("into");
    for (reference, expected, commit) in [
        (None, "# third", &third),
        (Some("main"), "# third", &third),
        (Some("v1.0"), "# first", &first),
        (Some("feature/x"), "# second", &second),
        (Some(first.as_str()), "# first", &first),
        (Some(&second[..9]), "# second", &second),
        (Some(&third[..7]), "# third", &third),
    ] {
        let fetched = fetch(&url, reference, &into)
            .await
            .unwrap_or_else(|error| panic!("{reference:?}: {error}"));
        assert_eq!(fs::read_to_string(into.join("main.tf")).unwrap(), expected, "{reference:?}");
        assert_eq!(&fetched, commit, "{reference:?}");
    }
    for missing in ["nope", "0000000", "v9"] {
        let error = fetch(&url, Some(missing), &into).await.unwrap_err();
        assert!(error.to_string().contains("no branch, tag or commit"), "{error}");
    }
}

#[tokio::test]
async fn nothing_of_a_hostile_repository_runs() {
    let repository = Repository::new();
    let folder = repository.folder.path().to_owned();
    let canary = folder.join("canary");
    let touch = format!("touch {}", canary.display());
    let script = format!("#!/bin/sh\n{touch}\n");
    // A filter; links; a file that looks like a hook.
    repository.commit(".gitattributes", "*.tf filter=evil diff=evil\n*.bin filter=lfs\n");
    repository.commit(".gitconfig", &format!("[filter \"evil\"]\n\tsmudge = {touch}\n"));
    repository.commit("main.tf", "# hostile");
    let (bare, url) = repository.bare();
    for hook in ["post-checkout", "post-update", "reference-transaction", "pre-receive"] {
        let hook = bare.join("hooks").join(hook);
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        fs::write(&hook, &script).unwrap();
        Command::new("chmod").arg("+x").arg(&hook).status().unwrap();
    }
    let into = folder.join("into");
    fetch(&url, Some("main"), &into).await.unwrap();
    assert_eq!(fs::read_to_string(into.join("main.tf")).unwrap(), "# hostile");
    assert!(!canary.exists());

    // Without the check of the address, as if it had a gap: git's own settings must refuse these.
    let ext = format!("ext::sh -c {}", touch.replace(' ', "% "));
    let upload_pack = format!("--upload-pack={touch}");
    for (address, reference) in [
        (ext.as_str(), None),
        (upload_pack.as_str(), None),
        (url.as_str(), Some(upload_pack.as_str())),
        ("http://127.0.0.1:1/x.git", None),
        ("ssh://-oProxyCommand=x/y", None),
    ] {
        assert!(fetch(address, reference, &into).await.is_err(), "{address} {reference:?}");
        assert!(!canary.exists(), "{address} {reference:?}");
    }
    for source in [format!("git::{ext}"), format!("git::{url}?ref={upload_pack}")] {
        assert!(source.parse::<ModuleSource>().is_err(), "{source}");
    }
}

#[tokio::test]
async fn no_submodule_runs_a_program() {
    let repository = Repository::new();
    let folder = repository.folder.path().to_owned();
    let canary = folder.join("canary");
    let touch = format!("touch {}", canary.display());
    repository.commit("main.tf", "# hostile");
    let link = format!("160000,{},x", "1".repeat(40));
    let program = format!("[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c \"{touch}\"\n");
    let update = format!("[submodule \"x\"]\n\tpath = x\n\turl = ./y\n\tupdate = !{touch}\n");
    let option = format!("[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack={touch}\n");
    let mut number = 0;
    for (submodule, expected) in
        [(program, "'ext' not allowed"), (update, "update"), (option, "upload-pack")]
    {
        number += 1;
        repository.commit(".gitmodules", &submodule);
        repository.git(&["update-index", "--add", "--cacheinfo", &link]);
        repository.git(&["commit", "--quiet", "--message=submodule"]);
        let bare = folder.join(format!("bare-{number}"));
        repository.git(&["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
        let url = format!("file://{}", bare.display());
        let error = fetch(&url, None, &folder.join("into")).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{submodule}: {error}");
        assert!(!canary.exists(), "{submodule}");
    }
}

#[tokio::test]
async fn links_that_leave_a_repository_are_refused() {
    for (target, good) in [("main.tf", true), ("/etc/passwd", false), ("../outside", false)] {
        let repository = Repository::new();
        std::os::unix::fs::symlink(target, repository.tree().join("link")).unwrap();
        repository.commit("main.tf", "");
        let into = repository.folder.path().join("into");
        let (_, url) = repository.bare();
        assert_eq!(fetch(&url, None, &into).await.is_ok(), good, "{target}");
    }
}

/// A fake `ssh` with the output of OpenSSH 9, and the real one at a port where nothing listens.
#[tokio::test]
async fn the_cause_of_a_failed_ssh_fetch_is_in_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let ssh = folder.path().join("ssh");
    let path = format!("{}:{}", folder.path().display(), env!("PATH"));
    let into = folder.path().join("into");
    fs::create_dir(&into).unwrap();
    let fetched = async |url: &str| {
        let source = GitSource { url: url.to_owned(), subdirectory: None, reference: None };
        let settings = settings_with_path(&path);
        let program = GitProgram::installed(&settings).unwrap();
        git::fetch(&program, &source, &into, &settings, &GitAccess::default()).await.unwrap_err()
    };
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = fetched(&format!("ssh://git@{address}/x.git")).await;
    let message = error.to_string();
    assert!(
        matches!(error, SourceError::Unreachable(_)) && message.contains("Connection refused"),
        "{message}"
    );
    for (words, hint) in [
        (
            "git@127.0.0.1: Permission denied (publickey).",
            "canyon set git-credential ssh://127.0.0.1/x.git",
        ),
        ("Host key verification failed.", "no git credential is kept for it"),
    ] {
        fs::write(&ssh, format!("#!/bin/sh\necho '{words}' >&2\nexit 255\n")).unwrap();
        Command::new("chmod").arg("+x").arg(&ssh).status().unwrap();
        let error = fetched("ssh://git@127.0.0.1/x.git").await;
        let message = error.to_string();
        assert!(matches!(error, SourceError::Refused(_)), "{message}");
        assert!(message.contains(words) && message.contains(hint), "{message}");
    }
}

/// A server that any caller may name could redirect the job to another server, which only the job's network reaches.
#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let location = format!("http://{}/x.git/info/refs", elsewhere.local_addr().unwrap());
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/x.git", server.local_addr().unwrap());
    let asked = tokio::spawn(async move {
        let (mut connection, _) = server.accept().await.unwrap();
        let mut request = [0; 1024];
        assert!(connection.read(&mut request).await.unwrap() > 0);
        let answer = format!(
            "HTTP/1.1 302 Found\r\nLocation: {location}?service=git-upload-pack\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n"
        );
        connection.write_all(answer.as_bytes()).await.unwrap();
    });
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("into");
    let error = tokio::select! {
        fetched = fetch(&url, None, &into) => fetched.unwrap_err(),
        _ = elsewhere.accept() => panic!("git followed the redirect"),
    };
    asked.await.unwrap();
    assert!(error.to_string().contains("git"), "{error}");
}
