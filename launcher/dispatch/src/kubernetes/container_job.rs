//! The pod of a container job: the user's image, with the runner's program in a volume.
//!
//! The init container `canyon-inject` has the runner's image and copies the program into the volume
//! (`canyon-runner inject`). The container `canyon-runner` has the user's image, of which nothing is
//! asked, and starts the program from there. Everything else of the runner's template applies as it
//! does for modules, except the image and its pull policy: those are of the runner's image.
//!
//! For a job with a source, the init container also copies git, which the user's container has at
//! `/canyon-git`.

use super::template::{WORK_VOLUME, mount};
use crate::dispatcher::JOB_IMAGE;
use canyon_domain::container::ContainerLaunch;
use canyon_domain::pod_template::GIT_DIRECTORY;
use canyon_domain::runner::container_size::ContainerSize;
use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec, VolumeMount};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The init container that brings the program.
pub(super) const INJECT: &str = "canyon-inject";
/// Where the init container has the volume: not at the path of the image's own copy, and below a
/// path at which no template mounts anything.
const INJECT_DIRECTORY: &str = "/canyon/volume";
/// The program, as the user's container finds it.
const PROGRAM: &str = "/canyon/bin/canyon-runner";
/// The program's working directory.
const RUN_DIRECTORY: &str = "/canyon/run";
/// The limit of the volume, which also holds the job's files and its shared directory. It keeps one
/// job from filling its node's disk; a job that exceeds it is evicted.
const SIZE_LIMIT: &str = "10Gi";
/// Mounts of the template at or below this folder replace certificates of the runner's image.
const CERTIFICATES_DIRECTORY: &str = "/etc/ssl";

/// The folder of the volume that has git.
const GIT: &str = "git";
/// The folder of the volume that each user may write to.
const WORK: &str = "work";

/// Turns `runner`, the complete container of a module's job, into that of the container job `job`.
/// Returns the init container.
pub(super) fn run_in(runner: &mut Container, job: &ContainerLaunch) -> Container {
    let inject = inject(runner, job.needs_git);
    runner.image = Some(job.image.clone());
    runner.image_pull_policy = None;
    runner.command = Some(vec![PROGRAM.to_owned()]);
    runner.args = None;
    runner.working_dir = Some(RUN_DIRECTORY.to_owned());
    // As on a Docker engine, so that a job runs alike on both. The template may allow it to write.
    let context = runner.security_context.get_or_insert_default();
    context.read_only_root_filesystem.get_or_insert(true);
    let variable = EnvVar {
        name: JOB_IMAGE.to_owned(),
        // Kubernetes replaces `$(NAME)` in values.
        value: Some(job.image.replace('$', "$$")),
        value_from: None,
    };
    runner.env.get_or_insert_default().insert(0, variable);
    set_size(runner, &job.size);
    if job.needs_git {
        runner.volume_mounts.get_or_insert_default().push(VolumeMount {
            sub_path: Some(GIT.to_owned()),
            read_only: Some(true),
            ..mount(WORK_VOLUME, GIT_DIRECTORY)
        });
    }
    if let Some(directory) = &job.shared_directory {
        let mounts = runner.volume_mounts.get_or_insert_default();
        // A template may provide it.
        if !mounts.iter().any(|mount| mount.mount_path.trim_end_matches('/') == directory) {
            let sub_path = Some(WORK.to_owned());
            mounts.push(VolumeMount { sub_path, ..mount(WORK_VOLUME, directory) });
        }
    }
    inject
}

/// What the job asks for is both its request and its limit: so it gets that much on every node.
fn set_size(runner: &mut Container, size: &ContainerSize) {
    for (resource, amount) in [("cpu", &size.cpu), ("memory", &size.memory)] {
        let Some(amount) = amount else { continue };
        let resources = runner.resources.get_or_insert_default();
        for amounts in [&mut resources.requests, &mut resources.limits] {
            let amounts = amounts.get_or_insert_default();
            amounts.insert(resource.to_owned(), Quantity(amount.clone()));
        }
    }
}

/// The init container. Its resources are those of the runner: a pod needs as much as the larger of
/// the two, and what a namespace's quota and limits ask of one holds for the other. It gets no
/// variable, so that it has no claim code.
fn inject(runner: &Container, with_git: bool) -> Container {
    let mut context = runner.security_context.clone().unwrap_or_default();
    context.read_only_root_filesystem = Some(true);
    let mounts = runner.volume_mounts.iter().flatten();
    let mut mounts: Vec<_> = mounts.filter(|mount| replaces_certificates(mount)).cloned().collect();
    mounts.push(mount(WORK_VOLUME, INJECT_DIRECTORY));
    let option = with_git.then_some("--git");
    Container {
        name: INJECT.to_owned(),
        image: runner.image.clone(),
        image_pull_policy: runner.image_pull_policy.clone(),
        // The image's entry point is the runner, as for modules.
        args: Some(
            ["inject", INJECT_DIRECTORY].into_iter().chain(option).map(str::to_owned).collect(),
        ),
        resources: runner.resources.clone(),
        security_context: Some(context),
        // Its error is then in the pod's status.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

/// `subPathExpr` refers to variables, which the init container does not have.
fn replaces_certificates(mount: &VolumeMount) -> bool {
    let rest = mount.mount_path.strip_prefix(CERTIFICATES_DIRECTORY);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        && mount.sub_path_expr.is_none()
}

/// Adds the init container after those of the template, which may prepare certificates, and limits
/// the volume.
pub(super) fn add_inject(spec: &mut PodSpec, inject: Container) {
    spec.init_containers.get_or_insert_default().push(inject);
    for volume in spec.volumes.iter_mut().flatten().filter(|volume| volume.name == WORK_VOLUME) {
        volume.empty_dir.get_or_insert_default().size_limit = Some(Quantity(SIZE_LIMIT.to_owned()));
    }
}
