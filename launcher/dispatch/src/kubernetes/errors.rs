//! The meaning of a cluster's errors, and what to change.

use super::limited_body::TooMuch;
use super::local_clusters::Refused;
use super::reach;
use crate::DispatchError;
use canyon_domain::failure::FailureClass;
use kube::core::Status;
use std::error::Error as _;
use std::time::Duration;

/// The pause after the API server has throttled a call, if it names none.
const THROTTLE_PAUSE: Duration = Duration::from_secs(5);
/// The pause between two tries to reach an API server.
const RECONNECT_PAUSE: Duration = Duration::from_secs(10);

/// The endpoint of a call.
#[derive(Clone, Debug)]
pub(super) struct ClusterEndpoint {
    /// The runner's name, for messages.
    pub(super) runner: String,
    /// The API server's address.
    pub(super) server: String,
    /// The proxy's address, if one is used.
    pub(super) proxy: Option<String>,
    /// The credentials that Canyon presents, and what the cluster needs to accept them.
    pub(super) shown: String,
}

impl ClusterEndpoint {
    /// The error of an address that Canyon does not connect to.
    pub(super) fn refused(&self, refused: Refused) -> DispatchError {
        let (which, url) = match &self.proxy {
            Some(proxy) => ("proxy_url", proxy),
            None => ("server", &self.server),
        };
        let allowed = if refused.may_be_allowed {
            ", unless the installation has CANYON_ALLOW_LOCAL_CLUSTERS=true"
        } else {
            ""
        };
        let message = format!(
            "runner `{}`: Canyon does not call `{url}`, the cluster's `{which}`: {refused}{allowed}",
            self.runner
        );
        DispatchError::refused(FailureClass::Config, message)
    }
}

/// The meaning of `error`, which occurred during `what`.
pub(super) async fn explain(
    place: &ClusterEndpoint,
    what: &str,
    error: kube::Error,
) -> DispatchError {
    match error {
        kube::Error::Api(status) => of_status(place, what, &status),
        kube::Error::Service(error) => {
            if let Some(refused) = cause::<Refused>(&*error) {
                return place.refused(*refused);
            }
            if let Some(too_much) = cause::<TooMuch>(&*error) {
                let message = format!("{}: {too_much}", doing(place, what));
                return DispatchError::unknown(FailureClass::Config, message);
            }
            of_connection(place, what, &chain(&*error)).await
        }
        kube::Error::HyperError(error) => {
            let message =
                format!("{}: the connection broke: {}", doing(place, what), chain(&error));
            DispatchError::unknown(FailureClass::Lost, message)
        }
        // The content of an answer that cannot be parsed does not belong in a message.
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
            let message =
                format!("{}: the answer is not from a Kubernetes API", doing(place, what));
            DispatchError::unknown(FailureClass::Config, message)
        }
        other => {
            let mut words = other.to_string();
            if let Some(source) = other.source() {
                words = format!("{words}: {}", chain(source));
            }
            let message = format!("{}: {words}", doing(place, what));
            DispatchError::refused(FailureClass::Config, message)
        }
    }
}

/// The error if the API server did not answer in time.
pub(super) fn no_answer(place: &ClusterEndpoint, what: &str) -> DispatchError {
    let message = format!("{}: no answer in time", doing(place, what));
    DispatchError::unknown(FailureClass::Lost, message)
}

fn doing(place: &ClusterEndpoint, what: &str) -> String {
    format!("cannot {what} in the cluster of runner `{}` ({})", place.runner, place.server)
}

fn of_status(place: &ClusterEndpoint, what: &str, status: &Status) -> DispatchError {
    let doing = doing(place, what);
    let words = status.message.trim();
    let config = |message: String| DispatchError::refused(FailureClass::Config, message);
    match (status.code, status.reason.as_str()) {
        (429, _) => {
            let named = status.details.as_ref().map(|details| details.retry_after_seconds);
            let pause = named.filter(|seconds| *seconds > 0).map_or(THROTTLE_PAUSE, |seconds| {
                Duration::from_secs(u64::from(seconds)).min(Duration::from_mins(1))
            });
            DispatchError::later(
                FailureClass::Throttled,
                format!("{doing}: it throttles the request: {words}"),
                pause,
            )
        }
        (401, _) => config(format!(
            "{doing}: it rejects Canyon's credentials (401 Unauthorized). Canyon presented {}",
            place.shown
        )),
        // An exceeded quota is a refusal too, but may become free.
        (403, _) if words.contains("exceeded quota") => DispatchError::later(
            FailureClass::Capacity,
            format!("{doing}: {words}"),
            RECONNECT_PAUSE,
        ),
        (403, _) => config(match user_of(words) {
            Some(user) => format!("{doing}: {words}; {}", whom_to_bind(user)),
            // The message names the admission webhook that refused.
            None => format!("{doing}: {words}"),
        }),
        (404, _) if words.starts_with("namespaces ") => {
            config(format!("{doing}: {words}; create the namespace, or correct `job.namespace`"))
        }
        (404, "" | "NotFound") => config(format!("{doing}: {}", or(words, "not found"))),
        // After the API server's own failure, the request may have taken effect.
        (500.. | 408, _) => DispatchError::unknown(
            FailureClass::Lost,
            format!("{doing}: {} {}", status.code, or(words, "server error")),
        ),
        (code, _) => config(format!("{doing}: {code} {}", or(words, "refused"))),
    }
}

