//! `CloudFormation` as `sam` needs it, in front of moto; `tests/cloud/cloudformation.py` lists what it
//! adds.

use super::{Part, log};
use crate::region::workspace;

/// A server that accepts the calls to every service and forwards them to moto.
#[derive(Debug)]
pub struct CloudFormation {
    part: Part,
    url: String,
}

impl CloudFormation {
    /// Starts it in front of the moto at this address, with the Python that `CANYON_TEST_AWS_PYTHON` names.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start(moto: &str) -> Self {
        let script = workspace().join("tests/cloud/cloudformation.py").display().to_string();
        let arguments = [script, "--moto".to_owned(), moto.to_owned()].to_vec();
        let mut part =
            Part::start("CloudFormation", "CANYON_TEST_AWS_PYTHON", |_| arguments, &[]).await;
        let folder = part.folder.path().to_owned();
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
