//! An agent that is killed and started again.

use crate::behaviour::{Act, Platform as _, running, until, until_dead};
use crate::through_agent::{Bed, ThroughAgent};
use canyon_dispatch::StopMode;
use canyon_domain::deadline::Observation;

/// The agent keeps no data: it finds the job through the place's id and what Canyon has stored.
pub(crate) async fn the_agent_finds_its_job<B: Bed>(through_agent: &mut ThroughAgent<B>) {
    let kind = through_agent.dispatcher();
    let job = running(through_agent, Act::UntilAsked).await;
    through_agent.agent.restart(&through_agent.canyon).await;
    until("the job is seen again", async || kind.observe(&job).await == Observation::Alive).await;
    assert_eq!(through_agent.lives(&job), Some(true));
    // So far Canyon may have used a report from before the restart. Only an agent that finds the job can stop it.
    kind.stop(&job, StopMode::Graceful).await.unwrap();
    until_dead(through_agent, &*kind, &job).await;
    let noted = |what: &str| through_agent.noted(&job, what);
    assert_eq!((noted("started"), noted("asked")), (1, 1));
}