/// The user that the API server recognizes Canyon as, from its message (`forbidden: User "x" cannot …`).
pub(super) fn user_of(words: &str) -> Option<&str> {
    let (user, _) = words.split_once("User \"")?.1.split_once("\" cannot ")?;
    Some(user).filter(|user| !user.is_empty())
}

/// The role binding that gives this user the permissions.
pub(super) fn whom_to_bind(user: &str) -> String {
    if let Some((namespace, name)) =
        user.strip_prefix("system:serviceaccount:").and_then(|account| account.split_once(':'))
    {
        return format!(
            "bind the Role `canyon-launcher` to service account `{name}` of namespace `{namespace}`"
        );
    }
    format!("bind the Role `canyon-launcher` to user `{user}`, or to a group that it is in")
}

fn or<'a>(words: &'a str, otherwise: &'a str) -> &'a str {
    if words.is_empty() { otherwise } else { words }
}

/// The first error of type `E` in a chain of causes.
fn cause<'a, E: std::error::Error + 'static>(
    error: &'a (dyn std::error::Error + 'static),
) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// The messages of an error and of its causes, without repetition.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words: Vec<String> = vec![error.to_string()];
    let mut source = error.source();
    while let Some(error) = source {
        let message = error.to_string();
        if words.last() != Some(&message) {
            words.push(message);
        }
        source = error.source();
    }
    words.join(": ")
}

/// Explains the message of a broken connection, which comes from hyper-util, rustls and the operating system;
/// `tests/suite/kubernetes_connect.rs` provokes each of them.
async fn of_connection(place: &ClusterEndpoint, what: &str, words: &str) -> DispatchError {
    let doing = doing(place, what);
    let config = |advice: &str| {
        DispatchError::refused(FailureClass::Config, format!("{doing}: {advice} ({words})"))
    };
    if !words.contains("(Connect)") {
        // The request may have been received.
        let message = format!("{doing}: the connection broke: {words}");
        return DispatchError::unknown(FailureClass::Lost, message);
    }
    if words.contains("invalid peer certificate") {
        let wrong_name = words.contains("not valid for name") || words.contains("NotValidForName");
        return config(if wrong_name {
            "its certificate is for another name; use an address that the certificate names"
        } else if words.contains("xpired") || words.contains("NotValidYet") {
            "its certificate is not valid at this time"
        } else {
            "its certificate is not signed by the certificate authority in the runner's definition"
        });
    }
    if words.contains("received corrupt message") || words.contains("InvalidContentType") {
        return config("it does not speak TLS");
    }
    if let Some(proxy) = &place.proxy {
        let message = format!("{doing}: the proxy `{proxy}` does not connect to it: {words}");
        return DispatchError::later(FailureClass::Config, message, RECONNECT_PAUSE);
    }
    match reach::of(&place.server).await {
        reach::Reach::UnknownName => config(
            "its name cannot be resolved here; if only the cluster's network resolves it, this cluster needs an agent",
        ),
        reach::Reach::Private if !words.contains("refused") => config(
            "its address is private and cannot be reached from here: this cluster needs an agent, or a public endpoint",
        ),
        reach::Reach::Private => DispatchError::later(
            FailureClass::Config,
            format!(
                "{doing}: its private address refuses connections ({words}); if it is not reachable from here, this \
                cluster needs an agent"
            ),
            RECONNECT_PAUSE,
        ),
        reach::Reach::Public => DispatchError::later(
            FailureClass::Lost,
            format!("{doing}: it cannot be reached: {words}"),
            RECONNECT_PAUSE,
        ),
    }
}
