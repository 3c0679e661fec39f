//! Records of the table's stream: each says that a deployment was written, or that somebody asks for a
//! check of a runner. What a deployment says is told to the world; what is to be done then, the table
//! says.
//!
//! The mapping delivers a record at least once, in order for one deployment. One that cannot be
//! served now is reported, and with all that follow it in its shard it comes again (AWS Lambda
//! Developer Guide, "Configuring partial batch response with DynamoDB and Lambda"). So one that can
//! never be read ends in the failure queue, after the retries of the mapping, and holds up nobody
//! for longer.

use crate::{LaunchError, Launcher, Why};
use aws_lambda_events::dynamodb::EventRecord;
use aws_lambda_events::streams::{DynamoDbBatchItemFailure, DynamoDbEventResponse};
use canyon_domain::causes::Causes;
use canyon_domain::deployment::Deployment;
use canyon_domain::ids::{DeploymentId, OrgUuid};
use canyon_store::deployment_item::from_stream_image;
use canyon_store::deployment_lists::Due;
use canyon_store::runner_checks::OpenCheck;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use tokio::task::JoinSet;

/// What the event source mapping sends. Records stay unparsed, so that one of them cannot spoil the
/// others.
#[derive(Debug, Deserialize)]
pub struct Batch {
    /// In the order of their writes.
    #[serde(rename = "Records")]
    pub records: Vec<Value>,
}

/// What a record is about.
enum Record {
    Deployment(Box<Write>),
    Check(OpenCheck),
}

/// A write of a deployment.
struct Write {
    sequence: String,
    org: OrgUuid,
    image: Deployment,
}

/// Serves every record of a batch and says which of them to deliver again.
pub async fn serve(launcher: &Launcher, batch: Batch) -> DynamoDbEventResponse {
    let mut failed = Vec::new();
    let mut by_deployment: BTreeMap<DeploymentId, Vec<Write>> = BTreeMap::new();
    let mut checks = JoinSet::new();
    for record in batch.records {
        match read(&record) {
            Ok(Some(Record::Deployment(write))) => {
                by_deployment.entry(write.image.id).or_default().push(*write);
            }
            Ok(Some(Record::Check(check))) => {
                let launcher = launcher.clone();
                checks.spawn(async move { serve_check(&launcher, &check).await });
            }
            Ok(None) => {}
            Err(error) => {
                let sequence = sequence(&record);
                tracing::error!(error = %Causes(&*error), sequence, "a record of the stream cannot be read");
                failed.push(sequence);
            }
        }
    }
    let mut tasks = JoinSet::new();
    for writes in by_deployment.into_values() {
        let launcher = launcher.clone();
        tasks.spawn(async move { serve_deployment(&launcher, writes).await });
    }
    while let Some(ended) = tasks.join_next().await {
        // A panic is a defect: the sweeper finds what it left.
        failed.extend(ended.ok().flatten());
    }
    while checks.join_next().await.is_some() {}
    let failure = |sequence| {
        let mut failure = DynamoDbBatchItemFailure::default();
        failure.item_identifier = Some(sequence);
        failure
    };
    let mut answer = DynamoDbEventResponse::default();
    answer.batch_item_failures = failed.into_iter().map(failure).collect();
    answer
}

/// A check is not delivered again: somebody waits for it, the sweeper looks too, and it may be asked for
/// once more. A task beside the batch would be frozen with the function as soon as that has answered, and
/// the batch keeps the next one of its part of the shard waiting: so it gets a moment here, in which
/// nearly all checks are done, and a slow one goes to the sweeper, for which nobody waits.
async fn serve_check(launcher: &Launcher, check: &OpenCheck) {
    if let Err(error) = launcher.check_briefly(check).await {
        let error = Causes(&error);
        tracing::warn!(%error, runner = %check.runner, "cannot check the runner now");
    }
}

/// Tells of each write in order, then does what the last of them asks for. Returns the record to begin
/// again with, if any.
async fn serve_deployment(launcher: &Launcher, writes: Vec<Write>) -> Option<String> {
    // What cannot be told holds up no launch.
    let (mut last, mut untold) = (None, None);
    for write in writes {
        if untold.is_none()
            && let Err(error) = launcher.tell(write.org, &write.image).await
        {
            warn(&error, write.image.id);
            untold = Some(write.sequence.clone());
        }
        last = Some(write);
    }
    let Write { sequence, org, image } = last?;
    let due = Due { org, id: image.id };
    let done = if image.status.is_terminal() && untold.is_none() {
        // It never changes again, so it need not be read.
        launcher.told(due, &image).await
    } else if image.due_at.is_some_and(|at| at > launcher.clock.now()) {
        // A claim, to be told of. Whatever came after it is due, or has a record of its own.
        Ok(())
    } else {
        launcher.tend(due, Why::Due).await
    };
    let again = done.err().and_then(|error| {
        warn(&error, due.id);
        // What no repetition mends soon, the sweeper looks at: it is due.
        error.is_retryable().then_some(sequence)
    });
    untold.or(again)
}

fn warn(error: &LaunchError, deployment: DeploymentId) {
    tracing::warn!(error = %Causes(error), %deployment, "cannot serve the record now");
}

/// What a record is about; `None` for a deletion, which says nothing to anybody.
fn read(record: &Value) -> Result<Option<Record>, Box<dyn Error>> {
    let record = EventRecord::deserialize(record)?;
    if record.event_name == "REMOVE" {
        return Ok(None);
    }
    let sequence = record.change.sequence_number.ok_or("it has no sequence number")?;
    let image = record.change.new_image;
    if let Some(check) = OpenCheck::from_stream_image(image.clone()) {
        return Ok(Some(Record::Check(check)));
    }
    let (org, image) = from_stream_image(image)?;
    Ok(Some(Record::Deployment(Box::new(Write { sequence, org, image }))))
}

/// The name of a record that cannot be read. Without one the whole batch comes again.
fn sequence(record: &Value) -> String {
    record["dynamodb"]["SequenceNumber"].as_str().unwrap_or_default().to_owned()
}
