//! The connection to Canyon, step by step: the proxy, the name, the certificate, the answer, the clock.

use super::report::{Report, Step};
use crate::settings::Settings;
use canyon_domain::causes::Causes;
use hyper_util::client::proxy::matcher::Matcher;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::DATE;
use serde_json::Value;
use std::error::Error as _;
use std::time::Duration;
use url::Url;

const TIMEOUT: Duration = Duration::from_secs(10);
/// The largest clock skew that other services tolerate: AWS accepts signatures of the last five minutes.
const MOST_SKEW: Duration = Duration::from_mins(4);
/// A smaller skew is not reported: a `Date` has whole seconds, and an answer takes a while.
const LEAST_SKEW: Duration = Duration::from_secs(3);

pub(super) async fn check(settings: &Settings, http: &reqwest::Client, report: &mut Report) {
    let Ok(url) = Url::parse(&settings.api_url) else { return };
    match proxy(&Matcher::from_system(), &url) {
        Some(proxy) => {
            report.ok(Step::Proxy, format!("{proxy} ({})", variables(&url).join(" or ")));
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
        "https" => report.ok(Step::Tls, "the certificate is valid, and for this name"),
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
            format!(
                "the server that answers (status {status}) is not Canyon: check CANYON_API_URL"
            ),
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
            format!("{host}: {error}; correct CANYON_API_URL, or add the name to this machine's resolver"),
        ),
        Err(_) => report.failed(Step::Dns, format!("{host}: the resolver does not answer")),
    }
}

/// The proxy for `url`, without its password. reqwest uses the same library, so this is also the proxy of the agent's
/// own requests.
fn proxy(proxies: &Matcher, url: &Url) -> Option<String> {
    let found = proxies.intercept(&url.as_str().parse().ok()?)?;
    Some(found.uri().to_string())
}

/// The proxy variables that are set and apply to addresses like `url`; the first of them is used.
fn variables(url: &Url) -> Vec<&'static str> {
    let names = match url.scheme() {
        "https" => ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
        _ => ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
    };
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    names.into_iter().filter(is_set).collect()
}

fn unreached(error: &reqwest::Error, url: &str) -> String {
    let causes = Causes(error).to_string();
    let is_tls =
        causes.contains("certificate") || error.source().is_some_and(|_| causes.contains("tls"));
    let hint = if causes.contains("UnknownIssuer") {
        "its certificate is not from an authority that this machine trusts; name a private authority with \
         CANYON_CA_FILE or CANYON_CA_PEM. A proxy that decrypts TLS has its own authority too"
    } else if causes.contains("NotValidForName") || causes.contains("not valid for name") {
        "its certificate is for another name; check CANYON_API_URL"
    } else if causes.contains("Expired") || causes.contains("NotValidYet") {
        "its certificate has expired, or is not valid yet; check this machine's clock"
    } else if is_tls {
        "TLS cannot be set up with the server at that address"
    } else if error.is_timeout() {
        "no answer in time; allow this machine to connect there in the firewall, or set HTTPS_PROXY"
    } else if causes.contains("Connection refused") {
        "no server listens there; check CANYON_API_URL with its port, and whether Canyon runs"
    } else {
        "allow this machine to connect there, or set HTTPS_PROXY"
    };
    format!("cannot reach {url}: {causes}; {hint}")
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
            "this machine's clock is {seconds} s off: the agent tolerates that, but clouds and certificates do \
             not; synchronize it with a time server"
        );
        report.failed(Step::Clock, reason);
    } else if off > LEAST_SKEW {
        report.ok(Step::Clock, format!("{seconds} s off, which is tolerated"));
    } else {
        report.ok(Step::Clock, "in step with Canyon's");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy_for(except: &str, url: &str) -> Option<String> {
        let proxy = "http://user:hunter2@proxy:3128";
        let proxies = Matcher::builder().https(proxy).no(except).build();
        self::proxy(&proxies, &Url::parse(url).unwrap())
    }

    #[test]
    fn exceptions_from_a_proxy_are_understood_as_by_the_agents_own_requests() {
        for (except, host, is_direct) in [
            ("", "canyon.example", false),
            ("canyon.example", "canyon.example", true),
            ("example", "canyon.example", true),
            (".example", "canyon.example", true),
            (".canyon.example", "canyon.example", true),
            ("a, canyon.example ,b", "canyon.example", true),
            ("*", "canyon.example", true),
            ("other.example", "canyon.example", false),
            ("anyon.example", "canyon.example", false),
            ("canyon.example.com", "canyon.example", false),
            // curl's rule, and so reqwest's: a star is no part of a name.
            ("*.example", "canyon.example", false),
            ("10.0.0.5", "10.0.0.5", true),
            ("10.0.0.5", "10.0.0.50", false),
            ("10.0.0.0/8", "10.1.2.3", true),
            ("10.0.0.0/8", "11.1.2.3", false),
            ("10.0.0.0/8", "canyon.example", false),
            ("fd00::/8", "[fd12::1]", true),
            ("fd12::1", "[fd12::1]", true),
            ("fd00::/8", "[fe80::1]", false),
        ] {
            let found = proxy_for(except, &format!("https://{host}:8443/api"));
            assert_eq!(found.is_none(), is_direct, "{except:?} and {host}");
        }
        assert_eq!(proxy_for("", "http://canyon.example"), None, "the proxy is for https");
    }

    #[test]
    fn no_password_of_a_proxy_is_shown() {
        assert_eq!(proxy_for("", "https://canyon.example").unwrap(), "http://proxy:3128/");
    }
}
