//! A function with an invalid setting does not start, and names the setting in one line.

use crate::harness::server::Server;
use canyon_cloud::cloud::FUNCTIONS;
use canyon_cloud::runtime::InvokeError;

/// Function, setting, its value (none: it is missing) and the message.
const CASES: [(&str, &str, &str, &str); 18] = [
    ("api", "CANYON_TABLE", "", "missing"),
    ("api", "CANYON_BUCKET", " ", "missing"),
    ("api", "CANYON_API_URL", "http://api.acme.com", "https://"),
    ("api", "CANYON_ISSUER_URL", "issuer", "not a URL"),
    ("api", "CANYON_JOB_SIGNING_KEYS", "", "at least one"),
    ("api", "CANYON_MASTER_KEY", "", "missing"),
    ("api", "CANYON_OPERATOR_TOKEN_HASH", "cya_token", "canyon token new"),
    ("api", "CANYON_CORS_ORIGINS", "https://console.acme.com/", "an origin is"),
    ("api", "CANYON_CORS_ORIGINS", "*", "an origin is"),
    ("events", "CANYON_EVENT_BUS", "", "missing"),
    ("events", "CANYON_TABLE", "", "missing"),
    ("issuer", "CANYON_SIGNING_KEYS", "", "at least one"),
    ("issuer", "CANYON_SIGNING_KEYS", "alias/a,alias/a", "twice"),
    ("issuer", "CANYON_CORS_ORIGINS", "*", "an origin is"),
    ("launcher", "CANYON_MASTER_KEY", "", "missing"),
    ("launcher", "CANYON_EVENT_BUS", "", "missing"),
    ("sweep", "CANYON_API_URL", "api", "not a URL"),
    ("sweep", "CANYON_RUNNER_PROGRAM", "", "CANYON_LOCAL_JOBS needs it"),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_function_with_a_bad_setting_does_not_start_and_names_it() {
    let server = Server::start().await;
    let cloud = server.cloud();
    cloud.bus.run_schedules(false);
    for (name, setting, value, reason) in CASES {
        let function = cloud.function(name);
        let mut environment = function.config().environment.clone();
        environment.insert(setting.to_owned(), value.to_owned());
        if value.is_empty() {
            environment.remove(setting);
        }
        function.update(environment).await;
        let before = function.log().len();
        let error = function.invoke("{}").await.unwrap_err();
        assert!(matches!(error, InvokeError::Crashed { .. }), "{setting}={value}: {error:?}");
        let log = function.log().split_off(before);
        let said: Vec<_> = log.lines().filter(|line| line.contains("cannot start")).collect();
        // Lambda starts the function twice.
        assert!((1..=2).contains(&said.len()), "{setting}={value}: {log}");
        let begins = format!("canyon cannot start: setting {setting}: ");
        assert!(
            said[0].starts_with(&begins) && said[0].contains(reason),
            "{setting}={value}: {log}"
        );
        assert!(!log.contains("panicked"), "{log}");
    }
    for name in FUNCTIONS {
        let function = cloud.function(name);
        function.update(function.config().environment.clone()).await;
        let answer =
            function.invoke(if name == "launcher" { "{\"Records\":[]}" } else { "{}" }).await;
        assert!(!matches!(answer, Err(InvokeError::Crashed { .. })), "{name}: {answer:?}");
    }
}
