//! Records of the table's stream: writes of deployments, and requests for checks of runners. The
//! launcher publishes the event of a write. Before the first attempt it acts on the record's image; later it reads the
//! deployment from the table, because other writes may have followed.
//!
//! The event source mapping delivers a record at least once, in order for one deployment. A record
//! that cannot be served now is reported as failed and is delivered again, with all that follow it
//! in its shard (AWS Lambda Developer Guide, "Configuring partial batch response with DynamoDB and
//! Lambda"). So a record that can never be read ends in the failure queue after the mapping's
//! retries, and then blocks nothing.

use crate::{LaunchError, Launcher};
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

/// The payload of the event source mapping. Records stay unparsed, so that an invalid one does not
/// fail the others.
#[derive(Debug, Deserialize)]
pub struct Batch {
    /// The records, in the order of their writes.
    #[serde(rename = "Records")]
    pub records: Vec<Value>,
}

/// A record's content.
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

/// Serves every record of a batch and returns those to deliver again.
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
        // A panic is a defect: the sweep retries its deployment.
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

/// Runs a check. A failed one is not delivered again: the sweep finds it too, and the user may
/// start another. A task beside the batch would be frozen with the function once the batch is
/// answered, and the batch delays the next one of its shard. So a check gets a short time here,
/// which suffices for nearly all, and a slow one is left to the sweep, which delays no batch.
async fn serve_check(launcher: &Launcher, check: &OpenCheck) {
    if let Err(error) = launcher.check_briefly(check).await {
        let error = Causes(&error);
        tracing::warn!(%error, runner = %check.runner, "cannot check the runner now");
    }
}

/// Publishes the event of each write in order, then reconciles the deployment as the last write
/// requires. Returns the record from which to deliver again, if any.
async fn serve_deployment(launcher: &Launcher, writes: Vec<Write>) -> Option<String> {
    // A failed publication must not delay a launch.
    let (mut last, mut unpublished) = (None, None);
    for write in writes {
        if unpublished.is_none()
            && let Err(error) = launcher.publish_write(write.org, &write.image).await
        {
            warn(&error, write.image.id);
            unpublished = Some(write.sequence.clone());
        }
        last = Some(write);
    }
    let Write { sequence, org, image } = last?;
    let due = Due { org, id: image.id };
    let done = if image.status.is_terminal() && unpublished.is_none() {
        // It never changes again, so it need not be read from the table.
        launcher.clean_up_published(due, &image).await
    } else if image.due_at.is_some_and(|at| at > launcher.clock.now()) {
        // A claim, which only had to be published. Any later write makes it due or has its own record.
        Ok(())
    } else {
        launcher.reconcile_written(due, image).await
    };
    let again = done.err().and_then(|error| {
        warn(&error, due.id);
        // If a retry would not help soon, leave it to the sweep: the deployment is due.
        error.is_retryable().then_some(sequence)
    });
    unpublished.or(again)
}

fn warn(error: &LaunchError, deployment: DeploymentId) {
    tracing::warn!(error = %Causes(error), %deployment, "cannot serve the record now");
}

/// Parses a record; `None` for a deletion, which needs no action.
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

/// The sequence number of a record that cannot be read. Without one, Lambda delivers the whole
/// batch again.
fn sequence(record: &Value) -> String {
    record["dynamodb"]["SequenceNumber"].as_str().unwrap_or_default().to_owned()
}
