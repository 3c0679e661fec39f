//! A real job, on the path of every deployment. Only such a job shows that the platform can pull the
//! image, and that the job reaches the API and its state.
//!
//! The job plans an empty module in a temporary environment, so it changes nothing; the plan locks the
//! state and reads it. Afterwards the command deletes environment, rule and project.

use crate::error::CliError;
use crate::follow;
use crate::output::Output;
use crate::progress_bar::Display;
use canyon_api::client::Client;
use canyon_api::deployment::{Deployment, DeploymentCreateBody, RequestedMode};
use canyon_api::runner_check::RunnerCheckStep;
use canyon_domain::job::{Inputs, Module};
use canyon_domain::module_source::ModuleSource;
use serde_json::{Value, json};
use uuid::Uuid;

const ENVIRONMENT: &str = "trial";
/// Created where the organization has no environment type, and kept if another environment uses it by then.
const ENV_TYPE: &str = "canyon-doctor";

/// The paths of the resources created so far, in order of creation.
#[derive(Default)]
struct CreatedResources(Vec<Vec<String>>);

impl CreatedResources {
    async fn create(
        &mut self,
        client: &Client,
        collection: &[&str],
        body: &Value,
    ) -> Result<(), CliError> {
        let made = client.create(collection, body).await?;
        let id = made.get("id").and_then(Value::as_str).unwrap_or_default();
        let path = collection.iter().copied().chain([id]).map(str::to_owned);
        self.0.push(path.collect());
        Ok(())
    }

    /// Deletes the newest first, and reports each that it cannot delete, so that the user can.
    async fn delete_all(self, client: &Client, output: Output) {
        for path in self.0.iter().rev() {
            let segments: Vec<&str> = path.iter().map(String::as_str).collect();
            if let Err(error) = client.delete(&segments, &[]).await {
                output.notice(&format!("not deleted: {} ({error})", path.join("/")));
            }
        }
    }
}

/// Runs a job on the runner, and returns what it showed, as steps.
pub(super) async fn run(
    client: &Client,
    runner: &str,
    output: Output,
) -> Result<Vec<RunnerCheckStep>, CliError> {
    let mut created = CreatedResources::default();
    let ended = in_temporary_project(client, runner, &mut created, output).await;
    created.delete_all(client, output).await;
    Ok(steps(&ended?))
}

async fn in_temporary_project(
    client: &Client,
    runner: &str,
    created: &mut CreatedResources,
    output: Output,
) -> Result<Deployment, CliError> {
    let project = format!("canyon-doctor-{}", &Uuid::new_v4().simple().to_string()[..8]);
    let types = client.list(&["env-types"], &[]).await?;
    let first = types.first().and_then(|found| found.get("id")).and_then(Value::as_str);
    if first.is_none() {
        created.create(client, &["env-types"], &json!({ "id": ENV_TYPE })).await?;
    }
    let env_type = first.unwrap_or(ENV_TYPE);
    created.create(client, &["projects"], &json!({ "id": project })).await?;
    // The most specific rule: it names project and type, so it selects this runner.
    let rule = json!({ "runner_id": runner, "project_id": project, "env_type_id": env_type });
    created.create(client, &["runner-rules"], &rule).await?;
    let environment = json!({ "id": ENVIRONMENT, "env_type_id": env_type });
    created.create(client, &["projects", &project, "envs"], &environment).await?;
    let key = Uuid::new_v4().to_string();
    let deployment = client.create_deployment(&body(project), &key).await?;
    let id = deployment.id.to_string();
    let display = Display::new(output);
    display.line(&format!("running a job: deployment {id}"));
    let ended = follow::until_end(client, &id, &display, None).await;
    if let Err(CliError::Detached { .. }) = ended {
        // Ctrl-C also cancels the job: no other command would.
        let _ = client.cancel(&id).await;
    }
    ended
}

