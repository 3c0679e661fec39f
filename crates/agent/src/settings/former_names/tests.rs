use super::*;

/// The example of an environment file for a group runner of Tharsis, as its documentation has it.
const THARSIS: &str = "THARSIS_API_URL=http://tharsis-api-host:8000
THARSIS_RUNNER_PATH=my-group/my-runner-name
THARSIS_SERVICE_ACCOUNT_PATH=my-group/my-service-account-name
THARSIS_CREDENTIAL_HELPER_CMD_PATH=/opt/credhelpers/iamoidccredhelper
THARSIS_CREDENTIAL_HELPER_CMD_ARGS=-region=us-east-2 -endpoint=https://my-oidc-provider-host -aud=tharsis
THARSIS_SERVICE_DISCOVERY_HOST=my-service-discovery-host
THARSIS_JOB_DISPATCHER_TYPE=local
THARSIS_JOB_DISPATCHER_DATA_API_URL=http://tharsis-api-host:8000";

const WAYPOINT: &str = "WAYPOINT_SERVER_ADDR=waypoint.example.com:9701
WAYPOINT_SERVER_TLS=1
WAYPOINT_SERVER_TLS_SKIP_VERIFY=1
WAYPOINT_SERVER_TOKEN=s3cr3t
WAYPOINT_SERVER_COOKIE=s3cr3t";

fn lines(text: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned()))
}

/// The settings beside `newer`, which has Canyon's names, and the warning; or the faults.
fn read(text: &str, newer: &str) -> Result<(BTreeMap<String, String>, String), String> {
    let mut faults = Faults::default();
    let newer = Layer::of_environment(lines(newer), &mut faults);
    let found = FormerNames::read(lines(text), &newer, &mut faults);
    if !faults.is_empty() {
        return Err(faults.to_string());
    }
    let warning = found.warning().unwrap_or_default();
    Ok((found.layer.0.into_iter().map(|(key, given)| (key, given.value)).collect(), warning))
}

