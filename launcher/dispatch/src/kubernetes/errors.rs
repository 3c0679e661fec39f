//! What an error of the cluster means, and what to change.

use super::bounded_body::TooMuch;
use super::local_clusters::Refused;
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
    /// Who Canyon says it is, and what the cluster must have for that.
    pub(super) shown: String,
}

impl Place {
    /// The address is one that Canyon does not go to.
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

/// What `error`, met while doing `what`, means.
pub(super) async fn meaning(place: &Place, what: &str, error: kube::Error) -> DispatchError {
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
            "{doing}: it does not know who Canyon is (401 Unauthorized). Canyon showed {}",
            place.shown
        )),
        // A quota is told as a refusal, too; it may pass.
        (403, _) if said.contains("exceeded quota") => {
            DispatchError::later(FailureClass::Capacity, format!("{doing}: {said}"), REACH_AGAIN)
        }
        (403, _) => config(match user_of(said) {
            Some(user) => format!("{doing}: {said}; {}", whom_to_bind(user)),
            // The words name which admission said no.
            None => format!("{doing}: {said}"),
        }),
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

/// The user that the API server knows Canyon as, from its words ("forbidden: User "x" cannot …").
pub(super) fn user_of(said: &str) -> Option<&str> {
    let (user, _) = said.split_once("User \"")?.1.split_once("\" cannot ")?;
    Some(user).filter(|user| !user.is_empty())
}

/// What a binding's subject must be, so that the roles are this user's.
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

fn or<'a>(said: &'a str, otherwise: &'a str) -> &'a str {
    if said.is_empty() { otherwise } else { said }
}

/// The cause of that type.
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
