//! The table's shape: two keys, three indexes, and the reason for each index.

use crate::StoreError;
use crate::recent_reads::RecentReads;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{BuildError, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::operation::create_table::builders::CreateTableFluentBuilder;
use aws_sdk_dynamodb::operation::describe_table::DescribeTableError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType, TableDescription, TableStatus, TimeToLiveSpecification,
    TimeToLiveStatus,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// Partition key.
pub const PK: &str = "pk";
/// Sort key.
pub const SK: &str = "sk";
/// When DynamoDB may delete an item, in seconds since 1970. Only for garbage: DynamoDB deletes
/// late.
pub const TTL: &str = "ttl";

/// True on a write that wakes the launcher; the filter of the stream's event source mapping selects
/// it.
pub const WAKE: &str = "wake";

/// A global secondary index. All its keys are strings; an item without these keys is not in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its name.
    pub name: &'static str,
    /// Its partition key.
    pub pk: &'static str,
    /// Its sort key.
    pub sk: &'static str,
    /// Attributes that it contains besides the keys.
    pub includes: &'static [&'static str],
}

/// The newest deployments of an organization. It includes the project, so that a list can leave out
/// projects that the caller may not read before it reads whole items.
pub const GSI1: Index = Index { name: "gsi1", pk: "gsi1pk", sk: "gsi1sk", includes: &["project"] };
/// Due items: the few items that a launcher or agent must handle by a certain time.
pub const GSI2: Index = Index { name: "gsi2", pk: "gsi2pk", sk: "gsi2sk", includes: &[] };
/// The newest deployments of an environment.
pub const GSI3: Index = Index { name: "gsi3", pk: "gsi3pk", sk: "gsi3sk", includes: &[] };

const INDEXES: [Index; 3] = [GSI1, GSI2, GSI3];

/// Longest pause between two checks whether a new table is active, and the number of checks. The
/// first ones follow without a pause: the embedded table is active in microseconds.
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLLS: u32 = 600;

/// Canyon's table, in DynamoDB or embedded. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Table {
    client: Client,
    name: String,
    publishes_ends: bool,
    /// `None` for a table to which others may write.
    recent_reads: Option<RecentReads>,
}

impl Table {
    /// The table `name`, which may not exist yet.
    pub fn new(client: Client, name: impl Into<String>) -> Self {
        Self { client, name: name.into(), publishes_ends: false, recent_reads: None }
    }

    /// The same table, with publication of ends: a deployment that has ended stays due until
    /// [`Table::record_end_published`], so that no end remains unpublished.
    #[must_use]
    pub fn with_published_ends(self) -> Self {
        Self { publishes_ends: true, ..self }
    }

    /// The same table, which does not ask again for what it has read since the last write.
    #[cfg(feature = "embedded")]
    pub(crate) fn with_recent_reads(self, recent: RecentReads) -> Self {
        Self { recent_reads: Some(recent), ..self }
    }

    pub(crate) fn recent_reads(&self) -> Option<&RecentReads> {
        self.recent_reads.as_ref()
    }

    /// The same table with another client, to which each read goes.
    pub(crate) fn with_client(&self, client: Client) -> Self {
        Self { client, recent_reads: None, ..self.clone() }
    }

    pub(crate) fn publishes_ends(&self) -> bool {
        self.publishes_ends
    }

    /// The client of the table.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Creates the table if it is absent, and waits until it is active. For `canyon local` and for
    /// tests; on AWS the template creates the table. Concurrent calls are safe.
    ///
    /// # Errors
    ///
    /// [`StoreError::WrongShape`] if there is a table of that name with other keys or indexes;
    /// [`StoreError::Unavailable`] if it does not become active within 30 s.
    pub async fn ensure(&self) -> Result<(), StoreError> {
        let found = match self.describe().await? {
            Some(found) => found,
            None => self.create().await?,
        };
        self.check_shape(&found)?;
        self.enable_ttl().await
    }

    async fn describe(&self) -> Result<Option<TableDescription>, StoreError> {
        match self.client.describe_table().table_name(&self.name).send().await {
            Ok(output) => Ok(output.table),
            Err(SdkError::ServiceError(context))
                if matches!(context.err(), DescribeTableError::ResourceNotFoundException(_)) =>
            {
                Ok(None)
            }
            Err(error) => Err(StoreError::sdk("describe table", &self.name, error)),
        }
    }

