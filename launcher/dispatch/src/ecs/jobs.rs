//! The tasks that Canyon has in a cluster, for the search for orphaned ones.

use super::EcsDispatcher;
use super::refusal::Refusals;
use super::session::Clients;
use crate::{DispatchError, JobRef};
use aws_sdk_ecs::types::Task;
use canyon_identity::job_name::parse_job_name;

/// The maximum number of tasks in one call (API reference, `DescribeTasks` and `ListTasks`).
const PAGE: i32 = 100;
/// The maximum number of pages that one search reads.
const MAX_PAGES: usize = 50;

impl EcsDispatcher {
    /// The running tasks of this organization. ECS removes stopped tasks itself.
    pub(super) async fn running(&self) -> Result<Vec<JobRef>, DispatchError> {
        let clients =
            self.session.clients().await.map_err(|error| Refusals::no_credentials(&error))?;
        let (mut found, mut token) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let page = clients
                .ecs
                .list_tasks()
                .cluster(&self.config.job.cluster)
                .max_results(PAGE)
                .set_next_token(token)
                .send()
                .await
                .map_err(|error| self.refusals().of_request("ecs:ListTasks", &error))?;
            found.extend(self.described(&clients, page.task_arns.unwrap_or_default()).await?);
            token = page.next_token;
            if token.is_none() {
                break;
            }
        }
        Ok(found)
    }

    async fn described(
        &self,
        clients: &Clients,
        arns: Vec<String>,
    ) -> Result<Vec<JobRef>, DispatchError> {
        if arns.is_empty() {
            return Ok(Vec::new());
        }
        let call = clients.ecs.describe_tasks().cluster(&self.config.job.cluster);
        let found = call.set_tasks(Some(arns)).send().await;
        let found =
            found.map_err(|error| self.refusals().of_request("ecs:DescribeTasks", &error))?;
        Ok(found.tasks().iter().filter_map(|task| self.job_of(task)).collect())
    }

    fn job_of(&self, task: &Task) -> Option<JobRef> {
        let attempt = parse_job_name(task.started_by()?)?;
        (attempt.org == self.target.org).then(|| JobRef {
            deployment: attempt.deployment,
            attempt: attempt.number,
            handle: task.task_arn().map(str::to_owned),
        })
    }
}
