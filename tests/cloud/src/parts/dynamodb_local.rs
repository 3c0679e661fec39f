//! AWS's own `DynamoDB` for development. It never returns `TransactionConflict`, ignores
//! throughput, and checks no signature: the front adds these.

use super::{Part, log};

/// A `DynamoDB` without tables. It keeps a database for each pair of access key and region.
#[derive(Debug)]
pub struct DynamoDbLocal {
    part: Part,
    url: String,
}

impl DynamoDbLocal {
    /// Starts the program that `CANYON_TEST_DYNAMODB_LOCAL` names.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start() -> Self {
        let arguments = |_: &_| ["--port", "0"].map(str::to_owned).to_vec();
        let mut part =
            Part::start("DynamoDB Local", "CANYON_TEST_DYNAMODB_LOCAL", arguments, &[]).await;
        let folder = part.folder.path().to_owned();
        // It prints this line once it answers.
        let url = part
            .until(|| async {
                let said = log(&folder);
                let mut lines = said.split_inclusive('\n').filter(|line| line.ends_with('\n'));
                let found = lines.find_map(|line| line.strip_prefix("listening on "));
                found.map(|url| url.trim().to_owned())
            })
            .await;
        Self { part, url }
    }

    /// Its URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its output so far.
    pub fn log(&self) -> String {
        self.part.log()
    }
}
