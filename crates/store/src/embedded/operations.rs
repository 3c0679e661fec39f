//! Maps DynamoDB operations to functions of `dynoxide`.

use dynoxide::actions::transact_write_items::{
    TransactWriteItemsRequest, TransactWriteItemsResponse,
};
use dynoxide::{Database, DynoxideError};
use serde::{Serialize, de::DeserializeOwned};

macro_rules! operations {
    ($($name:ident: $kind:ident = $call:path;)*) => {
        /// An operation of the embedded table. It has only those that Canyon uses.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Operation { $($name,)* }

        impl Operation {
            /// Parses the value of `x-amz-target`.
            pub(super) fn from_target(target: &str) -> Option<Self> {
                match target.strip_prefix("DynamoDB_20120810.")? {
                    $(stringify!($name) => Some(Self::$name),)*
                    _ => None,
                }
            }

            fn kind(self) -> Kind {
                match self { $(Self::$name => Kind::$kind,)* }
            }

            /// Parses the request from `body` and returns the body of the answer.
            pub(super) fn run(self, database: &Database, body: &[u8]) -> Result<String, DynoxideError> {
                match self {
                    $(Self::$name => answer(body, |request| $call(database, request)),)*
                }
            }
        }
    };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Reads, without isolation from writers.
    Read,
    /// Reads several items as of one moment, or table definitions. The writer's connection answers
    /// it, so that no write comes between, and so that a start does not open a reader for each
    /// change of a definition.
    Snapshot,
    Write,
    Define,
}

operations! {
    GetItem: Read = Database::get_item;
    Query: Read = Database::query;
    Scan: Read = Database::scan;
    BatchGetItem: Read = Database::batch_get_item;
    ListTables: Snapshot = Database::list_tables;
    DescribeTable: Snapshot = Database::describe_table;
    DescribeTimeToLive: Snapshot = Database::describe_time_to_live;
    TransactGetItems: Snapshot = Database::transact_get_items;
    PutItem: Write = Database::put_item;
    UpdateItem: Write = Database::update_item;
    DeleteItem: Write = Database::delete_item;
    BatchWriteItem: Write = Database::batch_write_item;
    TransactWriteItems: Write = transact;
    CreateTable: Define = Database::create_table;
    DeleteTable: Define = Database::delete_table;
    UpdateTable: Define = Database::update_table;
    UpdateTimeToLive: Define = Database::update_time_to_live;
}

impl Operation {
    pub(super) fn only_reads(self) -> bool {
        self.kind() == Kind::Read
    }

    pub(super) fn writes_items(self) -> bool {
        self.kind() == Kind::Write
    }

    pub(super) fn changes_definitions(self) -> bool {
        self.kind() == Kind::Define
    }
}

fn answer<Request: DeserializeOwned, Response: Serialize>(
    body: &[u8],
    call: impl FnOnce(Request) -> Result<Response, DynoxideError>,
) -> Result<String, DynoxideError> {
    let request = serde_json::from_slice(body)
        .map_err(|error| DynoxideError::SerializationException(error.to_string()))?;
    serde_json::to_string(&call(request)?)
        .map_err(|error| DynoxideError::InternalServerError(error.to_string()))
}

/// Drops the idempotency token. The token makes a retry safe when an answer is lost on the network,
/// and there is no network here. But dynoxide keeps each token for ten minutes and scans all of
/// them on each call, so a busy hour would slow every transaction.
fn transact(
    database: &Database,
    mut request: TransactWriteItemsRequest,
) -> Result<TransactWriteItemsResponse, DynoxideError> {
    request.client_request_token = None;
    database.transact_write_items(request)
}
