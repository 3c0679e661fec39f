//! The runner image: its content, its bill of materials, its reproducible build, and images that are built upon it.
//! How the runner behaves in it as PID 1 is tested in `crates/runner/tests/init.rs`.

use crate::harness::bed::bed;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output};

/// The options of a platform that confines its containers.
const CONFINED: [&str; 12] = [
    "run",
    "--rm",
    "--network",
    "host",
    "--read-only",
    "--cap-drop",
    "ALL",
    "--security-opt",
    "no-new-privileges",
    "--tmpfs",
    "/work:mode=1777",
    "--interactive",
];

fn image() -> &'static str {
    bed().get("RUNNER_IMAGE")
}

fn docker(arguments: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["120", "docker"]).args(arguments).env("DOCKER_HOST", bed().get("DOCKER_HOST"));
    command.output().unwrap()
}

/// The output of a command that must succeed.
#[track_caller]
fn must(arguments: &[&str]) -> Vec<u8> {
    let output = docker(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "docker {arguments:?}: {said}");
    output.stdout
}

/// The output of a shell in a confined container of an image.
#[track_caller]
fn shell(image: &str, user: &str, script: &str) -> String {
    let command = ["--user", user, "--entrypoint", "/bin/sh", image, "-euc", script];
    String::from_utf8(must(&[&CONFINED[..], &command].concat())).unwrap()
}

/// The regular files of the image, with their sums.
fn files(image: &str) -> BTreeMap<String, String> {
    let id = String::from_utf8(must(&["create", image])).unwrap();
    let packed = must(&["export", id.trim()]);
    must(&["rm", id.trim()]);
    let mut archive = tar::Archive::new(&packed[..]);
    let mut found = BTreeMap::new();
    let mut links = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_string_lossy().into_owned();
        match entry.header().entry_type() {
            tar::EntryType::Regular => {
                let mut content = Vec::new();
                entry.read_to_end(&mut content).unwrap();
                found.insert(path, hex::encode(Sha256::digest(&content)));
            }
            tar::EntryType::Link => {
                let target = entry.link_name().unwrap().unwrap().to_string_lossy().into_owned();
                links.push((path, target));
            }
            _ => {}
        }
    }
    for (path, target) in links {
        found.insert(path, found[&target].clone());
    }
    // The engine made these files; they are not in the image.
    found.retain(|path, _| {
        path != ".dockerenv"
            && !["etc/hosts", "etc/hostname", "etc/resolv.conf", "dev/console"]
                .contains(&path.as_str())
    });
    found
}

/// Builds an image with these options of `scripts/image`; returns it as an archive.
fn build(folder: &Path, options: &[&str], variables: &[(&str, &str)]) -> Vec<u8> {
    let output = folder.join("image.tar");
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/image"));
    // The runner of the image under test: how it was compiled is not tested here.
    let program = folder.join("canyon-runner");
    let id = String::from_utf8(must(&["create", image()])).unwrap();
    must(&["cp", &format!("{}:/usr/bin/canyon-runner", id.trim()), program.to_str().unwrap()]);
    must(&["rm", id.trim()]);
    command.arg("--program").arg(&program);
    command.args(["--no-load", "--name", "localhost/canyon-runner:again", "--output"]);
    command.arg(&output).args(options).envs(variables.iter().copied());
    let done = command.output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    fs::read(output).unwrap()
}

#[test]
fn the_image_starts_the_runner_as_an_unprivileged_user() {
    let inspected: Value = serde_json::from_slice(&must(&["image", "inspect", image()])).unwrap();
    let config = &inspected[0]["Config"];
    let (user, group) = config["User"].as_str().unwrap().split_once(':').unwrap();
    assert!(
        user.parse::<u32>().unwrap() > 0 && group.parse::<u32>().unwrap() > 0,
        "as numbers, so that runAsNonRoot can judge them"
    );
    assert_eq!(config["Entrypoint"], serde_json::json!(["/usr/bin/canyon-runner"]));
    assert_eq!(config["Labels"]["org.opencontainers.image.version"], env!("CARGO_PKG_VERSION"));
    for path in files(image()).keys() {
        assert!(
            !path.ends_with("/perl") && !path.contains("/locale/") && !path.contains("/man/"),
            "{path}"
        );
    }
    let open = shell(
        image(),
        "65532",
        "find / -xdev -perm -0002 -type f; find / -xdev -perm /6000; find / -xdev -type d -perm -0002 -not -perm -1000",
    );
    assert_eq!(open, "", "nothing is setuid, and no user may change what is in it");
}