    async fn create(&self) -> Result<TableDescription, StoreError> {
        let request = self.definition().map_err(|error| {
            let error = SdkError::<CreateTableError>::construction_failure(error);
            StoreError::sdk("create table", &self.name, error)
        })?;
        match request.send().await {
            Ok(_) => {}
            Err(error) if error.code() == Some("ResourceInUseException") => {} // created concurrently
            Err(error) => return Err(StoreError::sdk("create table", &self.name, error)),
        }
        for poll in 0..MAX_POLLS {
            match self.describe().await? {
                Some(found) if found.table_status() == Some(&TableStatus::Active) => {
                    return Ok(found);
                }
                _ => {
                    tokio::time::sleep(Duration::from_millis(poll.into()).min(MAX_POLL_INTERVAL))
                        .await;
                }
            }
        }
        Err(StoreError::Unavailable {
            operation: "create table",
            thing: self.name.clone(),
            source: "it did not become active within 30 s".into(),
        })
    }

    fn definition(&self) -> Result<CreateTableFluentBuilder, BuildError> {
        let indexes = INDEXES.into_iter().map(index).collect::<Result<_, _>>()?;
        Ok(self
            .client
            .create_table()
            .table_name(&self.name)
            .billing_mode(BillingMode::PayPerRequest)
            .set_attribute_definitions(Some(attributes()?))
            .set_key_schema(Some(key_schema(PK, SK)?))
            .set_global_secondary_indexes(Some(indexes)))
    }

    fn check_shape(&self, found: &TableDescription) -> Result<(), StoreError> {
        let wrong = |difference: String| {
            Err(StoreError::WrongShape { table: self.name.clone(), difference })
        };
        if !same_keys(found.key_schema(), PK, SK) {
            return wrong(format!("its keys are not `{PK}` and `{SK}`"));
        }
        for Index { name, pk, sk, .. } in INDEXES {
            let same = found.global_secondary_indexes().iter().any(|index| {
                index.index_name() == Some(name) && same_keys(index.key_schema(), pk, sk)
            });
            if !same {
                return wrong(format!("it has no index `{name}` over `{pk}` and `{sk}`"));
            }
        }
        Ok(())
    }

    async fn enable_ttl(&self) -> Result<(), StoreError> {
        const OPERATION: &str = "enable expiry in table";
        let failed = |error| StoreError::sdk(OPERATION, &self.name, error);
        let now = self.client.describe_time_to_live().table_name(&self.name).send().await;
        let now = now.map_err(|error| StoreError::sdk(OPERATION, &self.name, error))?;
        let status = now.time_to_live_description().and_then(|ttl| ttl.time_to_live_status());
        if matches!(status, Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)) {
            return Ok(());
        }
        let wanted = TimeToLiveSpecification::builder().enabled(true).attribute_name(TTL).build();
        let request =
            self.client.update_time_to_live().table_name(&self.name).time_to_live_specification(
                wanted.map_err(|e| failed(SdkError::construction_failure(e)))?,
            );
        match request.send().await {
            Ok(_) => Ok(()),
            // A concurrent caller enabled it between our two requests.
            Err(error) if error.message().is_some_and(|m| m.contains("already enabled")) => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

/// Every attribute of a key or an index, once.
fn attributes() -> Result<Vec<AttributeDefinition>, BuildError> {
    let keys = INDEXES.iter().flat_map(|index| [index.pk, index.sk]);
    let names: BTreeSet<_> = keys.chain([PK, SK]).collect();
    let string = |name: &str| {
        AttributeDefinition::builder()
            .attribute_name(name)
            .attribute_type(ScalarAttributeType::S)
            .build()
    };
    names.into_iter().map(string).collect()
}

fn key_schema(pk: &str, sk: &str) -> Result<Vec<KeySchemaElement>, BuildError> {
    [(pk, KeyType::Hash), (sk, KeyType::Range)]
        .into_iter()
        .map(|(name, kind)| KeySchemaElement::builder().attribute_name(name).key_type(kind).build())
        .collect()
}

fn index(index: Index) -> Result<GlobalSecondaryIndex, BuildError> {
    let projection = match index.includes {
        [] => Projection::builder().projection_type(ProjectionType::KeysOnly),
        names => Projection::builder()
            .projection_type(ProjectionType::Include)
            .set_non_key_attributes(Some(names.iter().map(ToString::to_string).collect())),
    };
    GlobalSecondaryIndex::builder()
        .index_name(index.name)
        .set_key_schema(Some(key_schema(index.pk, index.sk)?))
        .projection(projection.build())
        .build()
}

fn same_keys(found: &[KeySchemaElement], pk: &str, sk: &str) -> bool {
    let wanted = [(pk, &KeyType::Hash), (sk, &KeyType::Range)];
    found.len() == wanted.len()
        && wanted.iter().all(|(name, kind)| {
            found.iter().any(|key| key.attribute_name() == *name && key.key_type() == *kind)
        })
}
