//! What a resource definition asks for with `skip_permission_checks: false`: before the program starts, the runner tries what it
//! will need, step by step, and ends with the report of all steps if one fails.
//!
//! | step | what is tried |
//! |---|---|
//! | `image` | it runs: for which user |
//! | `workspace` | a file in the shared directory |
//! | `canyon` | a report of the attempt |
//! | `identity` | a token for each cloud of the job's identity, and what that cloud gives for it |
//! | `secrets` | the secrets of the job, which were read before |

use crate::log::Log;
use crate::session::ApiConnection;
use crate::sign_in::{Access, CallError, aws, azure, gcp};
use canyon_domain::causes::Causes;
use canyon_domain::container::ContainerJob;
use canyon_domain::failure::{Failure, FailureClass};
use canyon_domain::job::Job;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// The region of AWS's token service for an identity that names none.
const ANY_REGION: &str = "us-east-1";
/// The scope of Azure's resource manager, which every application may ask for.
const AZURE_SCOPE: &str = "https://management.azure.com/.default";
/// A file that the check of the workspace makes and removes.
const PROBE: &str = ".canyon-pre-check";

/// What the checks look at.
pub(super) struct PreChecks<'a> {
    pub(super) image: &'a str,
    pub(super) container: &'a ContainerJob,
    pub(super) job: &'a Job,
    pub(super) api: &'a ApiConnection,
    /// Why the secrets of the job could not be read.
    pub(super) unread: Option<Failure>,
}

impl PreChecks<'_> {
    /// Makes every check, and writes each to the `log`.
    ///
    /// # Errors
    ///
    /// A [`Failure`] with all that failed, of the class of the first.
    pub(super) async fn run(self, log: &mut Log) -> Result<(), Failure> {
        let steps = [
            ("image", Ok(self.image())),
            ("workspace", self.workspace()),
            ("canyon", self.canyon().await),
            ("identity", self.identity().await),
            ("secrets", self.secrets()),
        ];
        let mut failed: Option<Failure> = None;
        for (name, result) in steps {
            match result {
                Ok(found) => log.step(&format!("pre-check {name}: {found}")),
                Err(failure) => {
                    log.error(&format!("pre-check {name}: {}", failure.message));
                    let message = format!("{name}: {}", failure.message);
                    failed = Some(match failed {
                        None => Failure {
                            class: failure.class,
                            message: format!("PRE_CHECK: {message}"),
                        },
                        Some(Failure { class, message: others }) => {
                            Failure { class, message: format!("{others}; {message}") }
                        }
                    });
                }
            }
        }
        log.flush();
        failed.map_or(Ok(()), Err)
    }

    fn image(&self) -> String {
        format!("{} runs as user {}", self.image, rustix::process::getuid())
    }

    fn workspace(&self) -> Result<String, Failure> {
        let directory = self.container.shared_directory();
        let probe = Path::new(directory).join(PROBE);
        let free = fs::write(&probe, "")
            .and_then(|()| fs::remove_file(&probe))
            .and_then(|()| rustix::fs::statvfs(directory).map_err(io::Error::from));
        match free {
            Ok(free) => {
                let mebibytes = free.f_bavail.saturating_mul(free.f_frsize) / (1024 * 1024);
                Ok(format!("{directory} is writable, {mebibytes} MiB are free"))
            }
            Err(error) => {
                let message = format!("no file can be written into {directory}: {error}");
                Err(Failure::new(FailureClass::Config, message))
            }
        }
    }

    async fn canyon(&self) -> Result<String, Failure> {
        match self.api.report_alive().await {
            Ok(_) => Ok("it answers".to_owned()),
            Err(error) => {
                let message = format!("it takes no report: {}", Causes(&error));
                Err(Failure::new(FailureClass::Unreachable, message))
            }
        }
    }

    async fn identity(&self) -> Result<String, Failure> {
        let Some(of) = &self.job.identity else { return Ok("the job has none".to_owned()) };
        let failed = |error| match error {
            CallError::Refused(reason) => Failure::new(FailureClass::Config, reason),
            CallError::Unreachable(reason) => Failure::new(FailureClass::Unreachable, reason),
        };
        let access = Access::new(self.job, self.api);
        let access = access.map_err(|reason| Failure::new(FailureClass::Config, reason))?;
        let mut known = Vec::new();
        if of.aws.is_some() {
            known.push(aws::sign_in(ANY_REGION, &access).await.map_err(failed)?.identity);
        }
        if of.gcp.is_some() {
            known.push(gcp::sign_in(&access).await.map_err(failed)?.identity);
        }
        if of.azure.is_some() {
            known.push(azure::sign_in(AZURE_SCOPE, &access).await.map_err(failed)?.identity);
        }
        for token in of.tokens.iter().flatten() {
            access.token(&token.audience).await.map_err(failed)?;
            known.push(format!("a token for {}", token.audience));
        }
        Ok(known.join(", "))
    }

    fn secrets(&self) -> Result<String, Failure> {
        if let Some(unread) = &self.unread {
            return Err(unread.clone());
        }
        let mut stores: BTreeMap<String, u32> = BTreeMap::new();
        for (_, reference) in self.container.secret_references() {
            *stores.entry(reference.store.to_string()).or_default() += 1;
        }
        let stores: Vec<_> =
            stores.into_iter().map(|(store, count)| format!("{count} of `{store}`")).collect();
        Ok(if stores.is_empty() { "no store is needed".to_owned() } else { stores.join(", ") })
    }
}
