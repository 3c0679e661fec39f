//! The parts of a deployed stack that this crate implements, parsed from the stack's description.
//!
//! Names are those of IAM, Lambda and EventBridge. Other fields are ignored.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One or several values, as IAM writes lists.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum OneOrMany {
    /// A single value.
    One(Scalar),
    /// A list.
    Many(Vec<Scalar>),
}

/// A value of a condition: templates write booleans and numbers there too.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum Scalar {
    /// Text.
    Text(String),
    /// `true` or `false`.
    Flag(bool),
    /// A whole number.
    Number(i64),
}

impl Scalar {
    /// The text that IAM compares.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Flag(flag) => flag.to_string(),
            Self::Number(number) => number.to_string(),
        }
    }
}

impl OneOrMany {
    /// All values as text.
    pub fn texts(&self) -> Vec<String> {
        match self {
            Self::One(one) => vec![one.text()],
            Self::Many(many) => many.iter().map(Scalar::text).collect(),
        }
    }
}

impl Default for OneOrMany {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

/// Whether a statement allows or denies.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum Effect {
    /// It allows.
    Allow,
    /// It denies, whatever other statements allow.
    Deny,
}

/// By operator and key, the values to compare.
pub type Conditions = BTreeMap<String, BTreeMap<String, OneOrMany>>;

/// One statement of a role's policy.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Statement {
    /// Allow or deny.
    pub effect: Effect,
    /// The actions that it covers.
    #[serde(default)]
    pub action: OneOrMany,
    /// Or: all actions but these.
    #[serde(default)]
    pub not_action: OneOrMany,
    /// The resources that it covers.
    #[serde(default)]
    pub resource: OneOrMany,
    /// Or: all resources but these.
    #[serde(default)]
    pub not_resource: OneOrMany,
    /// The conditions under which it applies.
    #[serde(default)]
    pub condition: Conditions,
}

/// `AWS::Lambda::EventSourceMapping` of a `DynamoDB` stream, with Lambda's defaults.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct EventSourceMapping {
    /// The stream.
    pub event_source_arn: String,
    /// The function, by name or ARN.
    #[serde(alias = "FunctionArn")]
    pub function_name: String,
    /// `TRIM_HORIZON` or `LATEST`.
    pub starting_position: String,
    /// A disabled mapping reads nothing.
    pub enabled: bool,
    /// The maximum number of records of one invocation.
    pub batch_size: usize,
    /// How long records are collected.
    pub maximum_batching_window_in_seconds: u32,
    /// Concurrent batches for one shard.
    pub parallelization_factor: usize,
    /// Whether a failed batch is halved.
    pub bisect_batch_on_function_error: bool,
    /// -1: unlimited.
    pub maximum_retry_attempts: i64,
    /// -1: unlimited.
    pub maximum_record_age_in_seconds: i64,
    /// `ReportBatchItemFailures`, or empty.
    pub function_response_types: Vec<String>,
    /// Which records reach the function.
    pub filter_criteria: Option<FilterCriteria>,
    /// Where the metadata of discarded records goes.
    pub destination_config: Option<DestinationConfig>,
}

impl Default for EventSourceMapping {
    fn default() -> Self {
        Self {
            event_source_arn: String::new(),
            function_name: String::new(),
            starting_position: "TRIM_HORIZON".to_owned(),
            enabled: true,
            batch_size: 100,
            maximum_batching_window_in_seconds: 0,
            parallelization_factor: 1,
            bisect_batch_on_function_error: false,
            maximum_retry_attempts: -1,
            maximum_record_age_in_seconds: -1,
            function_response_types: Vec::new(),
            filter_criteria: None,
            destination_config: None,
        }
    }
}

/// A record passes if one of the filters matches.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct FilterCriteria {
    /// At most 10 by quota; without a filter every record passes.
    pub filters: Vec<Filter>,
}

/// One filter.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Filter {
    /// An event pattern, as JSON in a string.
    pub pattern: String,
}

/// `OnFailure` of a mapping or of an asynchronous invocation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct DestinationConfig {
    /// The destination of failures.
    pub on_failure: Option<Destination>,
}

/// A destination.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Destination {
    /// Its ARN.
    pub destination: String,
}

/// A rule of a bus, as the stack's description or a template writes it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Rule {
    /// Its name.
    #[serde(alias = "Name")]
    pub name: String,
    /// Its ARN; derived from the name if it is missing.
    #[serde(alias = "Arn")]
    pub arn: Option<String>,
    /// The name or ARN of its bus; by default the account's `default` bus.
    #[serde(alias = "EventBusName")]
    pub bus: Option<String>,
    /// The events that it matches.
    #[serde(alias = "EventPattern")]
    pub pattern: Option<Value>,
    /// Or its schedule: `rate(...)`.
    #[serde(alias = "ScheduleExpression")]
    pub schedule: Option<String>,
    /// `ENABLED` by default.
    #[serde(alias = "State")]
    pub state: Option<String>,
    /// Its targets.
    #[serde(alias = "Targets")]
    pub targets: Vec<RuleTarget>,
}

/// A target of a rule.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RuleTarget {
    /// A function or a queue.
    #[serde(alias = "Arn")]
    pub arn: String,
    /// How long delivery is retried.
    #[serde(alias = "RetryPolicy")]
    pub retry_policy: Option<RetryPolicy>,
    /// The queue for events that could not be delivered.
    #[serde(alias = "DeadLetterConfig")]
    pub dlq: Option<DeadLetterConfig>,
    /// A constant instead of the event, JSON in a string.
    #[serde(alias = "Input")]
    pub input: Option<String>,
    /// A part of the event instead of all of it.
    #[serde(alias = "InputPath")]
    pub input_path: Option<String>,
    /// A text made from the event.
    #[serde(alias = "InputTransformer")]
    pub input_transformer: Option<InputTransformer>,
}

/// How long `EventBridge` retries; its defaults are 24 hours and 185 retries.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct RetryPolicy {
    /// Retries after the first attempt.
    pub maximum_retry_attempts: u32,
    /// Since the event was published.
    pub maximum_event_age_in_seconds: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { maximum_retry_attempts: 185, maximum_event_age_in_seconds: 86_400 }
    }
}

/// A queue for events that could not be delivered: its ARN alone, or as a template writes it.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum DeadLetterConfig {
    /// The ARN.
    Arn(String),
    /// `DeadLetterConfig`.
    Config {
        /// The ARN.
        #[serde(rename = "Arn")]
        arn: String,
    },
}

impl DeadLetterConfig {
    /// The queue's ARN.
    pub fn arn(&self) -> &str {
        match self {
            Self::Arn(arn) | Self::Config { arn } => arn,
        }
    }
}

/// `InputTransformer` of a target.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InputTransformer {
    /// JSON paths by name.
    pub input_paths_map: BTreeMap<String, String>,
    /// Text that contains `<name>`.
    pub input_template: String,
}
