//! The way to Canyon: the proxy, the name, the certificate, the answer, the clock.

use super::report::{Report, Step};
use crate::settings::Settings;
use canyon_domain::causes::Causes;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::DATE;
use serde_json::Value;
use std::error::Error as _;
use std::time::Duration;
use url::Url;

const TIMEOUT: Duration = Duration::from_secs(10);
/// What others than Canyon bear: AWS takes signatures of the last five minutes.
const MOST_SKEW: Duration = Duration::from_mins(4);
/// A date has whole seconds, and an answer takes a while.
const LEAST_SKEW: Duration = Duration::from_secs(3);

pub(super) async fn check(settings: &Settings, http: &reqwest::Client, report: &mut Report) {
    let Ok(url) = Url::parse(&settings.api_url) else { return };
    match proxy(&url) {
        Some(found) => {
            report.ok(Step::Proxy, format!("{} ({})", without_password(&found.1), found.0));
            report.skipped(Step::Dns, "the proxy resolves the name");
        }
        None => names(&url, report).await,
    }
    let answer = http.get(format!("{}/health", settings.api_url)).timeout(TIMEOUT).send().await;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            let error = error.without_url();
            return report.failed(Step::Tls, unreached(&error, &settings.api_url));
        }
    };
    match url.scheme() {
        "https" => report.ok(Step::Tls, "the certificate is good, and for this name"),
        _ => report.skipped(Step::Tls, "the address is not https"),
    }
    let date = answer.headers().get(DATE).and_then(|date| date.to_str().ok()).map(str::to_owned);
    let status = answer.status();
    let body = answer.bytes().await.unwrap_or_default();
    let version = serde_json::from_slice::<Value>(&body).ok();
    let version = version.as_ref().and_then(|body| body["version"].as_str());
    match version.filter(|_| status.is_success()) {
        Some(version) => {
            let own = env!("CARGO_PKG_VERSION");
            report.ok(Step::Api, format!("Canyon {version}; this agent is {own}"));
        }
        None => report.failed(
            Step::Api,
            format!("what answers (status {status}) is not Canyon: does CANYON_API_URL name it?"),
        ),
    }
    clock(date.as_deref(), report);
}

async fn names(url: &Url, report: &mut Report) {
    let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default());
    let bare = host.trim_matches(['[', ']']);
    let found = tokio::net::lookup_host((bare, port.unwrap_or(443)));
    match tokio::time::timeout(TIMEOUT, found).await {
        Ok(Ok(found)) => {
            let mut addresses: Vec<_> = found.map(|address| address.ip().to_string()).collect();
            addresses.sort();
            addresses.dedup();
            report.ok(Step::Dns, format!("{host} is {}", addresses.join(", ")));
        }
        Ok(Err(error)) => report.failed(
            Step::Dns,
            format!("{host}: {error}; correct CANYON_API_URL, or let this machine's resolver know the name"),
        ),
        Err(_) => report.failed(Step::Dns, format!("{host}: the resolver does not answer")),
    }
}

/// The variable that names a proxy for `url`, and its value, as far as the environment alone tells.
fn proxy(url: &Url) -> Option<(&'static str, String)> {
    let names: &[&'static str] = match url.scheme() {
        "https" => &["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
        _ => &["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
    };
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let found = names.iter().find_map(|name| Some((*name, set(name)?)))?;
    let except = set("NO_PROXY").or_else(|| set("no_proxy")).unwrap_or_default();
    (!is_excepted(url.host_str()?, &except)).then_some(found)
}

/// As curl reads it: a name, and all names below it.
fn is_excepted(host: &str, except: &str) -> bool {
    except.split(',').map(str::trim).filter(|one| !one.is_empty()).any(|one| {
        let suffix = one.trim_start_matches("*.").trim_start_matches('.');
        one == "*" || host == suffix || host.ends_with(&format!(".{suffix}"))
    })
}

fn without_password(proxy: &str) -> String {
    match Url::parse(proxy) {
        Ok(mut url) if url.has_host() => {
            let is_hidden = url.set_username("").is_ok() && url.set_password(None).is_ok();
            if is_hidden { url.to_string() } else { "a proxy".to_owned() }
        }
        _ => "a proxy whose address cannot be read".to_owned(),
    }
}

fn unreached(error: &reqwest::Error, url: &str) -> String {
    let said = Causes(error).to_string();
    let is_tls =
        said.contains("certificate") || error.source().is_some_and(|_| said.contains("tls"));
    let hint = if said.contains("UnknownIssuer") {
        "its certificate is not of an authority that this machine trusts; a private one is named by \
         CANYON_CA_FILE. A proxy that opens TLS has one too"
    } else if said.contains("NotValidForName") || said.contains("not valid for name") {
        "its certificate is for another name: is CANYON_API_URL right?"
    } else if said.contains("Expired") || said.contains("NotValidYet") {
        "its certificate is over, or not good yet: is this machine's clock right?"
    } else if is_tls {
        "TLS cannot be set up with what answers there"
    } else if error.is_timeout() {
        "nothing answers in time: does a firewall let this machine out to there, or must it use HTTPS_PROXY?"
    } else if said.contains("Connection refused") {
        "nothing listens there: is CANYON_API_URL right, with its port, and is Canyon up?"
    } else {
        "let this machine out to there, or set HTTPS_PROXY"
    };
    format!("cannot reach {url}: {said}; {hint}")
}

fn clock(date: Option<&str>, report: &mut Report) {
    static PARSER: DateTimeParser = DateTimeParser::new();
    let shown = date.and_then(|date| PARSER.parse_timestamp(date).ok());
    let Some(shown) = shown else {
        return report.skipped(Step::Clock, "the answer has no date to compare with");
    };
    let off = Timestamp::now().duration_since(shown).unsigned_abs();
    let seconds = off.as_secs();
    if off > MOST_SKEW {
        let reason = format!(
            "this machine's clock is {seconds} s off: the agent bears that, clouds and certificates do not; \
             let it follow a time server"
        );
        report.failed(Step::Clock, reason);
    } else if off > LEAST_SKEW {
        report.ok(Step::Clock, format!("{seconds} s off, which is borne"));
    } else {
        report.ok(Step::Clock, "as Canyon's");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_excepted_from_a_proxy_goes_straight() {
        for except in
            ["canyon.example", "example", ".example", "*.example", "a, canyon.example", "*"]
        {
            assert!(is_excepted("canyon.example", except), "{except}");
        }
        for except in ["", "other.example", "anyon.example", "canyon.example.com"] {
            assert!(!is_excepted("canyon.example", except), "{except}");
        }
    }

    #[test]
    fn no_password_of_a_proxy_is_shown() {
        let shown = without_password("http://user:hunter2@proxy:3128");
        assert_eq!(shown, "http://proxy:3128/");
        assert!(!without_password("user:hunter2@proxy").contains("hunter2"));
    }
}