#[test]
fn modules_find_their_tools_as_any_user_on_a_read_only_root() {
    const TRY: &str = r#"
git --version; tofu version; ssh -V 2>&1; id -un; awk '/BEGIN CERT/' /etc/ssl/certs/ca-certificates.crt | wc -l
mkdir module main && cd module
git init -q && git config user.email a@b && git config user.name a
echo 'output "word" { value = "from git" }' > main.tf && git add . && git commit -qm 1
cd ../main
cat > main.tf <<TF
module "other" { source = "git::file:///work/module" }
resource "terraform_data" "x" {
  provisioner "local-exec" { command = "echo from the shell" }
}
output "word" { value = module.other.word }
TF
tofu init -no-color && tofu apply -no-color -auto-approve
if touch /usr/x 2>/dev/null; then echo writable; fi
"#;
    for user in ["65532:65532", "1000810000:0", "4711:4711"] {
        let said = shell(image(), user, TRY);
        let words = [
            "git version 2.",
            "OpenTofu v1.",
            "OpenSSH_",
            "word = \"from git\"",
            "(local-exec): from the shell",
        ];
        for word in words {
            assert!(said.contains(word), "{user}: no {word} in {said}");
        }
        let certificates = said.lines().find_map(|line| line.trim().parse::<u32>().ok());
        assert!(certificates.is_some_and(|count| count > 100), "{said}");
        assert!(!said.contains("writable"), "{said}");
    }
}

#[test]
fn without_settings_the_runner_names_a_missing_one() {
    let output = docker(&[&CONFINED[..], &[image()]].concat());
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("CANYON_API_URL is not set"), "{said}");
}

#[test]
fn the_bill_of_materials_names_every_file_and_its_package() {
    const BILL: &str = "usr/share/doc/canyon-runner/sbom.spdx.json";
    let text = must(&["run", "--rm", "--entrypoint", "/bin/cat", image(), &format!("/{BILL}")]);
    let bill: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(bill["spdxVersion"], "SPDX-2.3");
    let array = |name: &str| bill[name].as_array().unwrap();
    let id = |value: &Value| value["SPDXID"].as_str().unwrap().to_owned();

    let packages: BTreeMap<String, &Value> =
        array("packages").iter().map(|package| (id(package), package)).collect();
    assert_eq!(packages.len(), array("packages").len(), "no identifier is used twice");
    let mut parents = BTreeMap::<&str, Vec<&str>>::new();
    for relationship in array("relationships") {
        let [one, other] = ["spdxElementId", "relatedSpdxElement"]
            .map(|name| relationship[name].as_str().unwrap());
        assert!(one == "SPDXRef-DOCUMENT" || packages.contains_key(one), "{relationship}");
        parents.entry(other).or_default().push(one);
    }
    let mut listed = BTreeMap::new();
    for file in array("files") {
        let sum = &file["checksums"]
            .as_array()
            .unwrap()
            .iter()
            .find(|sum| sum["algorithm"] == "SHA256")
            .unwrap()["checksumValue"];
        let path = file["fileName"].as_str().unwrap().trim_start_matches("./");
        assert!(
            listed.insert(path.to_owned(), sum.as_str().unwrap().to_owned()).is_none(),
            "{path}"
        );
        let parents = &parents[id(file).as_str()];
        assert!(
            parents.len() == 1 && packages.contains_key(parents[0]),
            "{path} is a part of {parents:?}"
        );
    }
    let mut real = files(image());
    assert!(real.remove(BILL).is_some(), "it cannot hold its own sum");
    assert_eq!(listed, real);

    let names: BTreeSet<&str> =
        packages.values().map(|package| package["name"].as_str().unwrap()).collect();
    for name in [
        "git",
        "libc6",
        "opentofu",
        "github.com/zclconf/go-cty",
        "canyon-runner",
        "canyon-domain",
        "tokio",
        "rustls",
    ] {
        assert!(names.contains(name), "{name} is in the image, but not in its bill");
    }
    for (id, package) in &packages {
        assert!(parents.contains_key(id.as_str()), "{id} is a part of nothing");
        let version = package["versionInfo"].as_str().unwrap();
        assert!(version.contains(|letter: char| letter.is_ascii_digit()), "{package}");
    }
}

