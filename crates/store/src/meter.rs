//! Counts requests and consumed capacity, for tests and benchmarks. Off by default.
//!
//! It is an SDK interceptor, so it counts the same on DynamoDB, DynamoDB Local and the embedded
//! table. Only successful answers carry capacity: a write whose condition fails counts as a request
//! without units here, although AWS bills it.

use crate::Table;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeSerializationInterceptorContextMut,
    BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::batch_get_item::{BatchGetItemInput, BatchGetItemOutput};
use aws_sdk_dynamodb::operation::batch_write_item::{BatchWriteItemInput, BatchWriteItemOutput};
use aws_sdk_dynamodb::operation::delete_item::{DeleteItemInput, DeleteItemOutput};
use aws_sdk_dynamodb::operation::get_item::{GetItemInput, GetItemOutput};
use aws_sdk_dynamodb::operation::put_item::{PutItemInput, PutItemOutput};
use aws_sdk_dynamodb::operation::query::{QueryInput, QueryOutput};
use aws_sdk_dynamodb::operation::scan::{ScanInput, ScanOutput};
use aws_sdk_dynamodb::operation::transact_get_items::{
    TransactGetItemsInput, TransactGetItemsOutput,
};
use aws_sdk_dynamodb::operation::transact_write_items::{
    TransactWriteItemsInput, TransactWriteItemsOutput,
};
use aws_sdk_dynamodb::operation::update_item::{UpdateItemInput, UpdateItemOutput};
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};
use aws_smithy_runtime_api::client::interceptors::context::{Input, Output};
use aws_smithy_runtime_api::client::interceptors::dyn_dispatch_hint;
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Usage of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// Requests sent, including retries.
    pub requests: u64,
    /// Read or write units, including those of indexes.
    pub units: f64,
}

/// Running counts by operation (`PutItem`). Clones share the counts.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    operations: Arc<Mutex<BTreeMap<String, Usage>>>,
}

impl Meter {
    /// The same table with a client that this meter counts. Each read is a request, as on AWS, also of an embedded table.
    #[must_use]
    pub fn watch(&self, table: &Table) -> Table {
        let config = table.client().config().to_builder().interceptor(self.clone()).build();
        table.with_client(Client::from_conf(config))
    }

    /// Returns the counts so far and resets them to zero.
    pub fn take(&self) -> Reading {
        Reading(std::mem::take(&mut *self.lock()))
    }

    fn count(&self, config: &ConfigBag, change: impl FnOnce(&mut Usage)) {
        let Some(operation) = config.load::<Metadata>() else { return };
        change(self.lock().entry(operation.name().to_owned()).or_default());
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Usage>> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts of a [`Meter`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading(pub BTreeMap<String, Usage>);

impl Reading {
    /// Number of all requests.
    pub fn requests(&self) -> u64 {
        self.0.values().map(|usage| usage.requests).sum()
    }

    /// Write units of all operations that write.
    pub fn write_units(&self) -> f64 {
        self.units(true)
    }

    /// Read units of all other operations.
    pub fn read_units(&self) -> f64 {
        self.units(false)
    }

    fn units(&self, written: bool) -> f64 {
        let writes = |name: &str| {
            ["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"]
                .contains(&name)
        };
        self.0
            .iter()
            .filter(|(name, _)| writes(name) == written)
            .map(|(_, usage)| usage.units)
            .sum()
    }
}

#[dyn_dispatch_hint]
impl Intercept for Meter {
    fn name(&self) -> &'static str {
        "Meter"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        ask_for_capacity(context.input_mut());
        Ok(())
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.count(config, |usage| usage.requests += 1);
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Ok(output) = context.output_or_error() {
            let units: f64 = capacity(output).iter().filter_map(|used| used.capacity_units()).sum();
            self.count(config, |usage| usage.units += units);
        }
        Ok(())
    }
}

/// Sets `return_consumed_capacity` on an input of any listed type, and reads the capacity from an
/// output of any listed type.
macro_rules! metered {
    (one: $($one_in:ident $one_out:ident),*; many: $($many_in:ident $many_out:ident),*) => {
        fn ask_for_capacity(input: &mut Input) {
            let total = Some(ReturnConsumedCapacity::Total);
            $(if let Some(input) = input.downcast_mut::<$one_in>() {
                input.return_consumed_capacity = total;
                return;
            })*
            $(if let Some(input) = input.downcast_mut::<$many_in>() {
                input.return_consumed_capacity = total;
                return;
            })*
        }

        fn capacity(output: &Output) -> Vec<&ConsumedCapacity> {
            $(if let Some(output) = output.downcast_ref::<$one_out>() {
                return output.consumed_capacity().into_iter().collect();
            })*
            $(if let Some(output) = output.downcast_ref::<$many_out>() {
                return output.consumed_capacity().iter().collect();
            })*
            Vec::new()
        }
    };
}

metered! {
    one: GetItemInput GetItemOutput, PutItemInput PutItemOutput, UpdateItemInput UpdateItemOutput,
        DeleteItemInput DeleteItemOutput, QueryInput QueryOutput, ScanInput ScanOutput;
    many: BatchGetItemInput BatchGetItemOutput, BatchWriteItemInput BatchWriteItemOutput,
        TransactGetItemsInput TransactGetItemsOutput,
        TransactWriteItemsInput TransactWriteItemsOutput
}