fn body(project: String) -> DeploymentCreateBody {
    let source_code = Some("# Planned by `canyon doctor`; there is nothing in it.\n".to_owned());
    DeploymentCreateBody {
        mode: RequestedMode::Deploy,
        project_id: project,
        env_id: ENVIRONMENT.to_owned(),
        plan_only: Some(true),
        module: Some(Module { source: ModuleSource::Inline, source_code, inputs: Inputs::new() }),
        secret_inputs: std::collections::BTreeMap::new(),
        manifest: None,
        rollback_to_deployment_id: None,
        encrypted_outputs_recipient: None,
        encrypted_logs_recipient: None,
        is_dry_run: false,
        priority: None,
        agent: None,
        runner_log_level: None,
        accept_state: false,
        max_deletions: None,
        targets: Vec::new(),
        replace: Vec::new(),
        parallelism: None,
    }
}

/// How far the job came, as steps. A step is ok if the job reached a later one.
fn steps(ended: &Deployment) -> Vec<RunnerCheckStep> {
    const STEPS: [(&str, &str); 4] = [
        ("start", "the platform started the job"),
        ("image", "the image was pulled, and its program runs"),
        ("api", "the job reached Canyon's API"),
        ("state", "the job locked the state and read it"),
    ];
    let failed = failed_step(ended);
    let step = |(position, (name, meaning)): (usize, (&str, &str))| {
        let (result, message) = match failed {
            Some(failed) if position > failed => {
                ("skipped", format!("`{}` failed", STEPS[failed].0))
            }
            Some(failed) if position == failed => ("failed", ended.status_message.clone()),
            _ => ("ok", meaning.to_owned()),
        };
        RunnerCheckStep { step: name.to_owned(), result: result.to_owned(), message }
    };
    STEPS.into_iter().enumerate().map(step).collect()
}

/// The position of the step that a deployment failed in.
fn failed_step(ended: &Deployment) -> Option<usize> {
    if ended.status == "succeeded" {
        return None;
    }
    let Some(last) = ended.attempts.last() else { return Some(0) };
    let class = last.failure.as_ref().map_or("", |failure| failure.class.as_str());
    Some(match (last.claimed_at, class) {
        (Some(_), _) => 3,
        (None, "image_pull") => 1,
        // The job ran, or seemed to, but sent nothing to the API.
        (None, "timeout" | "lost") => 2,
        (None, _) => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(status: &str, claimed: bool, class: &str) -> Deployment {
        let at = "2026-01-01T00:00:00Z";
        let mut attempt = json!({
            "number": 1, "status": status, "phase": "launch", "launched_at": at,
            "failure": { "class": class, "message": "why" },
        });
        if claimed {
            attempt["claimed_at"] = json!(at);
        }
        serde_json::from_value(json!({
            "org_id": "o", "project_id": "p", "env_id": "e", "id": Uuid::nil(), "created_at": at,
            "created_by": Uuid::nil(), "mode": "deploy", "plan_only": true, "status": status,
            "status_message": "why", "metrics": { "num_workloads": 0, "num_resource_nodes": 0 },
            "runner_id": "r", "attempts": [attempt],
        }))
        .unwrap()
    }

    #[test]
    fn the_steps_show_how_far_a_job_came() {
        let results = |status, claimed, class| {
            let steps = steps(&ended(status, claimed, class));
            steps.iter().map(|step| format!("{} {}", step.step, step.result)).collect::<Vec<_>>()
        };
        assert!(results("succeeded", true, "user").iter().all(|step| step.ends_with("ok")));
        let config = ["start failed", "image skipped", "api skipped", "state skipped"];
        assert_eq!(results("failed", false, "config"), config);
        let pull = ["start ok", "image failed", "api skipped", "state skipped"];
        assert_eq!(results("failed", false, "image_pull"), pull);
        let lost = ["start ok", "image ok", "api failed", "state skipped"];
        assert_eq!(results("failed", false, "timeout"), lost);
        let state = ["start ok", "image ok", "api ok", "state failed"];
        assert_eq!(results("failed", true, "user"), state);
    }
}
