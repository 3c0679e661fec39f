//! Maps DynamoDB operations to functions of `dynoxide`.

use super::reader::Read;
use dynoxide::actions::transact_write_items::{
    TransactWriteItemsRequest, TransactWriteItemsResponse,
};
use dynoxide::{Database, DynoxideError};
use serde::{Serialize, de::DeserializeOwned};

/// An operation of the embedded table. It has only those that Canyon uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read(Read),
    Write(Write),
}

impl Operation {
    /// Parses the value of `x-amz-target`.
    pub(super) fn from_target(target: &str) -> Option<Self> {
        let name = target.strip_prefix("DynamoDB_20120810.")?;
        Read::from_name(name).map(Self::Read).or_else(|| Write::from_name(name).map(Self::Write))
    }
}

/// A parsed request for the writer's connection.
pub(super) type Prepared = Box<dyn FnOnce(&Database) -> Result<String, DynoxideError> + Send>;

macro_rules! operations {
    ($($name:ident: $kind:ident = $call:path;)*) => {
        /// An operation for the writer's connection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Write { $($name,)* }

        impl Write {
            fn from_name(name: &str) -> Option<Self> {
                match name {
                    $(stringify!($name) => Some(Self::$name),)*
                    _ => None,
                }
            }

            fn kind(self) -> Kind {
                match self { $(Self::$name => Kind::$kind,)* }
            }

            /// Parses the request from `body`. The result runs it, and returns the body of the answer.
            pub(super) fn prepare(self, body: &[u8]) -> Result<Prepared, DynoxideError> {
                Ok(match self {
                    $(Self::$name => {
                        let request = parse(body)?;
                        Box::new(move |database| serialize(&$call(database, request)?))
                    })*
                })
            }
        }
    };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Reads several items as of one moment, or table definitions. The writer's connection answers
    /// it, so that no write comes between, and so that a start does not open a reader for each
    /// change of a definition.
    Snapshot,
    Items,
    Definition,
}

operations! {
    ListTables: Snapshot = Database::list_tables;
    DescribeTable: Snapshot = Database::describe_table;
    DescribeTimeToLive: Snapshot = Database::describe_time_to_live;
    TransactGetItems: Snapshot = Database::transact_get_items;
    PutItem: Items = Database::put_item;
    UpdateItem: Items = Database::update_item;
    DeleteItem: Items = Database::delete_item;
    BatchWriteItem: Items = Database::batch_write_item;
    TransactWriteItems: Items = transact;
    CreateTable: Definition = Database::create_table;
    DeleteTable: Definition = Database::delete_table;
    UpdateTable: Definition = Database::update_table;
    UpdateTimeToLive: Definition = Database::update_time_to_live;
}

impl Write {
    pub(super) fn changes_items(self) -> bool {
        self.kind() == Kind::Items
    }

    pub(super) fn changes_definitions(self) -> bool {
        self.kind() == Kind::Definition
    }
}

pub(super) fn parse<Request: DeserializeOwned>(body: &[u8]) -> Result<Request, DynoxideError> {
    serde_json::from_slice(body)
        .map_err(|error| DynoxideError::SerializationException(error.to_string()))
}

pub(super) fn serialize(response: &impl Serialize) -> Result<String, DynoxideError> {
    serde_json::to_string(response)
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
