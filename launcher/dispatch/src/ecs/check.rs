//! Checks what a launch needs, without launching. `RunTask` cannot be tried without starting a
//! task.

use super::EcsDispatcher;
use super::definition::LOG_PREFIX;
use super::session::Clients;
use super::stopped;
use crate::CheckReports;
use aws_sdk_ecs::error::ProvideErrorMetadata;
use canyon_domain::causes::Causes;
use canyon_domain::runner_check::CheckStep;

/// The id of a task that does not exist: a caller with the permission gets the answer that it is
/// missing.
const NO_TASK: &str = "00000000000000000000000000000000";

impl EcsDispatcher {
    pub(super) async fn check_steps(&self, reports: &CheckReports) {
        if let Some(signed) = self.session.assertion().await {
            let signed = signed.map_err(|error| Causes(&error).to_string());
            let signed = async { signed.map(|audience| ((), format!("signed for {audience}"))) };
            if reports.run_step(CheckStep::Assertion, signed).await.is_none() {
                return;
            }
        }
        let exchange = async {
            let clients = self.session.clients().await;
            let clients = clients.map_err(|error| Causes(&error).to_string())?;
            Ok::<_, String>((clients, format!("signed in as {}", self.location().role)))
        };
        let Some(clients) = reports.run_step(CheckStep::Exchange, exchange).await else { return };
        if reports.run_step(CheckStep::Cluster, self.check_cluster(&clients)).await.is_none() {
            return;
        }
        if reports
            .run_step(CheckStep::Permissions, self.check_permissions(&clients))
            .await
            .is_none()
        {
            return;
        }
        reports.run_step(CheckStep::DryRun, self.check_definition(&clients)).await;
    }

    async fn check_cluster(&self, clients: &Clients) -> Result<((), String), String> {
        let name = &self.config.job.cluster;
        let found =
            clients.ecs.describe_clusters().clusters(name).send().await.map_err(|error| {
                self.refusals().before_start("ecs:DescribeClusters", &error).to_string()
            })?;
        let place = self.location();
        let cluster = found.clusters().first().filter(|found| found.status() == Some("ACTIVE"));
        let cluster = cluster.ok_or_else(|| {
            let (region, account) = (place.region, place.account);
            format!("there is no active ECS cluster `{name}` in {region}, account {account}")
        })?;
        let has = cluster.capacity_providers();
        for share in self.config.job.capacity_provider_strategy.iter().flatten() {
            let wanted = share.capacity_provider.as_str();
            if !has.iter().any(|provider| provider == wanted) {
                return Err(format!(
                    "cluster `{name}` has no capacity provider {wanted}; add it, or change \
                     `job.capacity_provider_strategy`"
                ));
            }
        }
        Ok(((), cluster.cluster_arn().unwrap_or(name).to_owned()))
    }

    /// Tries the calls of observe, stop and tail on a task that does not exist.
    async fn check_permissions(&self, clients: &Clients) -> Result<((), String), String> {
        let refusals = self.refusals();
        let cluster = &self.config.job.cluster;
        self.find(clients, "canyon-check").await.map_err(|error| error.to_string())?;
        let call = clients.ecs.describe_tasks().cluster(cluster).tasks(NO_TASK);
        if let Err(error) = call.send().await {
            return Err(refusals.of_request("ecs:DescribeTasks", &error).to_string());
        }
        let call = clients.ecs.stop_task().cluster(cluster).task(NO_TASK);
        if let Err(error) = call.send().await
            && !stopped::is_unknown_task(&error)
        {
            return Err(refusals.of_request("ecs:StopTask", &error).to_string());
        }
        let mut found = "tasks may be listed, described and stopped".to_owned();
        if let Some(group) = &self.config.job.log_group {
            let stream = format!("{LOG_PREFIX}/check");
            let call = clients.logs.get_log_events().log_group_name(group).log_stream_name(stream);
            match call.send().await {
                Err(error) if error.code() == Some("ResourceNotFoundException") => {
                    let words = error.message().unwrap_or_default();
                    if words.contains("log group") {
                        return Err(format!(
                            "there is no log group `{group}`; create it, or change `job.log_group`"
                        ));
                    }
                }
                Err(error) => {
                    return Err(refusals.of_request("logs:GetLogEvents", &error).to_string());
                }
                Ok(_) => {}
            }
            found.push_str(", and their log read");
        }
        Ok(((), found))
    }

    /// Registers the task definition, as a launch would.
    async fn check_definition(&self, clients: &Clients) -> Result<((), String), String> {
        let definition = self.definition(None).map_err(|error| error.to_string())?;
        let refusals = self.refusals();
        let family = self.registration.family(clients, &definition, &refusals).await;
        let family = family.map_err(|error| error.to_string())?;
        Ok((
            (),
            format!(
                "task definition `{family}` is registered; `ecs:RunTask`, the subnets and the \
                 security groups are only tried by a launch"
            ),
        ))
    }
}
