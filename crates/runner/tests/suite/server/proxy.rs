//! A proxy between the runner and its control plane.

use super::{DEPLOYMENT, Shared};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, HOST, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{Html, IntoResponse, Response};
use canyon_api::attempt::{ANSWER_OF, result_of};

/// Names the attempt in each answer of the control plane itself.
pub(super) async fn name_attempt(request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let number = path.split_once("/attempts/").and_then(|(_, rest)| rest.split('/').next());
    let number = number.and_then(|number| number.parse().ok()).unwrap_or(1);
    let mut response = next.run(request).await;
    let of = HeaderValue::from_str(&result_of(DEPLOYMENT, number)).unwrap();
    response.headers_mut().insert(ANSWER_OF, of);
    response
}

/// Answers in the control plane's place, as [`super::Plane::foreign`] says.
pub(super) async fn answer_instead(
    State(plane): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    let (path, host) = (request.uri().path().to_owned(), request.headers()[HOST].clone());
    let length = request.headers().get(CONTENT_LENGTH);
    let length: u64 = length.map_or(0, |length| length.to_str().unwrap().parse().unwrap());
    let found = {
        let mut plane = plane.lock().unwrap();
        if plane.largest_request.is_some_and(|most| length > most) {
            return (StatusCode::FORBIDDEN, Html("<h1>Forbidden</h1>")).into_response();
        }
        let at = plane.foreign.iter().position(|foreign| path.ends_with(foreign.step));
        at.map(|at| plane.foreign.remove(at))
    };
    let Some(foreign) = found else { return next.run(request).await };
    if foreign.arrived {
        next.run(request).await;
    }
    let status = StatusCode::from_u16(foreign.status).unwrap();
    let mut response = (status, Html(foreign.body)).into_response();
    if status.is_redirection() {
        let portal = format!("http://{}/portal", host.to_str().unwrap());
        response.headers_mut().insert(LOCATION, HeaderValue::from_str(&portal).unwrap());
    }
    response
}