#[test]
fn a_file_of_tharsis_has_each_setting_under_its_new_name() {
    let (settings, warning) = read(THARSIS, "").unwrap();
    let mut faults = Faults::default();
    let renamed = THARSIS.replace("THARSIS_", "CANYON_");
    let expected = Layer::of_environment(lines(&renamed), &mut faults);
    let expected: BTreeMap<_, _> =
        expected.0.into_iter().map(|(key, given)| (key, given.value)).collect();
    assert_eq!(settings, expected);
    insta::assert_snapshot!(warning.replace("; ", ";\n"), @r"
    rename settings that have names of another product: THARSIS_API_URL is read as CANYON_API_URL;
    THARSIS_RUNNER_PATH is read as CANYON_RUNNER_PATH;
    THARSIS_SERVICE_ACCOUNT_PATH is read as CANYON_SERVICE_ACCOUNT_PATH;
    THARSIS_CREDENTIAL_HELPER_CMD_PATH is read as CANYON_CREDENTIAL_HELPER_CMD_PATH;
    THARSIS_CREDENTIAL_HELPER_CMD_ARGS is read as CANYON_CREDENTIAL_HELPER_CMD_ARGS;
    THARSIS_SERVICE_DISCOVERY_HOST is read as CANYON_SERVICE_DISCOVERY_HOST;
    THARSIS_JOB_DISPATCHER_TYPE is read as CANYON_JOB_DISPATCHER_TYPE;
    THARSIS_JOB_DISPATCHER_DATA_API_URL is read as CANYON_JOB_DISPATCHER_DATA_API_URL
    ");
}

#[test]
fn a_file_of_waypoint_has_the_address_and_names_what_to_use_instead_of_the_rest() {
    let (settings, warning) = read(WAYPOINT, "").unwrap();
    let expected = ("api_url".to_owned(), "https://waypoint.example.com:9701".to_owned());
    assert_eq!(settings, BTreeMap::from([expected]));
    insta::assert_snapshot!(warning.replace("; W", ";\nW"), @r"
    rename settings that have names of another product: WAYPOINT_SERVER_ADDR is read as CANYON_API_URL;
    WAYPOINT_SERVER_TLS is read as CANYON_API_URL;
    WAYPOINT_SERVER_TLS_SKIP_VERIFY is not read: the agent always verifies certificates; set CANYON_CA_FILE to a file with your authorities;
    WAYPOINT_SERVER_TOKEN is not read: Canyon does not know this token; without CANYON_TOKEN, the agent has its own key, which an administrator adopts;
    WAYPOINT_SERVER_COOKIE is not read: Canyon has no cookie; name the runner with CANYON_RUNNER_PATH=ORG/RUNNER
    ");
}

#[test]
fn an_address_of_waypoint_has_tls_only_if_it_says_so() {
    for (text, expected) in [
        ("WAYPOINT_SERVER_ADDR=host:9701", "http://host:9701"),
        ("WAYPOINT_SERVER_ADDR=host:9701\nWAYPOINT_SERVER_TLS=false", "http://host:9701"),
        ("WAYPOINT_SERVER_ADDR=host:9701\nWAYPOINT_SERVER_TLS=true", "https://host:9701"),
        ("WAYPOINT_SERVER_ADDR=https://host:9701", "https://host:9701"),
    ] {
        assert_eq!(read(text, "").unwrap().0["api_url"], expected, "{text}");
    }
}

#[test]
fn a_value_that_cannot_mean_the_same_is_not_read_and_never_shown() {
    let text = "THARSIS_RUNNER_PATH=a/b/s3cr3t
THARSIS_SERVICE_ACCOUNT_PATH=a/b/s3cr3t
THARSIS_RUNNER_ID=s3cr3t
THARSIS_SERVICE_ACCOUNT_ID=s3cr3t
THARSIS_SERVICE_ACCOUNT_TOKEN=s3cr3t
THARSIS_STATIC_TOKEN=s3cr3t
THARSIS_TLS_SKIP_VERIFY=true
THARSIS_JOB_DISPATCHER_DATA_IMAGE=s3cr3t
THARSIS_GROUP_PATH=s3cr3t";
    let (settings, warning) = read(text, "").unwrap();
    assert_eq!(settings, BTreeMap::new());
    assert!(!warning.contains("s3cr3t") && !warning.contains("GROUP_PATH"), "{warning}");
    for expected in [
        "THARSIS_RUNNER_PATH is not read: Canyon has no groups; set CANYON_RUNNER_PATH=ORG/RUNNER",
        "set CANYON_SERVICE_ACCOUNT_PATH=ORG/ACCOUNT",
        "THARSIS_STATIC_TOKEN is not read",
        "set CANYON_JOB_DISPATCHER_DATA_IMAGE to your image",
    ] {
        assert!(warning.contains(expected), "{expected}: {warning}");
    }
    // With the organization named, only the last part of a path matters.
    let (settings, _) = read("THARSIS_RUNNER_PATH=a/b/c", "CANYON_ORG=acme").unwrap();
    assert_eq!(settings["runner_path"], "a/b/c");
    let off = "THARSIS_TLS_SKIP_VERIFY=false\nWAYPOINT_SERVER_TLS_SKIP_VERIFY=0\nTHARSIS_API_URL=";
    assert_eq!(read(off, "").unwrap(), (BTreeMap::new(), String::new()));
}

#[test]
fn the_new_name_takes_precedence() {
    let newer = "CANYON_API_URL=https://new\nCANYON_TOKEN=t\nCANYON_JOB_DISPATCHER_TYPE=docker";
    let (settings, warning) = read(THARSIS, newer).unwrap();
    let names: Vec<_> = settings.keys().map(String::as_str).collect();
    assert_eq!(names, ["job_dispatcher_data.api_url", "runner_path", "service_discovery_host"]);
    for expected in [
        "THARSIS_API_URL is not read: CANYON_API_URL is set, so remove it",
        "THARSIS_SERVICE_ACCOUNT_PATH is not read: CANYON_TOKEN is set, so remove it",
        "THARSIS_JOB_DISPATCHER_TYPE is not read: CANYON_JOB_DISPATCHER_TYPE is set, so remove it",
    ] {
        assert!(warning.contains(expected), "{expected}: {warning}");
    }
    let refused = read("THARSIS_API_URL=http://a\nWAYPOINT_SERVER_ADDR=b", "").unwrap_err();
    let expected =
        "WAYPOINT_SERVER_ADDR has another value than THARSIS_API_URL; set only CANYON_API_URL";
    assert_eq!(refused, expected);
}

#[test]
fn every_row_becomes_a_setting_of_the_agent_and_is_documented() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agent.md");
    let page = std::fs::read_to_string(page).unwrap();
    for (former, meaning) in FORMER {
        let new = match meaning {
            Same(new) | Prefix(new) | Path(new) | PartOf(new) | Address { new, .. } => new,
            NotRead(_) | NotReadIfTrue(_) => "",
        };
        assert!(new.is_empty() || key_of(new).is_some(), "{new}");
        let row = page.lines().find(|line| {
            line.starts_with('|') && line.contains(&format!("`{former}")) && line.contains(new)
        });
        assert!(row.is_some(), "docs/agent.md has no row for {former} with {new}");
    }
}
