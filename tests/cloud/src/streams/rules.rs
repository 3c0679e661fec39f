//! A mapping's settings, parsed and checked against the quotas of the API reference.

use crate::pattern::Pattern;
use crate::stack::EventSourceMapping;
use serde_json::Value;
use std::time::Duration;

pub(super) struct Rules {
    pub(super) stream_arn: String,
    pub(super) latest: bool,
    pub(super) batch_size: usize,
    pub(super) window: Duration,
    pub(super) lanes: usize,
    pub(super) bisect: bool,
    /// None: unlimited.
    pub(super) retries: Option<u32>,
    pub(super) age: Option<Duration>,
    pub(super) partial: bool,
    pub(super) destination: Option<String>,
    filters: Vec<Pattern>,
}

impl Rules {
    pub(super) fn read(mapping: &EventSourceMapping) -> Result<Self, String> {
        let within = |name: &str, value: usize, most: usize| match value {
            value if (1..=most).contains(&value) => Ok(value),
            value => Err(format!("{name} is {value}, and must be within 1 and {most}")),
        };
        let filters = mapping.filter_criteria.iter().flat_map(|criteria| &criteria.filters);
        let filters = filters.map(|filter| Pattern::parse(&filter.pattern));
        let latest = match mapping.starting_position.as_str() {
            "LATEST" => true,
            "TRIM_HORIZON" => false,
            other => return Err(format!("StartingPosition `{other}` is not known for a stream")),
        };
        let partial = match mapping.function_response_types.as_slice() {
            [] => false,
            [one] if one == "ReportBatchItemFailures" => true,
            other => return Err(format!("FunctionResponseTypes {other:?} are not known")),
        };
        let window = mapping.maximum_batching_window_in_seconds;
        let destination = mapping.destination_config.as_ref().and_then(|to| to.on_failure.clone());
        let age = u64::try_from(mapping.maximum_record_age_in_seconds).ok();
        Ok(Self {
            stream_arn: mapping.event_source_arn.clone(),
            latest,
            batch_size: within("BatchSize", mapping.batch_size, 10_000)?,
            window: Duration::from_secs(window.into()),
            lanes: within("ParallelizationFactor", mapping.parallelization_factor, 10)?,
            bisect: mapping.bisect_batch_on_function_error,
            retries: u32::try_from(mapping.maximum_retry_attempts).ok(),
            age: age.map(Duration::from_secs),
            partial,
            destination: destination.map(|to| to.destination),
            filters: filters.collect::<Result<_, _>>()?,
        })
    }

    /// Whether one of the filters matches; without filters everything passes.
    pub(super) fn pass(&self, event: &Value) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|filter| filter.matches(event))
    }
}
