//! A result that does not arrive because of its size, and what is left out of it then.

use canyon_api::attempt::DeploymentResultsUpdateBody;
use std::time::Duration;
use tokio::time::Instant;

/// How often a result must have had no answer of Canyon's while a small report had one, until its size is the reason.
const MIN_UNANSWERED: u32 = 5;
/// The same as a time. A gateway that restarts, or a function that is throttled, is back before that.
const SIZE_WAIT: Duration = Duration::from_mins(1);
/// A body that gateways let pass: AWS WAF looks at the first 8 KB of a body, and many rules block what is larger.
const SMALL_BODY: usize = 8 * 1024;
/// After this time without an answer, the content of even a small body counts as the reason: a firewall may take an
/// output for an attack.
const CONTENT_WAIT: Duration = Duration::from_mins(5);

/// The tries to deliver a result that had no answer of Canyon's, while a report after each of them had one.
#[derive(Debug)]
pub(super) struct Unanswered {
    count: u32,
    since: Option<Instant>,
    /// How long they must go on.
    wait: Duration,
}

impl Unanswered {
    /// None so far. A job that `must_end` is killed soon, so that only the count decides.
    pub(super) fn new(must_end: bool) -> Self {
        let wait = if must_end { Duration::ZERO } else { SIZE_WAIT };
        Self { count: 0, since: None, wait }
    }

    /// Another one.
    pub(super) fn add(&mut self, now: Instant) {
        self.count += 1;
        self.since.get_or_insert(now);
    }

    /// Whether the size or the content of `body` is the reason.
    pub(super) fn shows_size(&self, body: &DeploymentResultsUpdateBody, now: Instant) -> bool {
        let Some(waited) = self.since.map(|since| now - since) else { return false };
        let is_large = json_size(body) > SMALL_BODY;
        self.count >= MIN_UNANSWERED && waited >= if is_large { self.wait } else { CONTENT_WAIT }
    }

    /// Something was left out: a smaller body gets the same time, and another try.
    pub(super) fn again(&mut self, now: Instant) {
        self.count = MIN_UNANSWERED - 1;
        self.since = Some(now);
    }
}

/// Takes the outputs out of a result, or else the last pieces of its log, or else the addresses of its resources. Returns
/// whether there was anything.
pub(super) fn leave_out(body: &mut DeploymentResultsUpdateBody) -> bool {
    leave_out_outputs(body) || leave_out_log(body) || leave_out_addresses(body)
}

/// The same for the largest of these.
pub(super) fn leave_out_largest(body: &mut DeploymentResultsUpdateBody) -> bool {
    let secret = json_size(&body.secret_outputs);
    let sealed = body.outputs.as_ref().map_or(0, String::len);
    let outputs = json_size(&body.plain_outputs) + secret + sealed;
    let log = body.chunks.iter().map(|chunk| chunk.data.len()).sum();
    let addresses = body.state.as_ref().map_or(0, |state| json_size(&state.addresses));
    let largest = outputs.max(log).max(addresses);
    if outputs == largest {
        leave_out_outputs(body)
    } else if log == largest {
        leave_out_log(body)
    } else {
        leave_out_addresses(body)
    }
}

fn leave_out_outputs(body: &mut DeploymentResultsUpdateBody) -> bool {
    let had_any = body.outputs.take().is_some() || !body.plain_outputs.is_empty();
    body.plain_outputs.clear();
    body.secret_outputs.clear();
    had_any
}

fn leave_out_log(body: &mut DeploymentResultsUpdateBody) -> bool {
    !std::mem::take(&mut body.chunks).is_empty()
}

fn leave_out_addresses(body: &mut DeploymentResultsUpdateBody) -> bool {
    body.state.as_mut().is_some_and(|state| !std::mem::take(&mut state.addresses).is_empty())
}

fn json_size(value: &impl serde::Serialize) -> usize {
    serde_json::to_vec(value).map_or(0, |json| json.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Outcome;
    use canyon_api::attempt::{Chunk, Stream};

    fn with_log(bytes: usize) -> DeploymentResultsUpdateBody {
        let mut body = Outcome::default().into_body(None);
        body.plain_outputs.insert(
            "word".to_owned(),
            serde_json::from_str("{\"value\": 1, \"sensitive\": false}").unwrap(),
        );
        let data = "a".repeat(bytes);
        body.chunks.push(Chunk { stream: Stream::Log, offset: 0, data });
        body
    }

    fn after(tries: u32, wait: Duration, must_end: bool) -> impl Fn(usize) -> bool {
        let begun = Instant::now();
        let mut unanswered = Unanswered::new(must_end);
        (0..tries).for_each(|_| unanswered.add(begun));
        move |bytes| unanswered.shows_size(&with_log(bytes), begun + wait)
    }

    #[test]
    fn only_a_large_body_that_is_refused_for_a_minute_is_too_large() {
        assert!(after(5, SIZE_WAIT, false)(9_000));
        assert!(!after(4, SIZE_WAIT, false)(9_000), "too few tries");
        assert!(!after(50, Duration::from_secs(59), false)(9_000), "a gateway may be back soon");
        assert!(!after(50, SIZE_WAIT * 4, false)(4_000), "every gateway takes that much");
        assert!(after(50, CONTENT_WAIT, false)(4_000), "a firewall may refuse its content");
        assert!(after(5, Duration::ZERO, true)(9_000), "a job that is to stop has no minute");
        assert!(!after(5, Duration::ZERO, true)(4_000));
    }

    #[test]
    fn each_step_has_a_minute_of_its_own() {
        let (begun, mut unanswered) = (Instant::now(), Unanswered::new(false));
        (0..5).for_each(|_| unanswered.add(begun));
        unanswered.again(begun + SIZE_WAIT);
        unanswered.add(begun + SIZE_WAIT);
        let shows =
            |seconds| unanswered.shows_size(&with_log(9_000), begun + Duration::from_secs(seconds));
        assert_eq!([119, 120].map(shows), [false, true]);
    }

    #[test]
    fn what_is_largest_goes_first_and_what_is_small_stays() {
        let mut body = with_log(9_000);
        assert!(leave_out_largest(&mut body));
        assert_eq!((body.chunks.len(), body.plain_outputs.len()), (0, 1));
        assert!(leave_out_largest(&mut body), "then the outputs");
        assert!(!leave_out_largest(&mut body), "then nothing is left to leave out");
    }
}