#[test]
fn two_builds_of_the_same_source_are_identical() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let first =
        build(folders[0].path(), &["--replace-vanished"], &[("SOURCE_DATE_EPOCH", "1700000000")]);
    // With the package list that the first build wrote, on a machine with other settings.
    let lock = folders[1].path().join("packages.lock");
    fs::write(&lock, from_image(&first, "usr/share/doc/canyon-runner/packages.lock")).unwrap();
    let options = ["--anew", "--locked", lock.to_str().unwrap()];
    let second = build(
        folders[1].path(),
        &options,
        &[
            ("SOURCE_DATE_EPOCH", "1700000000"),
            ("TZ", "Asia/Kathmandu"),
            ("LC_ALL", "C.UTF-8"),
            ("PYTHONHASHSEED", "7"),
        ],
    );
    assert!(first == second, "two builds differ");
}

/// A file from the last layer of an image's archive.
fn from_image(archive: &[u8], name: &str) -> Vec<u8> {
    let read = |wanted: &str| {
        let mut archive = tar::Archive::new(archive);
        let mut entries = archive.entries().unwrap().map(Result::unwrap);
        let mut entry = entries.find(|entry| entry.path().unwrap() == Path::new(wanted)).unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        content
    };
    let manifest: Value = serde_json::from_slice(&read("manifest.json")).unwrap();
    let layer = read(manifest[0]["Layers"].as_array().unwrap().last().unwrap().as_str().unwrap());
    let mut layer = tar::Archive::new(flate2::read::GzDecoder::new(&layer[..]));
    let mut entries = layer.entries().unwrap().map(Result::unwrap);
    let mut entry = entries.find(|entry| entry.path().unwrap() == Path::new(name)).unwrap();
    let mut content = Vec::new();
    entry.read_to_end(&mut content).unwrap();
    content
}

/// As docs/runner-image.md describes it, with a private authority and a provider of one's own.
#[test]
fn a_derived_image_can_trust_a_private_authority_and_add_files() {
    let folder = tempfile::tempdir().unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../infra/images/runner/example");
    fs::copy(example.join("Dockerfile"), folder.path().join("Dockerfile")).unwrap();
    fs::copy(example.join("tofu.rc"), folder.path().join("tofu.rc")).unwrap();
    fs::create_dir_all(folder.path().join("authorities")).unwrap();
    fs::write(folder.path().join("authorities/own.crt"), bed().file("ISSUER_CA_FILE")).unwrap();
    let provider = folder.path().join("providers/example.test/shop/own/1.0.0/linux_amd64");
    fs::create_dir_all(&provider).unwrap();
    fs::write(provider.join("terraform-provider-own"), "#!/bin/sh\nexit 1\n").unwrap();
    let name = format!("localhost/{}:own", crate::harness::bed::Bed::unique("canyon-runner"));
    let context = folder.path().to_str().unwrap();
    let argument = format!("RUNNER={}", image());
    must(&["build", "--quiet", "--build-arg", &argument, "--tag", &name, context]);

    let fetch = format!("git ls-remote {}/x.git 2>&1 || true", bed().get("ISSUER_URL"));
    let providers = "printf 'terraform {\n required_providers {\n own = { source = \"example.test/shop/own\" }\n }\n}\n' > main.tf
        tofu init -no-color 2>&1 || true";
    let [plain, own] = [image(), name.as_str()]
        .map(|image| (shell(image, "65532", &fetch), shell(image, "65532", providers)));
    shell(&name, "65532", "cmp /etc/ssl/certs/ca-certificates.crt /canyon/bin/ca-certificates.crt");
    must(&["rmi", &name]);
    assert!(plain.0.contains("certificate"), "no known authority signed it: {}", plain.0);
    assert!(!own.0.contains("certificate") && own.0.contains("not found"), "{}", own.0);
    assert!(!plain.1.contains("Installed example.test/shop/own"), "{}", plain.1);
    assert!(own.1.contains("Installed example.test/shop/own v1.0.0"), "{}", own.1);
}

