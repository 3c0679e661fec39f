//! How many files of the product a new runner type or a new API resource touches, and that no further list of them
//! appears. What is only for tests does not count.

use canyon_domain::runner::RunnerType;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The most files that one runner type or one API resource may be named in.
const MAX_FILES: usize = 12;

/// The files that name at least three runner types, with what each decides for every type.
const LISTS_OF_TYPES: [&str; 4] = [
    // The connector of each Kubernetes type.
    "launcher/dispatch/src/kubernetes/connect.rs",
    // The three types of agents state there what they are.
    "crates/domain/src/runner/agents.rs",
    // The registration.
    "crates/domain/src/runner/configuration.rs",
    // Which type each of an agent's dispatchers serves.
    "crates/agent/src/settings/dispatcher.rs",
];

/// The files that name at least two of the resources below.
const LISTS_OF_RESOURCES: [&str; 7] = [
    "crates/api/src/lib.rs",
    "crates/cli/src/plain_resource.rs",
    "crates/domain/src/lib.rs",
    "crates/store/src/keys.rs",
    "crates/store/src/lib.rs",
    "functions/src/app.rs",
    "functions/src/http.rs",
];

/// Resources with only their own files and the lists above, apart from the files that use them for a feature.
const RESOURCES: [(&str, &[&str]); 2] = [
    // Requests to deploy are admitted by event sources.
    (
        "EventSource",
        &["functions/src/app/deploy_requests.rs", "functions/src/app/deploy_requests/request.rs"],
    ),
    // A launch and an agent's registration read profiles.
    (
        "RunnerProfile",
        &[
            "crates/domain/src/ids.rs",
            "crates/domain/src/runner/profile.rs",
            "functions/src/app/agent_registry.rs",
            "functions/src/app/agent_enrollment.rs",
            "launcher/src/profiles.rs",
        ],
    ),
];

/// The Rust files below `folder` that are not for tests, by path from `root`, without comments and tests.
fn read_sources(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let is_for_tests = name.trim_end_matches(".rs").split('_').any(|part| part == "tests");
        if is_for_tests || matches!(name, "target" | "snapshots") {
            continue;
        }
        if path.is_dir() {
            read_sources(root, &path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            found.insert(name, product_code(&text));
        }
    }
}

/// The text without comments, and up to its tests.
fn product_code(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

fn product() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeMap::new();
    for folder in ["crates", "functions", "launcher", "events"] {
        read_sources(root, &root.join(folder), &mut found);
    }
    found
}

/// Whether the code has a word that begins with `start`, apart from case and underscores if it is lower case.
fn has_word(code: &str, start: &str) -> bool {
    let mut words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.any(|word| word.starts_with(start))
}

/// Whether the code names the runner type: the variant, a struct that begins with its name, or the value of `type`.
fn names_type(code: &str, kind: RunnerType) -> bool {
    let variant = format!("{kind:?}");
    // These words have other meanings as well.
    let is_ambiguous =
        matches!(kind, RunnerType::Kubernetes | RunnerType::Docker | RunnerType::Local);
    let in_enum = ["RunnerType", "RunnerConfiguration"]
        .iter()
        .any(|name| has_path(code, &format!("{name}::{variant}")));
    let is_registered = code.contains(&format!("{variant}({variant}"))
        || code.contains(&format!("impl Kind for {variant} {{"));
    let by_word = || has_word(code, &variant) || code.contains(&format!("\"{kind}\""));
    in_enum || is_registered || !is_ambiguous && by_word()
}

/// Whether the code has `path`, which is not the beginning of a longer one.
fn has_path(code: &str, path: &str) -> bool {
    let ends = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    code.match_indices(path).any(|(at, _)| ends(&code[at + path.len()..]))
}

/// Whether the code names the resource: `EventSource`, `event_source` or `event-source`.
fn names_resource(code: &str, resource: &str) -> bool {
    let mut words = String::new();
    for letter in resource.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push('_');
        }
        words.push(letter.to_ascii_lowercase());
    }
    [resource, &words, &words.replace('_', "-")].iter().any(|name| code.contains(*name))
}

#[test]
fn a_runner_type_is_named_in_few_files() {
    let product = product();
    for kind in RunnerType::ALL {
        let named = product.iter().filter(|(_, code)| names_type(code, *kind));
        let files: Vec<_> = named.map(|(file, _)| file).collect();
        println!("{kind}: {} files {files:#?}", files.len());
        assert!(files.len() <= MAX_FILES, "{kind} is named in {} files: {files:#?}", files.len());
        assert!(files.len() > 2, "{kind} is named in {files:?} alone: the test misses its name");
    }
}

#[test]
fn no_file_but_the_known_ones_lists_the_runner_types() {
    let lists = product().into_iter().filter(|(_, code)| {
        RunnerType::ALL.iter().filter(|kind| names_type(code, **kind)).count() >= 3
    });
    let lists: BTreeSet<_> = lists.map(|(file, _)| file).collect();
    assert_eq!(
        lists,
        LISTS_OF_TYPES.map(str::to_owned).into(),
        "derive it from `RunnerType` facts"
    );
}

#[test]
fn an_api_resource_is_named_in_its_own_files_and_in_few_lists() {
    let product = product();
    for (resource, users) in RESOURCES {
        let mut files: BTreeSet<_> = product
            .iter()
            .filter(|(_, code)| names_resource(code, resource))
            .map(|(file, _)| file.as_str())
            .collect();
        println!("{resource}: {} files {files:#?}", files.len());
        for user in users {
            assert!(
                files.remove(user),
                "{user} does not name {resource} any more: remove it above"
            );
        }
        assert!(files.len() <= MAX_FILES, "{resource} is in {} files: {files:#?}", files.len());
    }
    let lists = product
        .iter()
        .filter(|(_, code)| RESOURCES.iter().all(|(resource, _)| names_resource(code, resource)));
    let lists: BTreeSet<_> = lists.map(|(file, _)| file.as_str()).collect();
    assert_eq!(lists, LISTS_OF_RESOURCES.into(), "derive it from one of these lists");
}

#[test]
fn a_name_is_found_in_code_and_not_in_comments_tests_or_longer_words() {
    let code = product_code("// Gke\nuse a::GkeCluster;\n#[cfg(test)]\nmod tests {\n EcsAgent }");
    assert!(names_type(&code, RunnerType::Gke) && !names_type(&code, RunnerType::EcsAgent));
    assert!(!names_type("match a { RunnerType::KubernetesAgent => 1 }", RunnerType::Kubernetes));
    assert!(names_type("match a { RunnerType::Kubernetes => 1 }", RunnerType::Kubernetes));
    assert!(names_type("kind == \"docker-agent\"", RunnerType::DockerAgent));
    for code in ["struct EventSourceId;", "mod event_sources;", "\"event-sources\""] {
        assert!(names_resource(code, "EventSource"), "{code}");
    }
}
