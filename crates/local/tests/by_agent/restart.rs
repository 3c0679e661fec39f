//! An agent that dies leaves its jobs to its next life.

use crate::behaviour::{Act, Platform as _, running, until, until_dead};
use crate::far::{Bed, Far};
use canyon_dispatch::StopMode;
use canyon_domain::deadline::Observation;

/// The agent remembers nothing: it is the same place, in which it finds the job by what Canyon kept of it.
pub(crate) async fn it_goes_on_with_its_job<B: Bed>(far: &mut Far<B>) {
    let kind = far.dispatcher();
    let job = running(far, Act::UntilAsked).await;
    far.agent.restart(&far.canyon).await;
    until("the job is seen again", async || kind.observe(&job).await == Observation::Alive).await;
    assert_eq!(far.lives(&job), Some(true));
    // Canyon may have believed the word of the former life so far. Only an agent that sees the job carries this out.
    kind.stop(&job, StopMode::Graceful).await.unwrap();
    until_dead(far, &*kind, &job).await;
    assert_eq!((far.noted(&job, "started"), far.noted(&job, "asked")), (1, 1));
}