/// The tree for container jobs, as `find` and `stat` list it.
const TREE: &str = "\
755 bin
644 bin/ca-certificates.crt
755 bin/canyon-runner
1777 run
1777 work
";
const LIST_TREE: &str = r#"
for path in $(find . -mindepth 1 | sort); do stat -c "%a ${path#./}" "$path"; done
cmp bin/canyon-runner /usr/bin/canyon-runner
cmp bin/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
"#;

/// Runs a command in a confined container that has a volume at this path.
fn with_volume(mount: &str, user: &str, command: &[&str]) -> Output {
    docker(&[&CONFINED[..], &["--user", user, "--mount", mount], command].concat())
}

#[test]
fn an_empty_volume_gets_the_tree_for_container_jobs_from_the_engine_and_from_inject() {
    let fill = with_volume(
        "type=volume,target=/canyon",
        "10001:10001",
        &["--entrypoint", "/bin/sh", image(), "-euc", &format!("cd /canyon; {LIST_TREE}")],
    );
    assert_eq!(String::from_utf8_lossy(&fill.stdout), TREE, "{fill:?}");
    // As a Kubernetes job of any user does it, twice, in an emptyDir.
    let inject = format!(
        "umask 077; for n in 1 2; do canyon-runner inject /tmp; done; cd /tmp; {LIST_TREE}"
    );
    for user in ["65532:65532", "1000810000:0", "4711:4711"] {
        let tmp = ["--tmpfs", "/tmp:mode=0777,exec", "--entrypoint", "/bin/sh"];
        let command = [&tmp[..], &[image(), "-euc", &inject]].concat();
        let done = docker(&[&CONFINED[..], &["--user", user], &command].concat());
        assert_eq!(String::from_utf8_lossy(&done.stdout), TREE, "{user}: {done:?}");
    }
}

#[test]
fn an_injected_runner_starts_in_an_image_without_anything() {
    let unique = crate::harness::bed::Bed::unique("canyon-inject");
    let (volume, bare) = (unique.clone(), format!("localhost/{unique}:1"));
    let folder = tempfile::tempdir().unwrap();
    let dockerfile = "FROM scratch\nCOPY data /data\nUSER 10001:10001\n";
    fs::write(folder.path().join("Dockerfile"), dockerfile).unwrap();
    fs::write(folder.path().join("data"), "data").unwrap();
    must(&["build", "--quiet", "--tag", &bare, folder.path().to_str().unwrap()]);
    let at = |path: &str| format!("type=volume,source={volume},target={path}");
    // The engine makes the volume for root alone.
    let inject = |user: &str| with_volume(&at("/volume"), user, &[image(), "inject", "/volume"]);
    let (refused, filled) = (inject("4711:4711"), inject("0:0"));
    let started = with_volume(
        &at("/canyon"),
        "10001:10001",
        &["--workdir", "/canyon/run", "--entrypoint", "/canyon/bin/canyon-runner", &bare],
    );
    must(&["rmi", &bare]);
    must(&["volume", "rm", &volume]);
    assert_eq!(refused.status.code(), Some(73), "{refused:?}");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("inject: cannot make `/volume/bin`: Permission denied"), "{said}");
    assert!(filled.status.success(), "{filled:?}");
    assert_eq!(started.status.code(), Some(64), "{started:?}");
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(said.contains("CANYON_API_URL is not set"), "{said}");
}
