//! The jobs' platform: whether it answers, and allows the agent what a launch needs.

use super::report::{Report, Step};
use crate::kinds::Kind;
use crate::kinds::local::has_executable;
use crate::settings::Settings;
use crate::settings::dispatcher::DispatcherType;
use canyon_dispatch::{CheckReports, Target};
use canyon_domain::ids::{OrgUuid, RunnerUuid};
use canyon_domain::ports::{Clock as _, Entropy as _};
use canyon_domain::runner::RunnerDefinition;
use canyon_identity::system::System;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// For the platform's place, and again for all steps of the platform's own check.
const TIMEOUT: Duration = Duration::from_mins(2);
/// The service account of pods if the definition names none.
const ACCOUNT: &str = "default";

pub(super) async fn check(
    settings: &Settings,
    kind: &dyn Kind,
    definition: Option<&Path>,
    report: &mut Report,
) {
    match tokio::time::timeout(TIMEOUT, kind.platform_id()).await {
        Ok(Ok(place)) => report.ok(Step::Platform, format!("jobs run in {place}")),
        Ok(Err(error)) => return report.failed(Step::Platform, error),
        Err(_) => return report.failed(Step::Platform, "does not answer in time"),
    }
    if settings.dispatcher.kind == DispatcherType::Local && !has_executable() {
        let reason = "neither `tofu` nor `terraform` is on the PATH, and jobs need one of them";
        report.failed(Step::Platform, reason);
    }
    let definition = match definition.map(read).transpose() {
        Ok(definition) => definition.or_else(|| minimal_definition(settings)),
        Err(reason) => return report.failed(Step::Platform, reason),
    };
    let Some(definition) = definition else {
        let reason =
            "the remaining steps need a runner's definition: name a file with --runner-definition";
        return report.skipped(Step::Platform, reason);
    };
    let usable = RunnerDefinition::parse_stored(definition).and_then(RunnerDefinition::usable);
    let definition = match usable {
        Ok(definition) => definition,
        Err(faults) => return report.failed(Step::Platform, format!("the runner: {faults}")),
    };
    let runner_type = definition.configuration.runner_type();
    if runner_type != kind.serves() {
        let (own, other) = (kind.serves(), runner_type);
        let reason = format!(
            "the runner is of type `{}`, and this agent launches jobs of `{}`",
            other.as_str(),
            own.as_str()
        );
        return report.failed(Step::Platform, reason);
    }
    let Some(served) = settings.served.first() else { return };
    let runner_id = served.runner.clone().or_else(|| "check".parse().ok());
    let Some(runner_id) = runner_id else { return };
    let (org, runner) = (OrgUuid(System.id(System.now())), RunnerUuid(System.id(System.now())));
    let org_id = served.org.clone();
    let dispatcher = kind.dispatcher(&Arc::new(Target {
        org,
        org_id,
        runner,
        runner_id,
        definition,
        agent: None,
    }));
    let (reports, mut received) = mpsc::unbounded_channel();
    let tried = async move { dispatcher.check(&CheckReports::new(reports)).await };
    let is_late = tokio::time::timeout(TIMEOUT, tried).await.is_err();
    while let Ok(step) = received.try_recv() {
        report.of_platform(&step);
    }
    if is_late {
        report.failed(Step::Platform, "does not answer in time");
    }
}

/// Reads a runner's definition from JSON that `canyon get runner` printed.
fn read(path: &Path) -> Result<Value, String> {
    let shown = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| format!("{shown} is not JSON: {error}"))?;
    let part = |name: &str| value.get(name).cloned().unwrap_or_default();
    Ok(json!({
        "runner_configuration": part("runner_configuration"),
        "state_storage_configuration": part("state_storage_configuration"),
    }))
}

/// The smallest definition of a runner, if the agent's settings are enough for it.
fn minimal_definition(settings: &Settings) -> Option<Value> {
    let dispatcher = &settings.dispatcher;
    let (configuration, state) = match dispatcher.kind {
        // The check writes no state there.
        DispatcherType::Local => {
            (json!({ "type": "local" }), json!({ "type": "local", "path": "/states" }))
        }
        DispatcherType::Docker => {
            (json!({ "type": "docker-agent" }), json!({ "type": "s3", "bucket": "states" }))
        }
        DispatcherType::Kubernetes => {
            let namespace = dispatcher.get("namespace")?;
            let job = json!({ "namespace": namespace, "service_account": ACCOUNT });
            let state = json!({ "type": "kubernetes", "namespace": namespace });
            (json!({ "type": "kubernetes-agent", "job": job }), state)
        }
        DispatcherType::Ecs => return None,
    };
    Some(json!({ "runner_configuration": configuration, "state_storage_configuration": state }))
}
