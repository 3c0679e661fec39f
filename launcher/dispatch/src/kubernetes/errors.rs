//! What an error of the cluster means, and what to change.

use super::reach;
use crate::DispatchError;
use canyon_domain::failure::FailureClass;
use kube::core::Status;
use std::error::Error as _;
use std::time::Duration;

/// After the API server's word that it has too much to do, if it does not say how long.
const PAUSE: Duration = Duration::from_secs(5);
/// Between two tries to reach an API server.
const REACH_AGAIN: Duration = Duration::from_secs(10);

/// Where a call went.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The runner's name, for the message.
    pub(super) runner: String,
    /// The API server.
    pub(super) server: String,
    /// Whether a proxy is on the way.
    pub(super) proxy: Option<String>,
}

/// What `error`, met while doing `what`, means.
pub(super) async fn meaning(place: &Place, what: &str, error: kube::Error) -> DispatchError {
    match error {
        kube::Error::Api(status) => of_status(place, what, &status),
        kube::Error::Service(error) => of_connection(place, what, &chain(&*error)).await,
        kube::Error::HyperError(error) => {
            let said = chain(&error);
            let message = format!("{}: the connection broke: {said}", doing(place, what));
            DispatchError::unknown(FailureClass::Lost, message)
        }
        // Of the words of an answer that cannot be read, none belong into a message.
        kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => {
            let message = format!("{}: the answer is none of Kubernetes'", doing(place, what));
            DispatchError::unknown(FailureClass::Config, message)
        }
        other => {
            let mut said = other.to_string();
            if let Some(source) = other.source() {
                said = format!("{said}: {}", chain(source));
            }
            let message = format!("{}: {said}", doing(place, what));
            DispatchError::refused(FailureClass::Config, message)
        }
    }
}

/// No answer in time.
pub(super) fn no_answer(place: &Place, what: &str) -> DispatchError {
    let message = format!("{}: no answer in time", doing(place, what));
    DispatchError::unknown(FailureClass::Lost, message)
}

fn doing(place: &Place, what: &str) -> String {
    format!("cannot {what} in the cluster of runner `{}` ({})", place.runner, place.server)
}

fn of_status(place: &Place, what: &str, status: &Status) -> DispatchError {
    let doing = doing(place, what);
    let said = status.message.trim();
    let config = |message: String| DispatchError::refused(FailureClass::Config, message);
    match (status.code, status.reason.as_str()) {
        (429, _) => {
            let told = status.details.as_ref().map(|details| details.retry_after_seconds);
            let pause = told.filter(|seconds| *seconds > 0).map_or(PAUSE, |seconds| {
                Duration::from_secs(u64::from(seconds)).min(Duration::from_mins(1))
            });
            DispatchError::later(
                FailureClass::Throttled,
                format!("{doing}: it asks for fewer calls: {said}"),
                pause,
            )
        }
        (401, _) => config(format!(
            "{doing}: it does not know who Canyon is (401 Unauthorized). Check the runner's `auth`, and that the API \
            server trusts it"
        )),
        // A quota is told as a refusal, too; it may pass.
        (403, _) if said.contains("exceeded quota") => {
            DispatchError::later(FailureClass::Capacity, format!("{doing}: {said}"), REACH_AGAIN)
        }
        // The words name who lacks which verb on what, or which admission said no.
        (403, _) => config(format!("{doing}: {said}")),
        (404, _) if said.starts_with("namespaces ") => {
            config(format!("{doing}: {said}; make the namespace, or correct `job.namespace`"))
        }
        (404, "" | "NotFound") => config(format!("{doing}: {}", or(said, "not found"))),
        // The API server's own doubt: it may have been done.
        (500.. | 408, _) => DispatchError::unknown(
            FailureClass::Lost,
            format!("{doing}: {} {}", status.code, or(said, "server error")),
        ),
        (code, _) => config(format!("{doing}: {code} {}", or(said, "refused"))),
    }
}

fn or<'a>(said: &'a str, otherwise: &'a str) -> &'a str {
    if said.is_empty() { otherwise } else { said }
}

/// The words of an error and of all that caused it.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut words: Vec<String> = vec![error.to_string()];
    let mut source = error.source();
    while let Some(error) = source {
        let said = error.to_string();
        if words.last() != Some(&said) {
            words.push(said);
        }
        source = error.source();
    }
    words.join(": ")
}

/// The words are those of hyper-util, rustls and the operating system; `tests/suite/kubernetes_connect.rs`
/// makes each of them happen.
async fn of_connection(place: &Place, what: &str, said: &str) -> DispatchError {
    let doing = doing(place, what);
    let config = |advice: &str| {
        DispatchError::refused(FailureClass::Config, format!("{doing}: {advice} ({said})"))
    };
    if !said.contains("(Connect)") {
        // The request was on its way.
        let message = format!("{doing}: the connection broke: {said}");
        return DispatchError::unknown(FailureClass::Lost, message);
    }
    if said.contains("invalid peer certificate") {
        let wrong_name = said.contains("not valid for name") || said.contains("NotValidForName");
        return config(if wrong_name {
            "its certificate is for another name; use an address that the certificate names"
        } else if said.contains("xpired") || said.contains("NotValidYet") {
            "its certificate is not valid at this time"
        } else {
            "its certificate is not signed by the cluster's authority as the runner's definition has it"
        });
    }
    if said.contains("received corrupt message") || said.contains("InvalidContentType") {
        return config("it does not speak TLS");
    }
    if let Some(proxy) = &place.proxy {
        let message = format!("{doing}: the proxy `{proxy}` does not let through: {said}");
        return DispatchError::later(FailureClass::Config, message, REACH_AGAIN);
    }
    match reach::of(&place.server).await {
        reach::Reach::UnknownName => config(
            "its name cannot be resolved here; if it is known in the cluster's network only, this cluster needs an agent",
        ),
        reach::Reach::Private if !said.contains("refused") => config(
            "its address is private and cannot be reached from here: this cluster needs an agent, or a public endpoint",
        ),
        reach::Reach::Private => DispatchError::later(
            FailureClass::Config,
            format!(
                "{doing}: its private address refuses connections ({said}); if it is not reachable from here, this \
                cluster needs an agent"
            ),
            REACH_AGAIN,
        ),
        reach::Reach::Public => DispatchError::later(
            FailureClass::Lost,
            format!("{doing}: it cannot be reached: {said}"),
            REACH_AGAIN,
        ),
    }
}
