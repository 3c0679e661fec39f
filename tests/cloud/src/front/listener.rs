//! One listener: receives the calls of one function, and answers each or cuts its connection.

use super::answer::{self, Answer};
use super::call::Call;
use super::fault::Fault;
use super::ledger::Outcome;
use super::needs::{self, Need};
use super::policy::Policy;
use super::{Shared, put_events, s3};
use crate::chance::lock;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// The calling function, and its role's policy.
pub(super) struct Caller {
    pub(super) function: String,
    pub(super) policy: Arc<Policy>,
}

/// Ends a connection without an answer: hyper does that if a service returns an error.
#[derive(Debug, thiserror::Error)]
#[error("the connection is cut")]
pub(super) struct Cut;

/// Accepts connections until it is dropped, which ends them too.
pub(super) async fn accept(listener: TcpListener, caller: Arc<Caller>, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                // Without this, a small answer would wait for more data.
                let _ = stream.set_nodelay(true);
                let (caller, shared) = (caller.clone(), shared.clone());
                connections.spawn(async move {
                    let service = service_fn(|request| respond(request, &caller, &shared));
                    let stream = TokioIo::new(stream);
                    let _ = http1::Builder::new().serve_connection(stream, service).await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn respond(
    request: Request<Incoming>,
    caller: &Caller,
    shared: &Shared,
) -> Result<Answer, Cut> {
    let (head, body) = request.into_parts();
    // The caller closed the connection in the middle of its request.
    let Ok(body) = body.collect().await else { return Err(Cut) };
    let Some(call) = Call::read(head.method, head.uri, head.headers, body.to_bytes()) else {
        return Ok(answer::not_signed());
    };
    let needs = needs::of(&call, &shared.account);
    let operation = call.full_name();
    let write = |needs: &[Need], outcome: Outcome| {
        shared.ledger.write(&caller.function, &operation, needs, &outcome);
    };
    if let Some(refused) = needs.iter().find(|need| !caller.policy.allows(need)) {
        write(std::slice::from_ref(refused), Outcome::Denied);
        return Ok(answer::denied(&caller.function, &call, refused, &shared.account));
    }
    let draw = shared.faults.draw(&caller.function, &call, &shared.chance);
    tokio::time::sleep(draw.latency).await;
    write(&needs, draw.fault.map_or(Outcome::Allowed, |fault| Outcome::Faulted(fault.name())));
    match draw.fault {
        Some(Fault::Throttle) => Ok(answer::throttled(&call)),
        Some(Fault::Conflict) => Ok(answer::conflict(&call)),
        Some(Fault::Partial) => Ok(answer::nothing_done(&call)),
        Some(Fault::ErrorBefore) => Ok(answer::broken(&call)),
        Some(Fault::CutBefore) => Err(Cut),
        Some(Fault::ErrorAfter) => {
            execute(&call, caller, shared).await;
            Ok(answer::broken(&call))
        }
        Some(Fault::CutAfter) => {
            execute(&call, caller, shared).await;
            Err(Cut)
        }
        Some(Fault::Latency(_)) | None => Ok(execute(&call, caller, shared).await),
    }
}

/// Forwards a call, and passes the events that the bus accepted to the hook.
async fn execute(call: &Call, caller: &Caller, shared: &Shared) -> Answer {
    let answer = match shared.forwarder.send(call).await {
        Ok(answer) => answer,
        Err(why) => return answer::unreachable(&why),
    };
    let status = answer.status();
    if call.full_name() == "events:PutEvents" && status.is_success() {
        return report_events(call, caller, shared, answer).await;
    }
    let object = ["GetObject", "HeadObject"].contains(&call.operation.as_str());
    if call.scope.service == "s3" && object && status == StatusCode::NOT_FOUND {
        return hide(call, caller, shared, answer);
    }
    answer
}

async fn report_events(call: &Call, caller: &Caller, shared: &Shared, answer: Answer) -> Answer {
    let (head, body) = answer.into_parts();
    let Ok(body) = body.collect().await;
    let body = body.to_bytes();
    let hook = lock(&shared.hook).clone();
    if let Some(hook) = hook {
        for entry in put_events::taken(&caller.function, call, &body) {
            hook(entry);
        }
    }
    Answer::from_parts(head, body.into())
}

/// "If the object you request doesn't exist, the error that Amazon S3 returns depends on whether you also
/// have the s3:ListBucket permission": with it 404, without it 403. (Amazon S3 API reference, `GetObject`.)
fn hide(call: &Call, caller: &Caller, shared: &Shared, found: Answer) -> Answer {
    let need = s3::list_bucket(call);
    let granted = caller.policy.allows(&need);
    let outcome = if granted { Outcome::Allowed } else { Outcome::Denied };
    let name = call.full_name();
    shared.ledger.write(&caller.function, &name, std::slice::from_ref(&need), &outcome);
    if granted { found } else { answer::denied(&caller.function, call, &need, &shared.account) }
}
